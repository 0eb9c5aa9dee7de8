"""Shared by the scripts that make folders of results/: tables, and how each report ends with how it was made.

Made by `COMMAND` at commit COMMIT; seeds SEEDS; PROCESSOR, CORES cores, GPU: NAME; SYSTEM; VERSIONS; NOTES.
"""

import csv
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from decision_rnn.comparison.record import Trial
from decision_rnn.evaluation.results import PACKAGES
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.machine import commit, describe_hardware, describe_versions, hardware, versions

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Made:
    """How results were made.

    Attributes:
        command: The command that made them.
        commits: Commits of the source tree; several if runs were added later.
        seeds: Seeds of everything random; empty if nothing is.
        hardware: As returned by `decision_rnn.utils.machine.hardware`.
        versions: Versions of the packages that the numbers depend on.
        notes: What else a reader has to know.
    """

    command: str
    commits: Sequence[str]
    seeds: Sequence[int]
    hardware: Mapping[str, Any]
    versions: Mapping[str, str]
    notes: str = ""

    @classmethod
    def here(cls, seeds: Sequence[int] = (), packages: Sequence[str] = (), notes: str = "") -> "Made":
        """How this script, as it was called, makes results on this machine.

        Call it first: once the script has written its results, the tree differs from its commit.

        Args:
            seeds: Seeds of everything random.
            packages: Installed packages to list besides those that every score depends on.
            notes: What else a reader has to know.
        """
        used = {**versions(PACKAGES), **{name: version(name) for name in packages}}
        return cls(command_line(), [str(commit())], seeds, hardware(), used, notes)

    @classmethod
    def from_trials(cls, trials: Iterable[Trial], packages: Sequence[str] = ()) -> "Made":
        """As `here`, from these trials of a comparison: with their seeds, and the commits that trained their agents."""
        trials = list(trials)
        commits = dict.fromkeys(trial.commit or "unknown, from an installed package" for trial in trials)
        seeds = sorted({trial.seed for trial in trials})
        return cls.here(seeds, packages, f"the agents were made at commit {', '.join(commits)}")

    def __str__(self) -> str:
        parts = [
            f"Made by `{self.command}` at commit {', '.join(self.commits)}",
            f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}" if self.seeds else "",
            describe_hardware(self.hardware),
            platform.system(),
            describe_versions(self.versions),
            self.notes,
        ]
        return "; ".join(part for part in parts if part) + "."


def command_line() -> str:
    """The command that started this script, as one types it."""
    return shlex.join(["python", f"scripts/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table for programs."""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def write_report(path: Path, text: str, made: Made) -> None:
    """Write a Markdown report that ends with what made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{text.rstrip()}\n\n{made}\n".encode())


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure to a file, whose folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
