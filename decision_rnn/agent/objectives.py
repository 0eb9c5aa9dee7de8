"""Training objectives: the head on the agent's hidden states, its loss and its actions.

An objective is defined here or in a module of the user's own, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decision_rnn.registry import Class, Registry


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """The part of an objective's configuration that all objectives share.

    Attributes:
        name: The objective's name.
    """

    name: str


class Objective(nn.Module, ABC):
    """Maps the agent's hidden states to a loss in training and to actions in the environment.

    It is created as `Objective(config, width, action_dim)`; `config` is of the class it was registered with.

    Attributes:
        columns: The fields of data.stream.Batch that `loss` reads.
    """

    columns: ClassVar[tuple[str, ...]] = ("action",)

    @abstractmethod
    def loss(self, hidden: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
        """The loss that training minimises.

        Args:
            hidden: (batch, time, width). Linear layers return bfloat16 when training is in bfloat16.
            columns: The columns named by `columns`, each (batch, time, ...).

        Returns:
            A scalar in float32: the mean over batch and time.
        """

    @abstractmethod
    def action(self, hidden: Tensor) -> Tensor:
        """The actions to take, (..., action_dim) within [-1, 1], at hidden states (..., width)."""


OBJECTIVES: Registry[Objective, ObjectiveConfig] = Registry("objective")
registered_objective = OBJECTIVES.registered
registered_objectives = OBJECTIVES.names


def register_objective(config: type[ObjectiveConfig]) -> Callable[[Class], Class]:
    """Class decorator: register an objective under the name in its configuration class; see `Registry.register`."""
    return OBJECTIVES.register(config)


@dataclass(frozen=True, kw_only=True)
class SquaredErrorConfig(ObjectiveConfig):
    """Squared error of tanh actions."""

    name: str = "mse"


@register_objective(SquaredErrorConfig)
class SquaredError(Objective):
    """The mean squared error of actions tanh(W h + b), as in Chen et al., "Decision Transformer" (2021)."""

    def __init__(self, config: SquaredErrorConfig, width: int, action_dim: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, action_dim)

    def loss(self, hidden: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
        return F.mse_loss(self.action(hidden).float(), columns["action"])

    def action(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.head(hidden))
