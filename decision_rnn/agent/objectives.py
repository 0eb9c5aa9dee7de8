"""Training objectives: the head on the agent's hidden states, its loss and its actions.

An objective is defined here or in a user's module, which `--plugins` imports.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from decision_rnn.agent.config import OBJECTIVES as OBJECTIVES
from decision_rnn.agent.config import MSEConfig, register_objective
from decision_rnn.agent.config import ObjectiveConfig as ObjectiveConfig
from decision_rnn.agent.spaces import Head, head_of
from decision_rnn.agent.spec import AgentSpec
from decision_rnn.backbones.contract import State
from decision_rnn.data.stream import Batch
from decision_rnn.utils.errors import InputError

if TYPE_CHECKING:
    from decision_rnn.agent.agent import DecisionAgent

Metrics = Mapping[str, Tensor]
"""Scalars by name, which are logged beside the loss."""


class Objective(nn.Module, ABC):
    """Maps the agent's hidden states to a loss in training and to actions in the environment.

    It is created as `Objective(config, spec)`, where `config` is of the class it was registered with and `spec`, an
    `AgentSpec`, has the width of the hidden states, the spaces, the data's statistics and the return scale.
    """

    samples: bool = False
    """Whether `sample` is defined."""

    @abstractmethod
    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """The loss that training minimises, and metrics to log.

        Args:
            hidden: (batch, time, tokens, width), the hidden state after every token, in float32. A step has one token,
                or with `agent.tokens interleaved` one per input; the last one has seen all of the step's inputs.
            batch: The batch, with actions in a Box scaled to [-1, 1], and discrete actions as one-hot vectors.

        Returns:
            A scalar in float32, the mean over batch and time, and scalars by name.
        """

    @abstractmethod
    def action(self, hidden: Tensor) -> Tensor:
        """The actions to take, (..., action_dim) within [-1, 1], at hidden states (..., tokens, width): one-hot vectors
        for discrete actions, others are scaled to the action space by the agent."""

    def sample(self, hidden: Tensor) -> Tensor:
        """Actions drawn with their probabilities, as `action`, where `evaluation.actions` is `sampled`."""
        raise NotImplementedError

    def initial_state(self, batch: int) -> State:
        """What `act` carries through an episode, such as a plan, before its first step: tensors with the batch first;
        none by default."""
        return ()

    def act(self, hidden: Tensor, timestep: Tensor, state: State) -> tuple[Tensor, State]:
        """The actions, (batch, action_dim), that the acting agent takes, by default those of `action`; called at every
        step, with hidden states (batch, tokens, width), the steps since the episode's start, (batch,) int64, and the
        state from the step before. Returns the state for the next one too."""
        return self.action(hidden), state


@register_objective(MSEConfig)
class MSE(Objective):
    """Predicts the data's actions, as in Chen et al., "Decision Transformer" (2021): the mean squared error of actions
    tanh(W h + b) in a Box, the cross-entropy of discrete ones."""

    def __init__(self, config: ObjectiveConfig, spec: AgentSpec, head: Head | None = None) -> None:
        super().__init__()
        self.head = head_of(spec) if head is None else head
        self.samples = self.head.samples

    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        return self.head.loss(hidden[..., -1, :], batch.action)

    def action(self, hidden: Tensor) -> Tensor:
        return self.head(hidden[..., -1, :])

    def sample(self, hidden: Tensor) -> Tensor:
        return self.head.sample(hidden[..., -1, :])


def check_objective(agent: "DecisionAgent", batch: Batch, name: str) -> None:
    """Check an objective's rules on a batch, with a copy of the agent and without using up random numbers.

    Raises:
        InputError: Naming the rule, if the loss is not a finite scalar with a gradient, a metric is not a scalar, or
            the actions have another shape than the data's or leave [-1, 1].
    """
    agent = copy.deepcopy(agent)
    inputs = batch.observation, batch.previous_action, batch.timestep, batch.reset
    with torch.random.fork_rng():
        hidden, _ = agent.hidden(agent.condition.from_batch(batch), *inputs, None)
        loss, metrics = agent.objective.loss(hidden, agent.scaled(batch))
        with torch.inference_mode():
            asked = agent.eval().condition.from_batch(batch)
            actions = agent.objective.action(agent.hidden(asked, *inputs, None)[0])
    fault = None
    if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
        found = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        fault = f"its loss is {found}: return a scalar, the mean over batch and time"
    elif not loss.requires_grad:
        fault = "its loss has no gradient: compute it from the hidden states"
    elif not loss.isfinite():
        fault = f"its loss is {loss.item()} before the first step: check the formula and the data"
    elif wrong := [key for key, value in metrics.items() if torch.as_tensor(value).numel() != 1]:
        fault = f"its metric {wrong[0]} is not a scalar: return the mean over batch and time"
    elif actions.shape != batch.action.shape:
        fault = f"its actions have shape {tuple(actions.shape)}: return one for each of {tuple(batch.action.shape)}"
    elif actions.abs().max() > 1 + 1e-5:
        fault = f"its actions reach {actions.abs().max():.3g}, outside [-1, 1]: bound them, as by tanh"
    if fault:
        raise InputError(f"the objective {name} breaks a rule: {fault}")
