"""Segments of time with resets, cut into pieces."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from decision_rnn.backbones.contract import State


def run_chunks(
    chunk: Callable[..., tuple[Tensor, State]],
    inputs: Sequence[Tensor],
    state: State | None,
    reset: Tensor | None,
    length: int,
) -> tuple[Tensor, State]:
    """Run a layer that is parallel within chunks of at most `length` steps and recurrent from chunk to chunk.

    `chunk` is called with a chunk of each input, (batch, time, ...), the state before it (None for the initial state)
    and the index of every step's episode, (batch, time) int64, which is 0 where an episode continues from the state.
    It returns the outputs, (batch, time, ...), and the state after the chunk.
    """
    outputs = []
    begins = inputs[0].new_zeros(inputs[0].shape[:2], dtype=torch.bool) if reset is None else reset
    for *parts, begin in zip(*(part.split(length, dim=1) for part in (*inputs, begins)), strict=True):
        y, state = chunk(*parts, state, begin.cumsum(1))
        outputs.append(y)
    assert state is not None
    return torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0], state


def run_between_resets(
    run: Callable[..., tuple[Tensor, State]], inputs: Sequence[Tensor], state: State, reset: Tensor | None
) -> tuple[Tensor, State]:
    """Run a layer that takes no resets, once for each piece of time between two steps at which episodes begin.

    `run` is called with a piece of each input, (batch, time, ...), and the state before it, whose parts are (batch,
    width). It returns the outputs, (batch, time, ...), and the state after the piece.
    """
    outputs, cuts = [], [] if reset is None else reset[:, 1:].any(0).nonzero().flatten().add(1).tolist()
    for start, end in pairwise([0, *cuts, inputs[0].shape[1]]):
        if reset is not None:
            state = tuple(part * (~reset[:, start, None]).to(part.dtype) for part in state)
        y, state = run(*(part[:, start:end] for part in inputs), state)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state
