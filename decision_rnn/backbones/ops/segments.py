"""torch's recurrent kernels inside the contract: they know neither resets nor a float32 state under autocast."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from decision_rnn.backbones.contract import SequenceMixer, State, reset_rows


class KernelMixer(SequenceMixer):
    """A mixer that is one of torch's recurrent layers. State: h, (batch, width), unless a subclass says otherwise."""

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell

    def initial_state(self, batch_size: int) -> State:
        return (next(self.cell.parameters()).new_zeros(batch_size, self.cell.hidden_size),)

    def forward(self, x: Tensor, state: State | None = None, reset: Tensor | None = None) -> tuple[Tensor, State]:
        return run_segments(self._slice, x, state, self.initial_state(len(x)), reset)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return full_precision(self._step, x, state)

    def _slice(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The layer over a piece of time without resets."""
        y, h = self.cell(x, state[0].unsqueeze(0).contiguous())
        return y, (h.squeeze(0),)

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
        starts = sorted({0, *reset.any(0).nonzero().flatten().tolist()})
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
    such an output, which costs a sum to find out, the pieces of time between resets are run one after the other.

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
