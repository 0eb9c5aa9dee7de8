"""What acts in an environment: all that a rollout knows of an agent."""

import copy
from typing import Protocol

import torch
from torch import Tensor, nn

from decision_rnn.agent import DecisionAgent
from decision_rnn.backbones import State
from decision_rnn.config import EvaluationConfig


class Actor(Protocol):
    """Something that acts in a batch of environments, one step at a time; DecisionAgent is one."""

    def initial_state(self, target_return: Tensor) -> State:
        """What it remembers before the first step, for target returns (batch,); tensors with the batch first."""

    def act(self, observation: Tensor, reward: Tensor, reset: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Take one step in every environment of a batch.

        Args:
            observation: (batch, observation_dim).
            reward: (batch,), what the previous action earned; ignored where an episode begins.
            reset: (batch,) bool, true where a new episode begins; None for nowhere.
            state: From `initial_state` or the previous call; its rows may be a selection of the previous call's.

        Returns:
            Actions, (batch, action_dim), and the state to hand to the next call.
        """


def prepare_to_act(agent: DecisionAgent) -> DecisionAgent:
    """A copy on the CPU, in evaluation mode, whose linear maps lie in memory transposed.

    That is how their products with a small batch read them: such a product spends a third of its time on bringing a
    matrix into that order. The values are the same.
    """
    agent = copy.deepcopy(agent).cpu().eval()
    for module in agent.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.t().contiguous().t()
    return agent


def window_of(settings: EvaluationConfig) -> int | None:
    """The steps that an agent re-runs for every action under those settings; None where its state is carried."""
    return settings.window if settings.state == "window" else None


def describe_state(window: int | None) -> str:
    """How an agent acts, in two or three words: by a carried state, or by a window of so many steps."""
    return "carried state" if window is None else f"window of {window}"


class WindowActor:
    """Acts by re-running the last `window` steps from the initial state: the Decision Transformer's protocol.

    All rows of the batch are at the same step of their episodes. State: targets and previous actions; from the first
    step on also the returns-to-go, observations, previous actions and timesteps of up to `window` steps, (batch,
    steps, ...).
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
    """What acts by an agent: itself, which carries its state, or by a window of so many steps."""
    return agent if window is None else WindowActor(agent, window)
