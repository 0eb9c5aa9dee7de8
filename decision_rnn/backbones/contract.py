"""The interface of a sequence layer, the options that all share, and the registry of backbones.

The contract, which `check_mixer` and tests/contract/ check: `forward` over T steps, T calls of `step`, and any split of
the T steps into chunks with the state carried give the same outputs, final state and gradients, with resets anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from decision_rnn.utils.parsing import NonNegativeFloat, PositiveInt
from decision_rnn.utils.parsing import config_dataclass as config_dataclass
from decision_rnn.utils.registry import Class, ClassRegistry

State = tuple[Tensor, ...]
"""A mixer's recurrent state: tensors with the batch first, whose sizes do not grow with time."""


class SequenceMixer(nn.Module, ABC):
    """A causal map over time, run in parallel for training and one step at a time for acting.

    The stack calls `forward` on segments of many episodes laid end to end and `step` once per environment step. A mixer
    is created as `Mixer(config)`, where `config` is of the class it was registered with.

    `forgets_slowly` means that the mixer's memory fades over hundreds of steps or never, for layers whose configuration
    has no half-lives (time_scales.py). If it is trained on short segments that start from the initial state, then a
    state carried over a whole episode leaves the range it was trained on.
    """

    forgets_slowly: ClassVar[bool] = False

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """The state before an episode's first step, on the parameters' device."""

    @abstractmethod
    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        """Map a segment of time in parallel.

        Args:
            x: (batch, time, width).
            state: The state before the first step; the initial state if left out.
            reset: (batch, time) bool, true where an episode begins: the state before that step is the initial state.

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
        """Parameters of the recurrence itself, trained by AdamW without weight decay, at `recurrent_learning_rate`,
        without those of mixers inside this one."""
        return ()

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """The learning rate of `recurrent_parameters`, given the learning rate of all other parameters."""
        return learning_rate


class Layer(SequenceMixer):
    """A mixer whose state and recurrent parameters are declared.

    Args:
        shapes: The shape of each part of the state, without the batch.
        start: The number with which each part begins; 0 if left out.
    """

    recurrent_names: ClassVar[tuple[str, ...]] = ()
    """Names of the recurrent parameters; one that the module lacks is skipped."""

    def __init__(self, *shapes: tuple[int, ...], start: tuple[float, ...] = ()) -> None:
        super().__init__()
        self.state_parts = list(zip(shapes, start or [0.0] * len(shapes), strict=True))

    def initial_state(self, batch_size: int) -> State:
        like = next(self.parameters())
        return tuple(like.new_full((batch_size, *shape), number) for shape, number in self.state_parts)

    def recurrent_parameters(self) -> Iterable[nn.Parameter]:
        return [part for name in self.recurrent_names if (part := getattr(self, name, None)) is not None]


def run_stepwise(
    module: SequenceMixer, x: Tensor, state: State | None = None, reset: Tensor | None = None
) -> tuple[Tensor, State]:
    """Run a mixer as in acting, one `step` after the other; arguments and result as for `SequenceMixer.forward`."""
    initial = module.initial_state(len(x))
    return run_steps(module.step, x, initial if state is None else state, initial, reset)


def run_steps(
    step: Callable[[Tensor, State], tuple[Tensor, State]],
    x: Tensor,
    state: State,
    initial: State,
    reset: Tensor | None,
) -> tuple[Tensor, State]:
    """Call `step` for every time of x, (batch, time, ...), from `state`; rows begin again from `initial` at resets."""
    outputs = []
    for t, x_t in enumerate(x.unbind(1)):
        if reset is not None:
            state = reset_rows(state, initial, reset[:, t])
        y, state = step(x_t, state)
        outputs.append(y)
    return torch.stack(outputs, dim=1), state


def select_rows(state: State, rows: Tensor) -> State:
    """The state of selected rows of the batch; `rows`: indices (n,) or a mask (batch,)."""
    return tuple(part[rows] for part in state)


def reset_rows(state: State, initial: State, reset: Tensor) -> State:
    """Replace the rows in which `reset`, (batch,) bool, is true by those of the initial state."""
    return tuple(
        part if part is start else torch.where(reset[(..., *[None] * (part.dim() - 1))], start, part)
        for part, start in zip(state, initial, strict=True)
    )


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off on the device of x; a no-op where it is off, which saves ten microseconds a step."""
    return torch.autocast(x.device.type, enabled=False) if torch.is_autocast_enabled(x.device.type) else nullcontext()


Kernel = Annotated[int, Field(ge=2)]


@config_dataclass
class BackboneConfig:
    """The part of a backbone's configuration that all backbones share.

    Attributes:
        name: The sequence mixer's name.
        width: Channels of the residual stream.
        layers: Number of blocks of mixer and MLP.
        mlp_ratio: Hidden width of the MLP as a multiple of `width`; 0 for no MLP.
        dropout: Probability of dropping a channel of the embedding and of each residual branch.
        norm: `layer`, LayerNorm, or `rms`, RMSNorm, for all norms of the stack.
        convolution: Kernel size, in tokens, of a causal convolution in front of every mixer; 0 for none.
    """

    name: str
    width: PositiveInt = 128
    layers: PositiveInt = 3
    mlp_ratio: NonNegativeFloat = 4.0
    dropout: Annotated[float, Field(ge=0, le=1)] = 0.0
    norm: Literal["layer", "rms"] = "layer"
    convolution: Literal[0] | Kernel = 0

    def __post_init__(self) -> None:
        """Raise ValueError, naming the key, if values exclude each other; subclasses extend it."""
        for key in ("mlp_ratio", "expansion"):
            if (ratio := getattr(self, key, 0)) and round(self.width * ratio) < 1:
                raise ValueError(f"backbone.{key} {ratio} leaves no channel of backbone.width {self.width}")


@config_dataclass
class HeadsConfig(BackboneConfig):
    """The part of a configuration that layers share whose channels are divided into heads.

    Attributes:
        heads: Number of heads, which must divide `width`.
    """

    heads: PositiveInt = 4
    rotary: ClassVar[bool] = False
    normalizes_heads: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        factor = 2 * self.heads if self.rotary else self.heads
        if self.width % factor:
            raise ValueError(f"backbone.width {self.width} must be a multiple of {factor}, for backbone.heads")
        if self.normalizes_heads and self.width == self.heads:  # the norm of one channel is zero
            raise ValueError(f"backbone.heads {self.heads} leaves a head less than two channels")


BACKBONES: ClassRegistry[BackboneConfig] = ClassRegistry("backbone")
registered = BACKBONES.registered


def register_backbone(config: type[BackboneConfig]) -> Callable[[Class], Class]:
    """Class decorator: register a mixer under the name in its configuration class; see `ClassRegistry`."""
    return BACKBONES.register(config)
