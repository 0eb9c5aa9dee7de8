"""Timing side by side, and the rows that a benchmark comes to.

Candidates run in turn, round after round, so that what drifts on the machine drifts for all of them. On the CPU
one thread works and the process's CPU time counts, which other processes' load does not enter (but for what
they take of the shared caches); on CUDA it is wall time around work that has been waited for.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from decision_rnn.errors import InputError
from decision_rnn.files import write_atomically

Timing = Callable[[], float]
"""Does the work once and says how long it took, in seconds."""


@dataclass(frozen=True)
class Baseline:
    """What a row is compared with: its name, and its value in the row's unit."""

    name: str
    value: float


@dataclass(frozen=True)
class Row:
    """One measured number.

    Attributes:
        name: `train/mingru/bf16` and the like.
        value: A median over the rounds.
        unit: Of the value and of the baseline's.
        baseline: What it is compared with; a baseline's own row is compared with itself.
        ratio: How many times better than the baseline; for `rollout/episodes-N...`, time over the baseline's.
    """

    name: str
    value: float
    unit: str
    baseline: Baseline
    ratio: float


def clock(device: torch.device | str = "cpu") -> float:
    """Seconds: the process's CPU time, or wall time once the CUDA device has done all it was given."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def timed(work: Callable[[], object], calls: int = 1, device: torch.device | str = "cpu") -> Timing:
    """A timing of `work`: the mean of `calls` calls in a row, for work much shorter than the clock's grain."""

    def timing() -> float:
        begun = clock(device)
        for _ in range(calls):
            work()
        return (clock(device) - begun) / calls

    return timing


def check_rounds(rounds: int) -> None:
    """Raise InputError if there are no rounds."""
    if rounds < 1:
        raise InputError(f"rounds is {rounds}: it must be at least 1")


def interleaved(timings: Mapping[str, Timing], rounds: int, warmup: int, description: str) -> dict[str, float]:
    """Run every candidate once per round, in the given order, and take each one's median.

    Args:
        timings: The candidates by name.
        rounds: Rounds that count.
        warmup: Rounds before them that do not.
        description: Of the progress bar.

    Returns:
        Median seconds by name.

    Raises:
        InputError: If there are no rounds.
    """
    check_rounds(rounds)
    seconds: dict[str, list[float]] = {name: [] for name in timings}
    with tqdm(total=(warmup + rounds) * len(timings), desc=description, unit="run", disable=None) as bar:
        for turn in range(warmup + rounds):
            for name, timing in timings.items():
                taken = timing()
                if turn >= warmup:
                    seconds[name].append(taken)
                bar.update()
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def compare(values: Mapping[str, float], baseline: str, unit: str) -> list[Row]:
    """Rows of values of which less is better, each against the one called `baseline`."""
    against = Baseline(baseline, values[baseline])
    return [Row(name, value, unit, against, against.value / value) for name, value in values.items()]


def format_rows(rows: Sequence[Row]) -> str:
    """The rows as a table for a terminal."""
    width = max((len(row.name) for row in rows), default=0)
    lines = [f"{'':<{width}}  {'median':>12}  {'ratio':>6}  baseline"]
    for row in rows:
        against = f"{row.baseline.name} ({_number(row.baseline.value)} {row.unit})"
        lines.append(
            f"{row.name:<{width}}  {_number(row.value):>9} {row.unit:<2}  {row.ratio:>6.2f}  "
            + (against if row.baseline.name != row.name else "itself")
        )
    return "\n".join(lines)


def check_destination(path: Path) -> None:
    """Raise InputError if `path` cannot be written, before minutes are spent on what it shall hold."""
    fault = None
    if not path.parent.is_dir():
        fault = f"the folder {path.parent} does not exist"
    elif path.is_dir():
        fault = "it is a folder"
    elif not os.access(path.parent, os.W_OK):
        fault = f"the folder {path.parent} is not writable"
    if fault:
        raise InputError(f"cannot write {path}: {fault}")


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as a JSON list of objects with the keys name, value, unit, baseline, ratio.

    Raises:
        InputError: If the file cannot be written.
    """
    try:
        write_atomically(path, (json.dumps([asdict(row) for row in rows], indent=2) + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def _number(value: float) -> str:
    return f"{value:.{1 if value >= 10 else 2}f}"
