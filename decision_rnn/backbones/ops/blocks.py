"""Kernels that know no resets, run on slices with resets; and full precision under autocast."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from decision_rnn.backbones.contract import State, reset_rows
from decision_rnn.backbones.resets import located

Block = Callable[[tuple[Tensor, ...], State | None, Tensor | None], tuple[Tensor, State]]
"""Maps a block of time without resets; see `run_blocks`."""


def run_blocks(
    block: Block,
    parts: Sequence[Tensor],
    state: State | None,
    initial_state: Callable[[int], State],
    resets: Tensor | None,
    length: int,
    fills: Sequence[float] = (0,),
) -> tuple[Tensor, State]:
    """Run a mixer's kernel over blocks of time, with every episode in a row of its own.

    The kernel knows no resets. Episodes that begin within a block are run after it, in additional rows, in which void
    steps come first; no infinity or NaN crosses from one row to another, nor does a gradient.

    Args:
        block: Maps the parts of a block, the state before it (None for the initial state) and the number of void steps
            of each row, (rows,) or None, to the output, (rows, time, ...), and the state after it. The output may be
            overwritten. Void steps must leave the initial state unchanged; their outputs are not used.
        parts: The kernel's inputs, each (batch, time, ...).
        state: The state before the first step; the initial state if None.
        initial_state: The mixer's method.
        resets: Where episodes begin.
        length: Steps of a block, at most.
        fills: The value of each part at void steps.
    """
    time, positions = parts[0].shape[1], located(resets)
    outputs = []
    for begin in range(0, time, length):
        here = [part[:, begin : begin + length] for part in parts] if length < time else parts
        now = None if positions is None else positions.between(begin, begin + length)
        if now is not None and state is not None and now.at_once:
            state = reset_rows(state, initial_state(len(now.mask)), now.mask[:, 0])
        later = None if now is None else now.later
        if later is None:
            y, state = block(tuple(here), state, None)
        else:
            first, further = zip(
                *(later.split(part, fill) for part, fill in zip(here, fills, strict=True)), strict=True
            )
            y, after = block(first, state, None)
            y_later, after_later = block(further, None, later.void)
            y, state = later.join(y, y_later), tuple(map(later.final, after, after_later))
        outputs.append(y)
    assert state is not None
    return torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0], state


def full_precision(
    kernel: Callable[[Tensor, State], tuple[Tensor, State]], x: Tensor, state: State
) -> tuple[Tensor, State]:
    """Run a kernel in the state's precision also under autocast, which would round the state at every step."""
    if not torch.is_autocast_enabled(x.device.type):
        return kernel(x, state)
    with torch.autocast(x.device.type, enabled=False):
        return kernel(x.to(state[0].dtype), state)
