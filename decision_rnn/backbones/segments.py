"""torch's recurrent kernels inside the contract: they know neither resets nor a float32 state under autocast."""

from collections.abc import Callable

import torch
from torch import Tensor

from decision_rnn.backbones.contract import State, reset_rows


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


def full_precision(
    kernel: Callable[[Tensor, State], tuple[Tensor, State]], x: Tensor, state: State
) -> tuple[Tensor, State]:
    """Run a kernel in the state's precision, also under autocast, which would round its state at every step."""
    if not torch.is_autocast_enabled(x.device.type):
        return kernel(x, state)
    with torch.autocast(x.device.type, enabled=False):
        return kernel(x.to(state[0].dtype), state)
