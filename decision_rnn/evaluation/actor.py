"""The interface through which a rollout uses an agent."""

import copy
from typing import Protocol

import torch
from torch import Tensor, nn

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import State
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

    All rows of the batch are at the same step of their episodes. The state holds target returns and previous actions;
    after the first step also the returns-to-go, observations, previous actions and timesteps of up to `window` steps,
    (batch, steps, ...).
    """

    def __init__(self, agent: DecisionAgent, window: int) -> None:
        self.agent = agent
        self.window = window

    def initial_state(self, target_return: Tensor) -> State:
        return target_return, target_return.new_zeros(len(target_return), self.agent.action_dim)

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        if reset is not None:
            raise ValueError("a window cannot hold episodes that begin at different steps")
        target, action, *window = state
        newest = [
            window[0][:, -1:] - reward[:, None, None] if window else target[:, None, None],
            observation[:, None],
            action[:, None],
            window[3][:, -1:] + 1 if window else torch.zeros(len(target), 1, dtype=torch.int64, device=target.device),
        ]
        if window:
            newest = [torch.cat(parts, dim=1)[:, -self.window :] for parts in zip(window, newest, strict=True)]
        returns_to_go, observations, previous_actions, timesteps = newest
        actions, _ = self.agent.predict(returns_to_go, observations, previous_actions, timesteps, timesteps == 0)
        return actions[:, -1], (target, actions[:, -1], *newest)


def actor_of(agent: DecisionAgent, window: int | None) -> DecisionAgent | WindowActor:
    """The actor of an agent: the agent itself, which carries its state, or one that re-runs a window of steps."""
    return agent if window is None else WindowActor(agent, window)
