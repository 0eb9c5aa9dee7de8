"""Peak memory of a piece of work.

On the CPU, torch's profiler records every allocation and release by torch's allocator, including those inside kernels;
the peak is that of their running sum over time. Memory from elsewhere is not counted: numpy arrays and scratch buffers
of matrix libraries. The resident size of the process would include it, but also memory that the allocator keeps for
later, so that it would depend on what ran before. On CUDA, the allocator counts its own peak.
"""

import os
from collections.abc import Callable

import torch
from torch.autograd.profiler import profile


def peak_memory(work: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Peak memory of `work` in bytes, beyond what was allocated before."""
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the profiler reports its start and stop on stderr
    with profile(profile_memory=True) as profiler:
        work()
    assert profiler.kineto_results is not None
    changes = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        peak = max(peak, held)
    return peak
