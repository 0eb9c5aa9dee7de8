"""torch's recurrent kernels inside the contract: they know neither resets nor a float32 state under autocast."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State, reset_rows

CUT_STEPS = 6
"""A call more of torch's kernels costs about what so many steps of the equations cost more than the kernel's own
(forward and backward, width 128, one CPU core: 10 for GRU, 5 for LSTM, whose kernel gains the most, less for RNN)."""


class KernelMixer(SequenceMixer):
    """A mixer that is one of torch's recurrent layers. State: h, (batch, width), unless a subclass says otherwise.

    Where few episodes begin, the kernel runs over the pieces of time between them; where many do, a call for each
    piece costs more than the layer's equations written out, which reset rows as they go.
    """

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell

    def initial_state(self, batch_size: int) -> State:
        return (next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        initial = self.initial_state(len(x))
        if reset is None or CUT_STEPS * len(_cuts(reset)) <= x.shape[1]:
            return run_segments(self._slice, x, state, initial, reset)
        return full_precision(partial(self._loop, reset=reset), x, initial if state is None else state)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return full_precision(self._step, x, state)

    def _slice(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The layer over a piece of time without resets."""
        y, h = self.cell(x, state[0].unsqueeze(0).contiguous())
        return y, (h.squeeze(0),)

    def _loop(self, x: Tensor, state: State, reset: Tensor | None) -> tuple[Tensor, State]:
        """The layer's equations, one step after the other, under autograd."""
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
        """What x adds to the gates, (..., gates * width)."""

    @abstractmethod
    def _advance(self, driven: Tensor, state: State) -> State:
        """The state one step later, h first, from `_drive` of that step."""

    @abstractmethod
    def _step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The layer's cell."""


def run_segments(
    kernel: Callable[[Tensor, State], tuple[Tensor, State]],
    x: Tensor,
    state: State | None,
    initial: State,
    reset: Tensor | None,
) -> tuple[Tensor, State]:
    """Run a kernel over the pieces of time between resets, in the state's precision.

    Resets are rare, so that most slices are one piece and none costs more than its resets.

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
    """Run a mixer that parts episodes by weights of zero, so that also what is infinite or NaN stays in its own.

    Zero times infinity is NaN, in the products of attention and in those of its gradient. Where the masked way leaves
    such an output, which costs a sum to find out (and on CUDA the host's waiting for it), the pieces of time between
    resets are run one after the other.

    Args:
        masked: `SequenceMixer.forward`, right where all is finite.
        x, state, reset: Its arguments.
        initial_state: The mixer's.
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
    """Whether any flag is true; on CUDA yes, unasked: the host would wait for the device to answer."""
    return flags.is_cuda or bool(flags.any())


def starting_rows(reset: Tensor | None, time: int) -> list[Tensor | None]:
    """For each of `time` steps the rows that begin an episode there, (rows,), or None where none does.

    Resets are rare, so that most steps pay nothing. Rows are to be filled by these places, not multiplied by zero,
    which would leave NaN of what is infinite.
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

    By their places, which are few: a mask that spans the channels goes number by number on a CPU. On CUDA by the mask:
    the host would wait for the device to hear of the places.
    """
    if x.is_cuda:
        return x.masked_fill(where.view(*where.shape, *[1] * (x.dim() - 2)), value)
    return x.index_put(where.nonzero(as_tuple=True), x.new_tensor(value))


def full_precision(
    kernel: Callable[[Tensor, State], tuple[Tensor, State]], x: Tensor, state: State
) -> tuple[Tensor, State]:
    """Run a kernel in the state's precision, also under autocast, which would round its state at every step."""
    if not torch.is_autocast_enabled(x.device.type):
        return kernel(x, state)
    with torch.autocast(x.device.type, enabled=False):
        return kernel(x.to(state[0].dtype), state)
