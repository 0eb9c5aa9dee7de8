"""The interface through which a rollout uses an agent."""

import copy
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from decision_rnn.agent import ActingState, DecisionAgent
from decision_rnn.config import EvaluationConfig, RunConfig
from decision_rnn.data.spec import DatasetSpec


class Actor(Protocol):
    """Acts in a batch of environments, one step at a time.

    Its observations and actions are rows of numbers, as `layouts.Layout` makes them.
    """

    def initial_state(self, target: Tensor) -> ActingState:
        """The state before the first step, for targets (batch,)."""

    def act(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, Tensor | None]:
        """Choose an action for every environment of a batch.

        Args:
            observation: (batch, observation_dim).
            reward: (batch,), the reward of the previous action; ignored on the first step of an episode.
            state: From `initial_state` or the previous call, or a selection of its rows.

        Returns:
            Actions, (batch, action_dim), the state to pass to the next call, and the condition's values, (batch, size),
            if they are known.
        """


class RecurrentActor:
    """Acts with a state that is carried over the episode.

    Args:
        agent: From `prepare_to_act`.
        sample: Whether actions are sampled.
    """

    def __init__(self, agent: DecisionAgent, sample: bool = False) -> None:
        self.agent, self.sample = agent, sample

    def initial_state(self, target: Tensor) -> ActingState:
        return self.agent.initial_state(target)

    def act(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, Tensor]:
        return self.agent.act(observation, reward, state, self.sample)


@torch.no_grad()
def prepare_to_act(agent: DecisionAgent) -> DecisionAgent:
    """Copy the agent to the CPU, in evaluation mode, with the weights of its linear layers stored transposed.

    A product with a small batch otherwise spends a third of its time on transposing them. The values are unchanged.
    """
    agent = copy.deepcopy(agent).cpu().eval()
    for module in agent.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()
    return agent


def window_of(settings: EvaluationConfig) -> int | None:
    """The number of steps that an agent re-runs for every action; None where its state is carried."""
    return settings.window if settings.inference == "window" else None


def describe_acting(window: int | None, actions: str = "greedy") -> str:
    """Describe in a few words whether an agent carries its state or re-runs a window of steps, and whether it samples
    its actions."""
    state = "carried state" if window is None else f"window of {window}"
    return f"{state}, sampled actions" if actions == "sampled" else state


class WindowActor:
    """Acts by re-running the last `window` steps from the initial state: the Decision Transformer's protocol.

    The memory of its state is the agent's inputs in these steps, (batch, window, ...): the condition's values,
    observations and previous actions.
    """

    def __init__(self, agent: DecisionAgent, window: int, sample: bool = False) -> None:
        self.agent, self.window, self.sample = agent, window, sample

    def initial_state(self, target: Tensor) -> ActingState:
        state = self.agent.initial_state(target)
        sizes = (self.agent.condition.size, self.agent.observation_dim, self.agent.action_dim)
        memory = (state.previous_action.new_zeros(len(target), self.window, size) for size in sizes)
        return state._replace(memory=tuple(memory))

    def act(self, observation: Tensor, reward: Tensor, state: ActingState) -> tuple[Tensor, ActingState, Tensor]:
        value, condition = self.agent.condition.step(state.condition, reward, state.timestep == 0)
        newest = value, observation[:, : self.agent.observation_dim], state.previous_action
        window = [torch.cat([old[:, 1:], new[:, None]], 1) for old, new in zip(state.memory, newest, strict=True)]
        steps = min(int(state.timestep.max()) + 1, self.window)
        # A row's steps before its episode have timestep 0, which is a reset: what is before it has no effect.
        ago = torch.arange(steps - 1, -1, -1, device=state.timestep.device)
        timesteps = (state.timestep[:, None] - ago).clamp_min(0)
        values, observations, previous_actions = (part[:, -steps:] for part in window)
        actions, _, values = self.agent.predict(
            values, observations, previous_actions, timesteps, timesteps == 0, sample=self.sample
        )
        action = actions[:, -1]
        return action, ActingState(condition, action, state.timestep + 1, tuple(window)), values[:, -1]


def actor_of(agent: DecisionAgent, settings: EvaluationConfig) -> RecurrentActor | WindowActor:
    """A copy of the agent, ready to act as the settings say: with a carried state or a window of steps, greedily or by
    samples. InputError if its objective cannot act so."""
    agent.check_acting(settings.actions, settings.inference)
    agent, window, sample = prepare_to_act(agent), window_of(settings), settings.actions == "sampled"
    return RecurrentActor(agent, sample) if window is None else WindowActor(agent, window, sample)


@dataclass(frozen=True)
class EvaluatedPolicy:
    """An actor with what its Result reports of it; the other attributes are described there.

    Attributes:
        actor: In evaluation mode, on the CPU; it carries its state or re-runs a window, as the settings say.
        provenance: The data it was trained on.
        seconds: Wall time of its training.
        cost: Microseconds of an action and bytes of the state, as from `action_cost`; None if not measured.
    """

    actor: Actor
    config: RunConfig
    provenance: DatasetSpec
    step: int
    seconds: float
    parameters: int
    backbone_parameters: int
    cost: tuple[float, int] | None = None
