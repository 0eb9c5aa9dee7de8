"""Resets and full precision for kernels, such as torch's recurrent layers, that support neither."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State, reset_rows
from decision_rnn.backbones.resets import Resets

CUT_STEPS = 6
"""One more call of a torch kernel costs as much time as the kernel saves over the equations in about this many steps
(forward and backward, width 128, one CPU core: 10 for GRU, 5 for LSTM, whose kernel saves the most, less for RNN)."""


class KernelMixer(SequenceMixer):
    """A mixer that is one of torch's recurrent layers. State: h, (batch, width), unless a subclass says otherwise.

    If few episodes begin in a slice, the kernel runs on the pieces of time between resets. If many do, one call per
    piece would cost more than a loop over the layer's equations, which resets rows at each step.
    """

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell

    def initial_state(self, batch_size: int) -> State:
        return (next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size),)

    def forward(self, x: Tensor, state: State | None = None, reset: Resets | None = None) -> tuple[Tensor, State]:
        mask = None if reset is None else reset.mask
        initial = self.initial_state(len(x))
        if mask is None or CUT_STEPS * len(_cuts(mask)) <= x.shape[1]:
            return run_segments(self._slice, x, state, initial, mask)
        return full_precision(partial(self._loop, reset=mask), x, initial if state is None else state)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return full_precision(self._step, x, state)

    def _slice(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Run the layer over a piece of time without resets."""
        y, h = self.cell(x, state[0].unsqueeze(0).contiguous())
        return y, (h.squeeze(0),)

    def _loop(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        """Run the layer's equations one step after the other, under autograd."""
        outputs = []
        driven, starts = self._drive(x.transpose(0, 1)), starting_rows(reset, x.shape[1])
        for driven_t, rows in zip(driven.unbind(0), starts, strict=True):
            if rows is not None:
                state = tuple(part.index_fill(0, rows, 0) for part in state)
            state = self._advance(driven_t, state)
            outputs.append(state[0])
        return torch.stack(outputs, dim=1), state

    @abstractmethod
    def _drive(self, x: Tensor) -> Tensor:
        """The contribution of x to the gates, (..., gates * width)."""

    @abstractmethod
    def _advance(self, driven: Tensor, state: State) -> State:
        """The state one step later, h first, given `_drive` of that step."""

    @abstractmethod
    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One step of the layer's cell: the output and the state after it."""


def run_segments(
    kernel: Callable[[Tensor, State], tuple[Tensor, State]],
    x: Tensor,
    state: State | None,
    initial: State,
    reset: Tensor | None,
) -> tuple[Tensor, State]:
    """Run a kernel over the pieces of time between resets, in the state's precision.

    Resets are rare, so most slices are a single piece.

    Args:
        kernel: Maps x, (batch, time, width), and the state before it to the output and the state after it.
        x: (batch, time, width).
        state: The state before the first step; `initial` if None.
        initial: The state before an episode's first step.
        reset: (batch, time) bool, true where a new episode begins.
    """

    def pieces(x: Tensor, state: State) -> tuple[Tensor, State]:
        if reset is None:
            return kernel(x, state)
        starts = sorted({0, *_cuts(reset)})
        lengths = [end - start for start, end in zip(starts, [*starts[1:], x.shape[1]], strict=True)]
        outputs = []
        for start, piece in zip(starts, x.split(lengths, dim=1), strict=True):
            y, state = kernel(piece, reset_rows(state, initial, reset[:, start]))
            outputs.append(y)
        return torch.cat(outputs, dim=1), state

    return full_precision(pieces, x, initial if state is None else state)


def keep_apart(
    masked: Callable[[Tensor, State | None, Tensor | None], tuple[Tensor, State]],
    x: Tensor,
    state: State | None,
    initial_state: Callable[[int], State],
    reset: Tensor | None,
) -> tuple[Tensor, State]:
    """Run a mixer that separates episodes by zero weights, so that infinities and NaN stay in their episode too.

    Zero times infinity is NaN, in the products of attention and in those of its gradient. If the masked computation
    gives a non-finite output, which takes a sum to detect (and on CUDA a synchronisation), the pieces of time between
    resets are run one after the other instead.

    Args:
        masked: `SequenceMixer.forward`, correct if all numbers are finite.
        x, state, reset: Its arguments.
        initial_state: The mixer's method.
    """
    if reset is None:
        return masked(x, state, None)
    if state is not None:
        state = reset_rows(state, initial_state(len(x)), reset[:, 0])
    y, after = masked(x, state, reset)
    if y.detach().sum(dtype=torch.float32).isfinite():
        return y, after
    return run_segments(lambda x, state: masked(x, state, None), x, state, initial_state(len(x)), reset)


def may_hold(flags: Tensor) -> bool:
    """Whether any flag may be true; always True on CUDA, where checking would synchronise with the device."""
    return flags.is_cuda or bool(flags.any())


def starting_rows(reset: Tensor | None, time: int) -> list[Tensor | None]:
    """For each of `time` steps, the rows in which an episode begins, (rows,), or None if there are none.

    Resets are rare, so that most steps cost nothing. Fill these rows rather than multiply them by zero, which would
    turn infinities into NaN.
    """
    starting: list[Tensor | None] = [None] * time
    if reset is None:
        return starting
    steps, rows = reset.T.nonzero(as_tuple=True)
    at, counts = steps.unique_consecutive(return_counts=True)
    for t, some in zip(at.tolist(), rows.split(counts.tolist()), strict=True):
        starting[t] = some
    return starting


def _cuts(reset: Tensor) -> list[int]:
    """The steps at which an episode begins in any row."""
    return reset.any(0).nonzero().flatten().tolist()


def fill_steps(x: Tensor, where: Tensor, value: float) -> Tensor:
    """x, (batch, time, ...), with `value` at the marked steps; `where`: (batch, time) bool.

    On a CPU, by the indices of the few marked steps: a mask broadcast over the channels is processed element by
    element. On CUDA by the mask: the indices would need a synchronisation.
    """
    if x.is_cuda:
        return x.masked_fill(where.view(*where.shape, *[1] * (x.dim() - 2)), value)
    return x.index_put(where.nonzero(as_tuple=True), x.new_tensor(value))


def full_precision(
    kernel: Callable[[Tensor, State], tuple[Tensor, State]], x: Tensor, state: State
) -> tuple[Tensor, State]:
    """Run a kernel in the state's precision also under autocast, which would round the state at every step."""
    if not torch.is_autocast_enabled(x.device.type):
        return kernel(x, state)
    with torch.autocast(x.device.type, enabled=False):
        return kernel(x.to(state[0].dtype), state)
