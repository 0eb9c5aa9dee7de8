"""The interface of a sequence layer.

The contract, which `decision_rnn.testing.check_mixer` and tests/contract/ check: `forward` over T steps, T calls of
`step`, and any split of the T steps into chunks with the state carried give the same outputs, final state and
gradients, with resets anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import torch
from torch import Tensor, nn

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
        """Parameters of the recurrence itself, trained by AdamW without weight decay, at `recurrent_learning_rate`."""
        return ()

    def recurrent_learning_rate(self, learning_rate: float) -> float:
        """The learning rate of `recurrent_parameters`, given the learning rate of all other parameters."""
        return learning_rate


def steps(
    module: SequenceMixer, x: Tensor, state: State | None = None, reset: Tensor | None = None
) -> tuple[Tensor, State]:
    """Run a mixer as in acting, one `step` after the other; arguments and result as for `SequenceMixer.forward`."""
    initial, outputs = module.initial_state(len(x)), []
    state = initial if state is None else state
    for t in range(x.shape[1]):
        if reset is not None:
            state = reset_rows(state, initial, reset[:, t])
        y, state = module.step(x[:, t], state)
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
    """Turn autocast off on the device of x; without autocast nothing, which saves ten microseconds a step."""
    return torch.autocast(x.device.type, enabled=False) if torch.is_autocast_enabled(x.device.type) else nullcontext()
