"""What the folders of results/ have in common: each report ends with what it was made by, in one form.

Made by `COMMAND` at commit COMMIT; seeds SEEDS; PROCESSOR, CORES cores, GPU: NAME; SYSTEM; VERSIONS; NOTES.
"""

import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from decision_rnn.evaluation.results import PACKAGES
from decision_rnn.files import write_atomically
from decision_rnn.machine import commit, describe_hardware, describe_versions, hardware, versions

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Made:
    """What results were made by.

    Attributes:
        command: As it can be typed again.
        commits: Of the source tree; several where runs were added later.
        seeds: Of all that is drawn at random; empty where nothing is.
        hardware: As `decision_rnn.machine.hardware` gives it.
        versions: Of the packages that the numbers depend on.
        notes: What else a reader has to know of the making.
    """

    command: str
    commits: Sequence[str]
    seeds: Sequence[int]
    hardware: Mapping[str, Any]
    versions: Mapping[str, str]
    notes: str = ""

    @classmethod
    def here(cls, seeds: Sequence[int] = (), packages: Sequence[str] = (), notes: str = "") -> "Made":
        """By this script, as it was called, on this machine.

        Call it first: once the script has written its results, the tree differs from its commit.

        Args:
            seeds: Of what is drawn at random.
            packages: Installed packages whose versions count beside those that every score depends on.
            notes: What else a reader has to know.
        """
        used = {**versions(PACKAGES), **{name: version(name) for name in packages}}
        return cls(command_line(), [str(commit())], seeds, hardware(), used, notes)

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
    """The command that this script was started by, its folder's and its options' names as one types them."""
    return shlex.join(["python", f"scripts/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def write_report(path: Path, text: str, made: Made) -> None:
    """Write a Markdown report that ends with what made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{text.rstrip()}\n\n{made}\n".encode())
