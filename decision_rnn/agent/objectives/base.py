"""The interface of a training objective: an output head, its loss, and the actions that it chooses.

An objective is registered here or in a user's module, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import gymnasium
from torch import Tensor, nn

from decision_rnn.agent.spaces import AgentSpec
from decision_rnn.backbones import State
from decision_rnn.data.stream import Batch
from decision_rnn.environments.layouts import Layout
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import config_dataclass
from decision_rnn.utils.registry import Class, ClassRegistry

Metrics = Mapping[str, Tensor]
"""Scalars by name, which are logged with the loss."""


@config_dataclass
class ObjectiveConfig:
    """Options that all objectives share.

    Attributes:
        name: The objective's name.
    """

    name: str


OBJECTIVES: ClassRegistry[ObjectiveConfig] = ClassRegistry("objective")


def register_objective(config: type[ObjectiveConfig]) -> Callable[[Class], Class]:
    """Class decorator: register an objective under the name in its configuration class; see `ClassRegistry`."""
    return OBJECTIVES.register(config)


class Objective(nn.Module, ABC):
    """Maps the agent's hidden states to a loss in training and to actions in the environment.

    It is created as `Objective(config, spec)`, where `config` is of the class it was registered with and `spec`, an
    `AgentSpec`, has the width of the hidden states, the spaces, the data's statistics and the return scale.
    A subclass of an objective that has `sample` or `guided` and overrides `action` overrides them as well.
    """

    @abstractmethod
    def loss(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Metrics]:
        """The loss that training minimises, and metrics to log.

        Args:
            hidden: (batch, time, width), float32, the hidden state at every step, which depends on all of the step's
                inputs.
            batch: The batch, with actions in a Box scaled to [-1, 1], and discrete actions as one-hot vectors.

        Returns:
            A scalar in float32, the mean over batch and time, and scalars by name.
        """

    @abstractmethod
    def action(self, hidden: Tensor) -> Tensor:
        """The actions to take, (..., action_dim), at hidden states (..., width): within [-1, 1] in a Box, which the
        agent scales to the action space, and one-hot vectors for discrete actions."""

    def sample(self, hidden: Tensor) -> Tensor:
        """Sampled actions, as `action`, where `evaluation.actions` is `sampled`; optional."""
        raise NotImplementedError

    def guided(self, hidden: Tensor, unconditional: Tensor, weight: float, sample: bool = False) -> Tensor:
        """Actions with classifier-free guidance, as `action` or, if `sample`, as `sample`, (..., action_dim); optional.

        Args:
            hidden: (..., width), hidden states with the condition.
            unconditional: (..., width), the same without it.
            weight: `condition.guidance`: 0 is the unconditional policy, 1 the conditional one.
        """
        raise NotImplementedError

    def initial_state(self, batch_size: int) -> State:
        """What `step` carries through an episode, such as a plan, before its first step; nothing by default."""
        return ()

    def step(self, hidden: Tensor, timestep: Tensor, state: State) -> tuple[Tensor, State]:
        """Choose the acting agent's actions, by default those of `action`.

        Args:
            hidden: (batch, width).
            timestep: (batch,) int64, steps since the episode's start.
            state: From `initial_state` or the previous call.

        Returns:
            Actions, (batch, action_dim), and the state for the next call.
        """
        return self.action(hidden), state


def box_size(spec: AgentSpec, objective: str) -> int:
    """The number of action entries, for an objective that acts in a Box alone; InputError for other spaces."""
    if not isinstance(spec.action_space, gymnasium.spaces.Box):
        raise InputError(f"objective {objective} needs actions in a Box, not {spec.action_space}. Use objective mse.")
    return Layout.of_space(spec.action_space, "actions").size
