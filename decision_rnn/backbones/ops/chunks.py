"""Segments of time with resets, cut into pieces."""

import itertools
from collections.abc import Callable, Iterator, Sequence

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


def pieces(reset: Tensor | None, time: int) -> Iterator[slice]:
    """Pieces of time in which an episode begins at the first step alone, if at all, in any row of the batch."""
    cuts = [] if reset is None else reset[:, 1:].any(0).nonzero().flatten().add(1).tolist()
    return itertools.starmap(slice, itertools.pairwise([0, *cuts, time]))


def keep_mask(reset: Tensor, dtype: torch.dtype) -> Tensor:
    """1, or 0 where an episode begins, (batch, time, 1): what remains of the state before each step."""
    return (~reset).unsqueeze(2).to(dtype)
