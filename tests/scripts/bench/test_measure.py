"""Interleaved timing, peak memory, and benchmark rows as a table and as JSON."""

import pytest
import torch
from bench import measure as module
from bench.measure import (
    Baseline,
    Row,
    compare,
    format_rows,
    interleaved,
    measure,
    peak_memory,
)

ROWS = [
    Row("train/mingru/fp32", 50.0, "ms", Baseline("train/decision-transformer/fp32", 200.0), 4.0),
    Row("train/decision-transformer/fp32", 200.0, "ms", Baseline("train/decision-transformer/fp32", 200.0), 1.0),
]


def test_interleaved_runs_candidates_in_turn_and_returns_medians():
    calls = []
    seconds = {"a": iter([3.0, 1.0, 2.0]), "b": iter([7.0, 9.0, 8.0])}

    def candidate(name):
        def timing():
            calls.append(name)
            return next(seconds[name])

        return timing

    medians = interleaved({name: candidate(name) for name in "ab"}, rounds=3, description="test")
    assert calls == list("ababab")
    assert medians == {"a": 2.0, "b": 8.0}


def test_measure_repeats_short_work_and_returns_the_time_of_one_call(monkeypatch):
    """With a clock that only the works move: a call of `short` takes a hundredth of a timing, one of `long` ten."""
    now, calls = [100.0], {"short": 0, "long": 0}
    lasts = {"short": module.TIMING_SECONDS / 100, "long": 10 * module.TIMING_SECONDS}

    def work(name):
        def run():
            calls[name] += 1
            now[0] += lasts[name] * (2 if calls[name] == 1 else 1)  # the first call is slow

        return run

    monkeypatch.setattr(module.time, "process_time", lambda: now[0])
    assert measure({name: work(name) for name in calls}, rounds=3, description="test") == pytest.approx(lasts)
    assert calls == {"short": 2 + 3 * 100, "long": 2 + 3}


def test_compare_ratio_is_baseline_over_value():
    fast, slow = compare({"fast": 0.002, "slow": 0.008}, "slow", "ms", 1e3)
    assert fast == Row("fast", 2.0, "ms", Baseline("slow", 8.0), 4.0)
    assert slow.ratio == 1.0


def test_format_rows_shows_every_row():
    header, *lines = format_rows(ROWS).splitlines()
    assert "ratio" in header
    assert [line.split()[0] for line in lines] == [row.name for row in ROWS]
    assert "4.00  train/decision-transformer/fp32 (200.0 ms)" in lines[0]


# Peak memory, against cases that can be counted by hand

N = 250_000
TENSOR = 4 * N
"""Bytes of one tensor of N numbers."""

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


@pytest.mark.parametrize("device", DEVICES)
def test_peak_memory_counts_the_most_bytes_allocated_at_once(device):
    before = torch.ones(N, device=device)  # is not counted

    def work():
        a = before + 1
        b = a * 2
        del a
        c = b + before
        d = c.exp()
        del b, c, d
        return before * 3

    assert peak_memory(work, device) == pytest.approx(3 * TENSOR, rel=0.01)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("depth", [1, 4])
def test_peak_memory_counts_saved_tensors_and_gradients_of_a_backward_pass(device, depth):
    """A chain of sigmoids saves every output; in the backward pass the two gradients around one sigmoid add to them."""
    x, gradient = torch.zeros(N, device=device, requires_grad=True), torch.ones(N, device=device)

    def work():
        y = x
        for _ in range(depth):
            y = torch.sigmoid(y)
        torch.autograd.grad(y, x, gradient)

    gradients = 1 if depth == 1 else 2  # that of y was allocated before
    assert peak_memory(work, device) == pytest.approx((depth + gradients) * TENSOR, rel=0.01)


def test_peak_memory_counts_temporary_buffers_of_a_kernel():
    """torch.kthvalue returns two numbers, and partially sorts a copy of x and its int64 indices to find them."""
    x = torch.rand(N)
    assert peak_memory(lambda: torch.kthvalue(x, 7)) == pytest.approx(3 * TENSOR, rel=0.01)
