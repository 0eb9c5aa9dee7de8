"""The interface through which a rollout uses an agent."""

import copy
from typing import Protocol

import torch
from torch import Tensor, nn

from decision_rnn.agent import ActingState, DecisionAgent
from decision_rnn.config import EvaluationConfig


class Actor(Protocol):
    """Acts in a batch of environments, one step at a time; DecisionAgent is an Actor.

    Its observations and actions are rows of numbers, as `layouts.Layout` makes them.
    """

    def initial_state(self, target_return: Tensor) -> ActingState:
        """The state before the first step, for target returns (batch,)."""

    def act(
        self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: ActingState
    ) -> tuple[Tensor, ActingState]:
        """Choose an action for every environment of a batch.

        Args:
            observation: (batch, observation_dim).
            reward: (batch,), the reward of the previous action; ignored on the first step of an episode.
            reset: (batch,) bool, true where a new episode begins; None if none does.
            state: From `initial_state` or the previous call, or a selection of its rows.

        Returns:
            Actions, (batch, action_dim), and the state to pass to the next call.
        """


@torch.no_grad()
def prepare_to_act(agent: DecisionAgent) -> DecisionAgent:
    """Copy the agent to the CPU, in evaluation mode, laid out for short steps; it must not be changed again.

    The weights of its linear layers are stored transposed: a product with a small batch otherwise spends a third of its
    time on transposing them. Weights and parts of modules are plain attributes as well, which saves a seventh of a step
    of one environment: modules look theirs up in Python, ninety times. The values are unchanged.
    """
    agent = copy.deepcopy(agent).cpu().eval()
    for module in agent.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()
    agent.joined_embedding = agent.join_embeddings()
    for module in agent.modules():
        vars(module).update({**module._parameters, **module._buffers, **module._modules})
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

    The memory of its state is what the agent was shown in these steps, (batch, window, ...): the condition's values,
    observations and previous actions.
    """

    def __init__(self, agent: DecisionAgent, window: int) -> None:
        self.agent = agent
        self.window = window

    @property
    def shown(self) -> Tensor | None:
        """As `DecisionAgent.shown`."""
        return self.agent.shown

    def initial_state(self, target_return: Tensor) -> ActingState:
        state = self.agent.initial_state(target_return)
        sizes = (self.agent.condition.size, self.agent.observation_dim, self.agent.action_dim)
        memory = (state.previous_action.new_zeros(len(target_return), self.window, size) for size in sizes)
        return state._replace(memory=tuple(memory))

    def act(
        self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: ActingState
    ) -> tuple[Tensor, ActingState]:
        condition = self.agent.condition
        if reset is not None:
            initial = self.initial_state(torch.zeros_like(reward))
            state = state.replaced(initial._replace(condition=condition.restart(state.condition)), reset)
        asked, after = condition.advance(state.condition, reward, state.timestep == 0)
        newest = asked, observation[:, : self.agent.observation_dim], state.previous_action
        window = [torch.cat([old[:, 1:], new[:, None]], 1) for old, new in zip(state.memory, newest, strict=True)]
        steps = min(int(state.timestep.max()) + 1, self.window)
        # A row's steps before its episode have timestep 0, which is a reset: what is before it is not seen.
        ago = torch.arange(steps - 1, -1, -1, device=state.timestep.device)
        timesteps = (state.timestep[:, None] - ago).clamp_min(0)
        values, observations, previous_actions = (part[:, -steps:] for part in window)
        begins = timesteps == 0
        actions, _ = self.agent.predict(values, observations, previous_actions, timesteps, begins)
        action = actions[:, -1]
        return action, ActingState(after, action, state.timestep + 1, tuple(window))


def actor_of(agent: DecisionAgent, settings: EvaluationConfig) -> DecisionAgent | WindowActor:
    """A copy of the agent, ready to act as the settings say: with a carried state or a window of steps, greedily or by
    samples. InputError if its objective cannot act so."""
    agent.check_acting(settings.actions, settings.inference)
    ready, window = prepare_to_act(agent), window_of(settings)
    ready.sampling = settings.actions == "sampled"
    return ready if window is None else WindowActor(ready, window)
