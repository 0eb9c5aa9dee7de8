"""Interleaved timing, and the rows that a benchmark returns.

Candidates run in turn, round after round, so that drift of the machine affects all of them alike. On the CPU, work is
done by one thread and measured in CPU time of the process, which excludes the load of other processes (except for their
use of shared caches); on CUDA, in wall time including synchronisation.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.autograd.profiler import profile

from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import bar

TIMING_SECONDS = 0.05
"""Work that takes less than this is repeated for about this long in one timing."""


@dataclass(frozen=True)
class Baseline:
    """The baseline of a row: its name, and its value in the row's unit."""

    name: str
    value: float


@dataclass(frozen=True)
class Row:
    """One measured number.

    Attributes:
        name: Name of the row, such as `train/mingru/bf16`.
        value: Median over the rounds.
        unit: Unit of the value and of the baseline's value.
        baseline: The baseline; the row of a baseline is compared with itself.
        ratio: How many times better than the baseline; for `rollout/episodes-N...`, time over the baseline's.
    """

    name: str
    value: float
    unit: str
    baseline: Baseline
    ratio: float


def clock(device: torch.device | str = "cpu") -> float:
    """Seconds: CPU time of the process, or wall time after synchronising the CUDA device."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def seconds_of(work: Callable[[], object], device: torch.device | str = "cpu", calls: int = 1) -> float:
    """The mean time of consecutive calls."""
    begun = clock(device)
    for _ in range(calls):
        work()
    return (clock(device) - begun) / calls


def peak_memory(work: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Peak memory of `work` in bytes, beyond what was allocated before.

    On the CPU it is the peak of the running sum of all allocations and releases by torch's allocator, which torch's
    profiler records, including those inside kernels. The resident size of the process would depend on what ran before.
    """
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


def measure(
    works: Mapping[str, Callable[[], object]], rounds: int, description: str, device: torch.device | str = "cpu"
) -> dict[str, float]:
    """The median time of one call of every work, in seconds, by name. Two calls of each precede the first round."""
    calls = {}
    for name, work in works.items():
        work()
        calls[name] = max(1, round(TIMING_SECONDS / max(seconds_of(work, device), 1e-6)))
    timings = {name: lambda name=name: seconds_of(works[name], device, calls[name]) for name in works}
    return interleaved(timings, rounds, description)


def interleaved(timings: Mapping[str, Callable[[], float]], rounds: int, description: str) -> dict[str, float]:
    """Call every timing, which returns a time in seconds, once per round, in the given order; returns the medians."""
    seconds: dict[str, list[float]] = {name: [] for name in timings}
    with bar(total=rounds * len(timings), desc=description, unit="run") as shown:
        for _ in range(rounds):
            for name, timing in timings.items():
                seconds[name].append(timing())
                shown.update()
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def compare(seconds: Mapping[str, float], baseline: str, unit: str, per_second: float) -> list[Row]:
    """Rows for values where less is better, each compared with the one named `baseline`.

    Args:
        seconds: Values by name.
        baseline: Name of the baseline.
        unit: Unit of the rows.
        per_second: Factor from the values to the rows' unit.
    """
    against = Baseline(baseline, per_second * seconds[baseline])
    return [Row(name, per_second * value, unit, against, seconds[baseline] / value) for name, value in seconds.items()]


def format_rows(rows: Sequence[Row]) -> str:
    """The rows as a table for a terminal."""
    width = max((len(row.name) for row in rows), default=0)
    lines = [f"{'':<{width}}  {'median':>12}  {'ratio':>6}  baseline"]
    for row in rows:
        value, of_baseline = (f"{x:.{1 if x >= 10 else 2}f}" for x in (row.value, row.baseline.value))
        against = "itself" if row.baseline.name == row.name else f"{row.baseline.name} ({of_baseline} {row.unit})"
        lines.append(f"{row.name:<{width}}  {value:>9} {row.unit:<2}  {row.ratio:>6.2f}  {against}")
    return "\n".join(lines)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as a JSON list of objects with the keys name, value, unit, baseline, ratio."""
    with new_file(path) as new:
        new.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
