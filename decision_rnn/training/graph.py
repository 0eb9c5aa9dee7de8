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

WARM_UP = 3
"""Steps before the capture, in which torch and its libraries allocate what they keep and compile kernels."""


class CapturedStep:
    """A step that is run eagerly `WARM_UP` times, then captured and replayed on copies of its batches.

    The last eager step may not read from the GPU: a read during a capture leaves torch's state for captures behind.

    Args:
        step: A step on a batch, a named tuple of tensors, which returns one tensor. Whatever else it reads or writes
            on the GPU stays where it is from step to step.

    Raises:
        RuntimeError: From the first calls, if the step cannot be captured; its random numbers are not used up then.
    """

    def __init__(self, step: Callable[[Any], Tensor]) -> None:
        self.step, self.calls = step, 0
        self.stream = torch.cuda.Stream()
        self.batch: Any = None
        self.replay: Callable[[], Tensor] | None = None

    def __call__(self, batch: Any) -> Tensor:
        if self.replay is None:
            return self._prepare(batch)
        for part, new in zip(self.batch, batch, strict=True):
            part.copy_(new)
        return self.replay().clone()  # the next replay overwrites it

    def _prepare(self, batch: Any) -> Tensor:
        """One of the first steps."""
        random = torch.cuda.get_rng_state()
        self.calls += 1
        try:
            with warnings.catch_warnings():
                # That AdamW runs uncaptured, and that torch does not notice all reads.
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
        except RuntimeError:
            # After a capture that failed, the generator refuses to draw outside of captures; its copy does not.
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())
            torch.cuda.set_rng_state(random)
            raise


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
    """What a function does on the GPU, as a function that does it again and returns the same tensor, overwritten."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):  # the latter stays there if it fails
        result = function()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
