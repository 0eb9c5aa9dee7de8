"""Where a run keeps its configuration and its agents, which is found out without importing torch."""

import contextlib
import json
from pathlib import Path

from decision_rnn.utils.errors import InputError

WEIGHTS, DESCRIPTION = "weights.safetensors", "config.json"
"""The files that make up an agent."""


def checkpoints_of(run: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    folders = (run / "checkpoints").iterdir() if (run / "checkpoints").is_dir() else ()
    return sorted((f for f in folders if f.name.isdigit()), key=lambda f: int(f.name))


def config_file(run: Path) -> Path:
    """The file with a run's configuration; InputError if the folder is not a run's."""
    if not (run / "config.yaml").is_file():
        raise InputError(
            f"{run} is not a run folder (it has no config.yaml): name one that `decision-rnn train` made, or, if it "
            "was killed before its first step, train again without --resume"
        )
    return run / "config.yaml"


def last_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run; InputError if `run` is not a run or has no checkpoint yet."""
    config_file(run)
    saved = checkpoints_of(run)
    if not saved:
        raise InputError(f"{run} has no checkpoint yet: continue its training with --resume")
    return saved[-1]


def run_of(folder: Path) -> Path | None:
    """The run whose checkpoint is in that folder; None for an agent's folder outside any run."""
    if folder.parent.name != "checkpoints":  # the path may be relative to a folder within the run
        folder = folder.absolute()
    run = folder.parent.parent
    return run if folder.parent.name == "checkpoints" and (run / "config.yaml").is_file() else None


def plugins_of(folder: Path) -> list[str]:
    """The plugins that the agent of a folder was made with, as its description says; empty if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        return [*map(str, json.loads((folder / DESCRIPTION).read_text())["config"].get("plugins", ()))]
    return []
