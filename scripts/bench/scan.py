"""The speed of the linear recurrence as a fraction of the memory bandwidth."""

import math
from collections.abc import Callable
from typing import Literal

import torch

from bench.measure import Row, compare, measure
from decision_rnn.backbones.ops.recurrence import linear_recurrence
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.trainer import pick_device
from decision_rnn.utils.parsing import PositiveInt

SIZES = ((64, 20, 128), (64, 512, 128))
"""Batch size, time steps, width."""

PASSES = {"real": 8, "complex": 5}
"""The fewest reads and writes of (batch, time, width), forward and backward: a, b, h; a, h, and the gradients of h, b
and a. A constant decay, as in LRU, is negligible."""


def bench_scan(rounds: PositiveInt = 20, device: Literal["cpu", "cuda"] = "cpu") -> list[Row]:
    """Time h_t = a_t * h_{t-1} + b_t, forward and backward, against a plain copy that moves as many bytes.

    Float32 with a decay for every step (`real`), and complex64 with a constant decay, as in LRU (`complex`).

    Args:
        rounds: Number of timings of each; a timing is the mean over several calls.
        device: `cpu`, on one thread, or `cuda` for wall time there.

    Returns:
        Rows `scan/<numbers>-<batch>x<time>x<width>`, in µs, and those of the copies, `...-copy`; ratio: the copy's time
        over the row's, which is the fraction of the memory bandwidth used.

    Raises:
        InputError: If the device is not available.
    """
    place, rows = pick_device(device), []
    for size in SIZES:
        for numbers, passes in PASSES.items():
            dtype = torch.complex64 if numbers == "complex" else torch.float32
            name = f"scan/{numbers}-{'x'.join(map(str, size))}"
            works = {
                name: _scan(size, dtype, place),
                f"{name}-copy": _copy(passes * math.prod(size) // 2, dtype, place),
            }
            with one_thread():
                rows += compare(measure(works, rounds, "timing scans", place), f"{name}-copy", "µs", 1e6)
    return rows


def _scan(size: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    """Forward and backward pass, with the gradients of all arguments."""
    batch, _, width = size
    a = torch.full((width,) if dtype.is_complex else size, 0.9, dtype=dtype, device=device, requires_grad=True)
    b = torch.ones(size, dtype=dtype, device=device, requires_grad=True)
    initial = torch.zeros(batch, width, dtype=dtype, device=device, requires_grad=True)
    gradient = torch.ones(size, dtype=dtype, device=device)
    return lambda: torch.autograd.grad(linear_recurrence(a, b, initial), (a, b, initial), gradient)


def _copy(count: int, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    """Reads `count` numbers and writes as many."""
    source, target = torch.ones(2, count, dtype=dtype, device=device)
    return lambda: target.copy_(source)
