"""Interleaved timing: rows of a benchmark, their table and their JSON.

Candidates run in turn, round after round, so that drift of the machine affects all alike. Times are CPU time of this
process on one thread, or wall time on CUDA.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

SECONDS = 0.05
"""Work that takes less than this is repeated for about this long in one timing."""
Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One measured number: the median over rounds, the baseline's, and how many times better than the baseline, if it
    has one."""

    name: str
    value: float
    unit: str
    baseline: str = ""
    baseline_value: float = 0.0
    ratio: float = 0.0


def seconds_of(work: Work, device: str = "cpu", calls: int = 1) -> float:
    """Mean time of consecutive calls."""

    def clock() -> float:
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()

    start = clock()
    for _ in range(calls):
        work()
    return (clock() - start) / calls


def measure(works: Mapping[str, Work], rounds: int, device: str = "cpu") -> dict[str, float]:
    """Median seconds of one call of every work, by name. Two calls of each precede the first round."""
    calls = {}
    for name, work in works.items():
        work()
        calls[name] = max(1, round(SECONDS / max(seconds_of(work, device), 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds_of(work, device, calls[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def compare(seconds: Mapping[str, float], baseline: str, unit: str, per_second: float) -> list[Row]:
    """Rows for values where less is better, each compared with the one named `baseline`."""
    reference = per_second * seconds[baseline]
    return [
        Row(name, per_second * value, unit, baseline, reference, seconds[baseline] / value)
        for name, value in seconds.items()
    ]


def format_rows(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| | median | ratio | baseline |", "| --- | --- | --- | --- |"]
    for row in rows:
        compared = " | "
        if row.baseline:
            value = "itself" if row.baseline == row.name else f"{row.baseline}, {row.baseline_value:.4g} {row.unit}"
            compared = f"{row.ratio:.2f} | {value}"
        lines.append(f"| {row.name} | {row.value:.4g} {row.unit} | {compared} |")
    return "\n".join(lines)


def main(bench: Callable[[argparse.Namespace], list[Row]], parser: argparse.ArgumentParser, rounds: int) -> None:
    """Run a benchmark on one thread, print its rows and, with `--json`, write them."""
    parser.add_argument("--rounds", type=int, default=rounds, help="timings of each candidate")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = bench(options)
    print(format_rows(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
