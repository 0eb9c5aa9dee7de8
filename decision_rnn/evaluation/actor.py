"""The interface through which a rollout uses an agent."""

import copy
from typing import Protocol

import torch
from torch import Tensor, nn

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import State, reset_rows
from decision_rnn.config import EvaluationConfig


class Actor(Protocol):
    """Acts in a batch of environments, one step at a time; DecisionAgent is an Actor."""

    def initial_state(self, target_return: Tensor) -> State:
        """The state before the first step, for target returns (batch,): tensors with the batch dimension first."""

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Choose an action for every environment of a batch.

        Args:
            observation: (batch, observation_dim).
            reward: (batch,), the reward of the previous action; ignored on the first step of an episode.
            reset: (batch,) bool, true where a new episode begins; None if none does.
            state: From `initial_state` or the previous call, or a selection of its rows.

        Returns:
            Actions, (batch, action_dim), and the state to pass to the next call.
        """


def prepare_to_act(agent: DecisionAgent) -> DecisionAgent:
    """Copy the agent to the CPU, in evaluation mode, with the weights of its linear layers stored transposed.

    A product with a small batch otherwise spends a third of its time on transposing the weights. The values are
    unchanged.
    """
    agent = copy.deepcopy(agent).cpu().eval()
    for module in agent.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()
    return agent


def window_of(settings: EvaluationConfig) -> int | None:
    """The number of steps that an agent re-runs for every action; None where its state is carried."""
    return settings.window if settings.state == "window" else None


def describe_state(window: int | None) -> str:
    """Describe in two or three words whether an agent carries its state or re-runs a window of steps."""
    return "carried state" if window is None else f"window of {window}"


class WindowActor:
    """Acts by re-running the last `window` steps from the initial state: the Decision Transformer's protocol.

    The state begins as the agent's does: target, return-to-go, previous action and timestep. Its memory is what the
    agent was shown in the last `window` steps, (batch, window, ...): returns-to-go, observations, previous actions.
    """

    def __init__(self, agent: DecisionAgent, window: int) -> None:
        self.agent = agent
        self.window = window

    def initial_state(self, target_return: Tensor) -> State:
        target, return_to_go, action, timestep, *_ = self.agent.initial_state(target_return)
        sizes = (1, self.agent.observation_dim, self.agent.action_dim)
        return target, return_to_go, action, timestep, *(action.new_zeros(len(action), self.window, n) for n in sizes)

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        if reset is not None:
            state = reset_rows(state, self.initial_state(state[0]), reset)
        (target, return_to_go, previous_action, timestep), memory = state[:4], state[4:]
        return_to_go = torch.where(timestep == 0, target, return_to_go - reward)
        newest = return_to_go[:, None], observation[:, : self.agent.observation_dim], previous_action
        memory = tuple(torch.cat([old[:, 1:], new[:, None]], dim=1) for old, new in zip(memory, newest, strict=True))
        steps = min(int(timestep.max()) + 1, self.window)
        # Steps before a row's episode have timestep 0, which is a reset: the backbone does not see what is before it.
        timesteps = (timestep[:, None] - torch.arange(steps - 1, -1, -1, device=timestep.device)).clamp_min(0)
        actions, _ = self.agent.predict(*(part[:, -steps:] for part in memory), timesteps, timesteps == 0)
        action = actions[:, -1]
        return action, (target, return_to_go, action, timestep + 1, *memory)


def actor_of(agent: DecisionAgent, window: int | None) -> DecisionAgent | WindowActor:
    """The actor of an agent: the agent itself, which carries its state, or one that re-runs a window of steps."""
    return agent if window is None else WindowActor(agent, window)
