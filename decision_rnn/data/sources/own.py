"""Your own data: stores written from episodes of arrays, by name. They are kept apart from what can be made again."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from decision_rnn.data.environments import environment_sizes, of_environment
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store.episodes import Episode, EpisodeStore
from decision_rnn.data.store.verification import CacheError
from decision_rnn.errors import InputError

PATTERN = "own/NAME"
NAME = re.compile(r"own/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def write_store(name: str, episodes: Iterable[Episode], environment_id: str) -> EpisodeStore:
    """Write episodes, one at a time, as the new dataset `name`, whole or not at all.

    Args:
        name: `own/` and a word.
        episodes: In any order, of one environment.
        environment_id: The Gymnasium id, registered here, that agents trained on them are evaluated in.

    Raises:
        InputError: When the name is taken or no name, and, naming the episode, when one is empty, not finite, not
            made of numbers, or not of the environment's sizes.
    """
    path = folder(name)
    if path.exists():
        raise InputError(f"{name} exists in {path}: remove it, or choose another name")
    environment_sizes(environment_id)
    numbers = _as_numbers(episodes, name)
    return EpisodeStore.write(
        path, of_environment(numbers, environment_id, name), environment_id=environment_id, source={"notes": []}
    )


def _as_numbers(episodes: Iterable[Episode], name: str) -> Iterator[Episode]:
    """The episodes with lists turned into arrays; InputError where they hold anything but numbers."""
    for index, episode in enumerate(episodes):
        arrays = {}
        for key in ("observations", "actions", "rewards"):
            try:
                arrays[key] = np.asarray(getattr(episode, key))
            except ValueError:  # rows of different lengths
                arrays[key] = np.asarray(None)
            if arrays[key].dtype.kind not in "fiub":
                raise InputError(f"{name}: episode {index} has {key} that are not an array of numbers")
        yield Episode(
            arrays["observations"],
            arrays["actions"],
            arrays["rewards"],
            bool(episode.terminated),
            bool(episode.truncated),
            episode.seed,
        )


def root() -> Path:
    """Where own datasets lie: `$DECISION_RNN_DATA/own`, or `~/.local/share/decision_rnn/own`."""
    return Path(os.environ.get("DECISION_RNN_DATA") or "~/.local/share/decision_rnn").expanduser() / "own"


def folder(name: str) -> Path:
    """Where the dataset `name` lies, or would; InputError where it cannot be a name."""
    if not NAME.fullmatch(name):
        raise InputError(f"unknown dataset {name!r:.200}: own/ must be followed by letters, digits, '.', '_' and '-'")
    return root() / name.removeprefix("own/")


def names() -> list[str]:
    """Those that have been written."""
    found = sorted(f"own/{path.name}" for path in root().glob("*") if path.is_dir())
    return [name for name in found if NAME.fullmatch(name)]


def lookup(name: str) -> DatasetSpec:
    """The spec of `name`, from what was written."""
    return spec_of_store(name, open_store(name, True, None))


def open_store(name: str, progress: bool, path: Path | None) -> EpisodeStore:
    """The store that `write_store` wrote; InputError where there is none or it is damaged."""
    if path is not None:
        raise InputError(f"{name} is read from {root()}: leave out --path")
    if not folder(name).is_dir():
        known = ", ".join(names()) or "none"
        raise InputError(f"there is no dataset {name} in {root()} (known there: {known}): write it with write_store")
    try:
        return EpisodeStore.open(folder(name))
    except CacheError as error:
        raise InputError(f"{error.fault}: remove it and write {name} anew with write_store") from None


def download(name: str, progress: bool) -> list[Path]:
    """There is nothing to fetch: InputError."""
    raise InputError(f"{name} is your own: there is nothing to download")
