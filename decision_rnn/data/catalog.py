"""Datasets by name. What stands before the first "/" is the source; no name falls back from one source to another."""

from pathlib import Path
from types import ModuleType
from typing import Literal

from decision_rnn.data.sources import d4rl, minari, own, standin
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store.cache import store_folder
from decision_rnn.data.store.complete import complete_episodes
from decision_rnn.data.store.episodes import MANIFEST, EpisodeStore
from decision_rnn.errors import InputError

SOURCES: dict[str, ModuleType] = {"standin": standin, "d4rl": d4rl, "minari": minari, "own": own}
DEFAULT_SOURCE = "standin"


def names() -> list[str]:
    """The datasets that can be named, by source; a Minari dataset can be one that is not here yet."""
    return [name for source in SOURCES.values() for name in source.names()]


def lookup(name: str) -> DatasetSpec:
    """The dataset called `name`; a name without a source means the stand-in ("hopper-medium").

    Raises InputError, listing the known names, when there is none.
    """
    source, full = _resolve(name)
    spec: DatasetSpec = source.lookup(full)
    return spec


def open_store(
    name: str, progress: bool = True, path: Path | str | None = None, partial: Literal["keep", "drop"] = "keep"
) -> EpisodeStore:
    """The episodes of the dataset `name`, made or converted on first use and opened ever after.

    A store is keyed by the dataset's name and by what it was made from: a recipe, or files of a size and SHA-256.
    One that is corrupt, or was made from something else, is never used: it is made again, with a line on stderr.

    Args:
        name: As `lookup` takes it.
        progress: Show bars on stderr where that is a terminal.
        path: The file to read, for the datasets of D4RL.
        partial: What becomes of partial episodes, which neither terminated nor were truncated: with `drop` the store
            is another one, with a fingerprint of its own.

    Raises:
        InputError: For an unknown name, and for a source that cannot be had or used.
    """
    source, full = _resolve(name)
    store: EpisodeStore = source.open_store(full, progress, Path(path) if path else None)
    return store if partial == "keep" else complete_episodes(full, store)


def download(name: str, progress: bool = True) -> list[Path]:
    """Fetch what the dataset `name` is made from, where it is not here; returns where it lies."""
    source, full = _resolve(name)
    paths: list[Path] = source.download(full, progress)
    return paths


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
