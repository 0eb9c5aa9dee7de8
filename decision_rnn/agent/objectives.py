"""Training objectives: the head on the agent's hidden states, its loss and its actions.

An objective is defined here or in a module of the user's own, which `--plugins` imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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


@dataclass(frozen=True)
class ObjectiveRegistration:
    """An objective and its configuration class."""

    objective: Callable[..., Objective]
    config: type[ObjectiveConfig]


_REGISTRY: dict[str, ObjectiveRegistration] = {}

ObjectiveClass = TypeVar("ObjectiveClass", bound=type[Objective])


def register_objective(config: type[ObjectiveConfig]) -> Callable[[ObjectiveClass], ObjectiveClass]:
    """Class decorator: register an objective under the name in its configuration class.

    Raises:
        ValueError: If the configuration class gives `name` no default, or the name is taken.
    """
    name = next(field.default for field in fields(config) if field.name == "name")
    if not isinstance(name, str):
        raise ValueError(f"{config.__name__} must give its field `name` a default: the name of the objective")

    def decorate(objective: ObjectiveClass) -> ObjectiveClass:
        if name in _REGISTRY:
            raise ValueError(
                f"the name {name!r} is taken by {_REGISTRY[name].objective!r}: give {config.__name__}.name another"
            )
        _REGISTRY[name] = ObjectiveRegistration(objective, config)
        return objective

    return decorate


def registered_objective(name: str) -> ObjectiveRegistration:
    """The objective of that name and its configuration class; no module is imported.

    Raises:
        KeyError: If no objective has that name; the message lists the known names.
    """
    if name not in _REGISTRY:
        raise KeyError(f"unknown objective {name!r}; known: {', '.join(registered_objectives())}")
    return _REGISTRY[name]


def registered_objectives() -> list[str]:
    """The names of all registered objectives, sorted."""
    return sorted(_REGISTRY)


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
