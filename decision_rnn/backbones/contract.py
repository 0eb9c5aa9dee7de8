"""The interface of a sequence layer, and the registry of backbones.

The contract, checked by decision_rnn/testing/ for every registered mixer in tests/backbones/: `forward` over T steps, T
calls of `step`, and any split of the T steps into chunks with the state carried give the same outputs, final
state and gradients, with resets anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from decision_rnn.backbones.resets import Resets
from decision_rnn.registry import Class, Registry

State = tuple[Tensor, ...]
"""A mixer's recurrent state: tensors with the batch first, whose sizes do not grow with time."""


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The part of a backbone's configuration that all backbones share.

    Attributes:
        name: The sequence mixer's name.
        width: Channels of the residual stream.
        layers: Number of blocks of mixer and MLP.
        mlp_ratio: Hidden width of the MLP as a multiple of `width`; 0 for no MLP.
        dropout: Probability of dropping a channel of the embedding and of each residual branch.
        norm: `layer`, LayerNorm, or `rms`, RMSNorm, for all norms of the stack.
        convolution: Kernel size, in steps, of a causal convolution in front of every mixer; 0 for none.
    """

    name: str
    width: int = 128
    layers: int = 3
    mlp_ratio: float = 4.0
    dropout: float = 0.0
    norm: Literal["layer", "rms"] = "layer"
    convolution: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError, naming the key, if a value is invalid; subclasses extend it."""
        if self.width < 1 or self.layers < 1:
            raise ValueError(f"backbone.width {self.width} and backbone.layers {self.layers} must be at least 1")
        if self.mlp_ratio < 0:
            raise ValueError(f"backbone.mlp_ratio {self.mlp_ratio} must be 0, for no MLP, or above")
        if self.mlp_ratio and round(self.width * self.mlp_ratio) < 1:
            raise ValueError(f"backbone.mlp_ratio {self.mlp_ratio} leaves no channel of backbone.width {self.width}")
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"backbone.dropout {self.dropout} must be between 0 and 1")
        if self.norm not in ("layer", "rms"):
            raise ValueError(f"backbone.norm {self.norm!r} must be layer or rms")
        if self.convolution < 0 or self.convolution == 1:
            raise ValueError(f"backbone.convolution {self.convolution} must be 0, for none, or at least 2")


class SequenceMixer(nn.Module, ABC):
    """A causal map over time, run in parallel for training and one step at a time for acting.

    The stack calls `forward` on slices of many episodes laid end to end and `step` once per environment step. A mixer
    is created as `Mixer(config)`, where `config` is of the class it was registered with.

    `forgets_slowly` means that the mixer's memory fades over hundreds of steps or never, for layers whose configuration
    has no half-lives (time_scales.py). If it is trained on short slices that start from the initial state, then a state
    carried over a whole episode leaves the range it was trained on.
    """

    forgets_slowly: ClassVar[bool] = False

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """The state before an episode's first step, on the parameters' device."""

    @abstractmethod
    def forward(self, x: Tensor, state: State | None = None, reset: Resets | None = None) -> tuple[Tensor, State]:
        """Map a slice of time in parallel.

        Args:
            x: (batch, time, width).
            state: The state before the first step; the initial state if left out.
            reset: Where new episodes begin: the state before these steps is the initial state.

        Returns:
            The output, (batch, time, width), and the state after the last step.
        """

    @abstractmethod
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Map one step, (batch, width) -> (batch, width), in real arithmetic and constant memory."""

    def place_above(self, below: "SequenceMixer") -> None:
        """Called by the stack once, with the mixer of the block below, from the second block up: for mixers that depend
        on their depth."""

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        """Parameters of the recurrence itself, trained without weight decay and at `recurrent_learning_rate`."""
        return ()

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """The learning rate of `recurrent_parameters`, given the learning rate of all other parameters."""
        return learning_rate


def select_rows(state: State, rows: Tensor) -> State:
    """The state of selected rows of the batch; `rows`: indices (n,) or a mask (batch,)."""
    return tuple(part[rows] for part in state)


def reset_rows(state: State, initial: State, reset: Tensor) -> State:
    """Replace the rows in which `reset`, (batch,) bool, is true by those of the initial state."""
    return tuple(
        torch.where(reset.view(-1, *[1] * (part.dim() - 1)), start, part)
        for part, start in zip(state, initial, strict=True)
    )


BACKBONES: Registry[SequenceMixer, BackboneConfig] = Registry("backbone")
registered = BACKBONES.registered
registered_names = BACKBONES.names


def register(config: type[BackboneConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a mixer under the name in its configuration class; see `Registry.register`."""
    return BACKBONES.register(config)
