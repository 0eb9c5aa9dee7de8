"""Interleaved timing, and the rows that a benchmark returns.

Candidates run in turn, round after round, so that drift of the machine affects all of them alike. On the CPU, work is
done by one thread and measured in CPU time of the process, which excludes the load of other processes (except for their
use of shared caches); on CUDA, in wall time including synchronisation.
"""

import json
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
"""Does the work and returns the time it took, in seconds."""


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


def timed(work: Callable[[], object], calls: int = 1, device: torch.device | str = "cpu") -> Timing:
    """A timing of `work`: the mean of `calls` consecutive calls, for work that is short for the clock's resolution."""

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
    """Run every candidate once per round, in the given order, and return the medians.

    Args:
        timings: The candidates by name.
        rounds: Number of measured rounds.
        warmup: Number of rounds before them that are not measured.
        description: Description of the progress bar.

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
    """Rows for values where less is better, each compared with the one named `baseline`."""
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
