"""A training step as one CUDA graph.

A step launches several hundred short kernels, which takes the host longer than the GPU needs to run them. A graph
launches all of them at once.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from decision_rnn.utils.errors import one_line
from decision_rnn.utils.messages import warn

WARM_UP = 3
"""Eager steps before the capture, in which torch and its libraries allocate permanent memory and compile kernels."""


class CapturedStep:
    """A step that is run eagerly `WARM_UP` times, then captured and replayed on copies of its batches.

    The last eager step may not read from the GPU: a read would break the capture. A step that cannot be captured is run
    eagerly for good, with a warning, or raises RuntimeError if `required`.

    Args:
        step: A step on a batch, a named tuple of tensors, which returns one tensor. All other tensors
            that it reads or writes on the GPU have the same addresses in every step.
        required: Whether the step must be captured.
    """

    def __init__(self, step: Callable[[Any], Tensor], required: bool) -> None:
        self.step, self.required, self.calls, self.failed = step, required, 0, False
        self.stream = torch.cuda.Stream()
        self.batch: Any = None
        self.replay: Callable[[], Tensor] | None = None

    def __call__(self, batch: Any) -> Tensor:
        if self.failed:
            return self.step(batch)
        if self.replay is not None:
            for part, new in zip(self.batch, batch, strict=True):
                part.copy_(new)
            return self.replay().clone()  # the next replay overwrites it
        random = torch.cuda.get_rng_state()
        try:
            return self._prepare(batch)
        except RuntimeError as error:
            # After a capture that failed, the generator refuses to draw outside of captures; its copy does not.
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())
            torch.cuda.set_rng_state(random)
            if self.required:
                raise
            warn(f"warning: training without a CUDA graph, since a step cannot be captured: {one_line(error)}")
            self.failed = True
            return self.step(batch)

    def _prepare(self, batch: Any) -> Tensor:
        """One of the first steps."""
        self.calls += 1
        with warnings.catch_warnings():
            # About AdamW that is not captured, and about reads that torch does not detect.
            warnings.filterwarnings("ignore", ".*capturable=True|Synchronization debug mode")
            if self.calls > WARM_UP:
                self.batch = batch._make(map(torch.clone, batch))
                self.replay = capture(partial(self.step, self.batch), self.stream)
                return self.replay().clone()
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream), no_reads() if self.calls == WARM_UP else nullcontext():
                result = self.step(batch)
            torch.cuda.current_stream().wait_stream(self.stream)
            return result


@contextmanager
def no_reads() -> Iterator[None]:
    """Raise RuntimeError where the host would wait for the GPU."""
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def capture(function: Callable[[], Tensor], stream: torch.cuda.Stream) -> Callable[[], Tensor]:
    """Capture a function's work on the GPU; the result replays it and returns the same tensor, overwritten."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):  # the latter stays there if it fails
        result = function()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
