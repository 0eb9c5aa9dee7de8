"""The most memory that a piece of work holds at once.

On a CPU torch's profiler records every allocation and release of torch's allocator, those inside its kernels
included; their running sum, in order of time, has its peak where the work holds most. What does not pass through
that allocator is not seen: numpy's arrays and the matrix libraries' scratch buffers. The resident size of the process
would see them, but also what the allocator keeps for later, so that it depends on what ran before. On CUDA it is the
allocator's own count of its peak.
"""

import os
from collections.abc import Callable

import torch
from torch.autograd.profiler import profile


def peak_memory(work: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Bytes that `work` holds at its peak, beyond what was held before it."""
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would announce its start and stop on stderr
    with profile(profile_memory=True) as profiler:
        work()
    assert profiler.kineto_results is not None
    changes = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        peak = max(peak, held)
    return peak
