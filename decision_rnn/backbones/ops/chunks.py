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
    """Run a layer that is parallel within chunks of time and recurrent from chunk to chunk.

    Args:
        chunk: Called with a chunk of each input, the state before it (None for the initial state) and the index of
            every step's episode, (batch, time) int64, which is 0 where an episode continues from the state. Returns
            the outputs, (batch, time, ...), and the state after the chunk.
        inputs: The layer's inputs, each (batch, time, ...).
        state: The state before the first step; the initial state if None.
        reset: (batch, time) bool, true where an episode begins.
        length: Steps of a chunk, at most.
    """
    outputs = []
    for begin in range(0, inputs[0].shape[1], length):
        parts = [part[:, begin : begin + length] for part in inputs]
        if reset is None:
            episode = torch.zeros(parts[0].shape[:2], dtype=torch.int64, device=parts[0].device)
        else:
            episode = reset[:, begin : begin + length].cumsum(1)
        y, state = chunk(*parts, state, episode)
        outputs.append(y)
    assert state is not None
    return torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0], state


def pieces(reset: Tensor | None, time: int) -> Iterator[slice]:
    """Pieces of time in which an episode begins at the first step alone, if at all, in any row of the batch.

    Reads `reset`, (batch, time) bool, from its device.
    """
    cuts = [] if reset is None else reset[:, 1:].any(0).nonzero().flatten().add(1).tolist()
    return itertools.starmap(slice, itertools.pairwise([0, *cuts, time]))


def keep_mask(reset: Tensor, dtype: torch.dtype) -> Tensor:
    """1, or 0 where an episode begins, (batch, time, 1): what remains of the state before each step."""
    return (~reset).unsqueeze(2).to(dtype)


def barrier(reset: Tensor, dtype: torch.dtype) -> Tensor:
    """0, or minus infinity where an episode begins, (batch, time, 1): the logarithm of `keep_mask`."""
    return keep_mask(reset, dtype).log()
