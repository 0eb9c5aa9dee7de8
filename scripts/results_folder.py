"""Shared by the scripts that make folders of results/: tables, and how each report ends with how it was made.

Made by `COMMAND` at commit COMMIT; seeds SEEDS; PROCESSOR, CORES cores, GPU: NAME; SYSTEM; VERSIONS; NOTES.
"""

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from decision_rnn import read_comparison
from decision_rnn.comparison.record import Trial
from decision_rnn.evaluation.results import PACKAGES
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.machine import commit, describe_hardware, describe_versions, hardware, versions

RESULTS = Path(__file__).parents[1] / "results"


def provenance(seeds: Sequence[int] = (), packages: Sequence[str] = (), notes: str = "") -> str:
    """How this script, as it was called, makes results on this machine, in a sentence.

    Call it first: once the script has written its results, the tree differs from its commit.

    Args:
        seeds: Seeds of everything random.
        packages: Installed packages to list besides those that every score depends on.
        notes: What else a reader has to know.
    """
    command = shlex.join(["python", f"scripts/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    entries = [
        f"Made by `{command}` at commit {commit()}",
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}" if seeds else "",
        describe_hardware(hardware()),
        platform.system(),
        describe_versions(versions((*PACKAGES, *packages))),
        notes,
    ]
    return "; ".join(filter(None, entries)) + "."


def read_trials(folders: Sequence[Path]) -> tuple[dict[Path, Trial], str]:
    """The trials of a comparison's folders, one or one for each part of its seeds, by the folders of their runs; and
    the sentence of `provenance`, with their seeds and commits."""
    comparisons = {folder: read_comparison(folder) for folder in folders}
    if any(comparison.failed for comparison in comparisons.values()):
        raise InputError("a comparison has failed runs: run it again first")
    trials = {folder / trial.run: trial for folder, each in comparisons.items() for trial in each.trials}
    seeds = sorted({trial.seed for trial in trials.values()})
    commits = ", ".join(dict.fromkeys(trial.commit or "unknown" for trial in trials.values()))
    return trials, provenance(seeds, notes=f"the agents were made at commit {commits}")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def with_range(mean: float, low: float, high: float, decimals: int = 0) -> str:
    """A mean, with its range over seeds where that is as wide as the last decimal."""
    ends = f" ({low:.{decimals}f} to {high:.{decimals}f})" if high - low >= 10.0**-decimals else ""
    return f"{mean:.{decimals}f}{ends}"


def source(file: Path, settings: Iterable[str]) -> str:
    """The comment after a table for `check_claims.py`: the file that has its numbers, and those that are settings."""
    return f"<!-- {file.relative_to(RESULTS.parent)}; settings: {', '.join(settings)} -->"


def write_report(path: Path, text: str, sentence: str) -> None:
    """Write a Markdown report that ends with how it was made, the sentence of `provenance`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text.rstrip()}\n\n{sentence}\n")
