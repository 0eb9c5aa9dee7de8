"""Datasets by name. What stands before the first "/" is the source; no name falls back from one source to another."""

from pathlib import Path
from types import ModuleType
from typing import Literal

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.sources import d4rl, minari, own, standin
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store.cache import store_folder
from decision_rnn.data.store.episodes import MANIFEST, EpisodeStore
from decision_rnn.errors import InputError

SOURCES: dict[str, ModuleType] = {"standin": standin, "d4rl": d4rl, "minari": minari, "own": own}
DEFAULT_SOURCE = "standin"


def names() -> list[str]:
    """The datasets that can be named, by source; a Minari dataset can be one that is not here yet."""
    return [name for source in SOURCES.values() for name in source.names()]


def resolve(name: str, path: Path | str | None = None, partial: Literal["keep", "drop"] = "keep") -> Dataset:
    """The dataset called `name`; a name without a source means the stand-in ("hopper-medium").

    Args:
        name: Of the dataset.
        path: The file to read, for the datasets of D4RL.
        partial: Whether partial episodes are kept or dropped.

    Raises:
        InputError: Listing the known names, when no source has that name.
    """
    source, full = _resolve(name)
    return Dataset(full, source, Path(path) if path else None, partial)


def lookup(name: str) -> DatasetSpec:
    """What is known of the dataset called `name`."""
    return resolve(name).spec


def open_store(
    name: str, progress: bool = True, path: Path | str | None = None, partial: Literal["keep", "drop"] = "keep"
) -> EpisodeStore:
    """The episodes of the dataset called `name`."""
    return resolve(name, path, partial).open(progress)


def download(name: str, progress: bool = True) -> list[Path]:
    """Fetch what the dataset called `name` is made from, where it is not here; returns where it lies."""
    return resolve(name).download(progress)


def is_ready(name: str) -> bool:
    """Whether the dataset's store has been made; it is not verified here."""
    source, full = _resolve(name)
    folder = own.folder(full) if source is own else store_folder(full)
    return (folder / MANIFEST).is_file()


def _resolve(name: str) -> tuple[ModuleType, str]:
    """The source of a dataset and its full name."""
    full = name if "/" in name else f"{DEFAULT_SOURCE}/{name}"
    source = SOURCES.get(full.partition("/")[0])
    if source is None:
        known = ", ".join([*standin.names(), *(s.PATTERN for s in SOURCES.values() if s is not standin)])
        raise InputError(f"unknown dataset {name!r}: known are {known}; `decision-rnn data list` lists them")
    return source, full
