"""The files of a run and of an agent: where they are."""

import contextlib
import json
from pathlib import Path

from decision_rnn.utils.errors import InputError

WEIGHTS, DESCRIPTION = "weights.safetensors", "config.json"
"""The files that make up an agent."""


def checkpoints_of(run: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    folders = (run / "checkpoints").iterdir() if (run / "checkpoints").is_dir() else ()
    return sorted((folder for folder in folders if folder.name.isdigit()), key=lambda folder: int(folder.name))


def config_file(run: Path) -> Path:
    """The file with a run's configuration; InputError if the folder is not a run's."""
    if not (run / "config.yaml").is_file():
        raise InputError(f"{run} is not a run folder: it has no config.yaml.")
    return run / "config.yaml"


def last_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run; InputError if `run` is not a run or has no checkpoint yet."""
    config_file(run)
    if not (checkpoints := checkpoints_of(run)):
        raise InputError(f"{run} has no checkpoint yet. Continue its training with --resume.")
    return checkpoints[-1]


def run_of(checkpoint: Path) -> Path | None:
    """The run that a checkpoint's folder belongs to; None for an agent's folder outside any run."""
    folder = checkpoint.absolute().parent
    return folder.parent if folder.name == "checkpoints" and (folder.parent / "config.yaml").is_file() else None


def plugins_of(folder: Path) -> list[str]:
    """The plugins that the agent of a folder was made with; empty if its description cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        return [*map(str, json.loads((folder / DESCRIPTION).read_text())["config"].get("plugins", ()))]
    return []
