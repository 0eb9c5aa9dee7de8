"""Local data: named stores written from episodes, outside the cache of what can be made again; and episodes that were
given to `train` in memory, inside it."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from decision_rnn.data.cache import CacheError, sha256_of_json
from decision_rnn.data.episode import Episode, Missing, as_episodes, without_missing
from decision_rnn.data.layouts import Layout
from decision_rnn.data.sources.contract import Source, refuse_path, register_source
from decision_rnn.data.spaces import described_spaces, layouts_of
from decision_rnn.data.store import EpisodeStore, store_folder
from decision_rnn.environments.registry import check_id, registered
from decision_rnn.environments.settings import known_spaces, settings_of
from decision_rnn.utils.errors import InputError, cannot_write, did_you_mean, one_line
from decision_rnn.utils.files import locked, remove_directory

APPENDED = ".appended"
"""Suffix of the hidden folder in which an appended dataset is complete, before it replaces the earlier one."""
NAME = re.compile(r"local/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@register_source
class LocalSource(Source):
    """Datasets written by `write_store`, in `$DECISION_RNN_DATA/local` or `~/.local/share/decision_rnn/local`."""

    prefix = "local"
    pattern = "local/NAME"

    def names(self) -> list[str]:
        for staged in _root().glob(f".*{APPENDED}"):
            _finish_appending(f"local/{staged.name[1:].removesuffix(APPENDED)}")
        names = sorted(f"local/{path.name}" for path in _root().glob("*") if path.is_dir())
        return [name for name in names if NAME.fullmatch(name)]

    def check(self, name: str) -> None:
        folder = self.folder(name)
        if _staged(folder).is_dir():
            _finish_appending(name)
        if not folder.is_dir():
            raise InputError(
                f"there is no dataset {name} in {_root()}: {did_you_mean(name, self.names())}`decision-rnn data list` "
                "shows the datasets."
            )

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        refuse_path(name, path)
        try:
            return EpisodeStore.open(self.folder(name))
        except CacheError as error:
            raise InputError(f"{error.fault}. Write it again, after `decision-rnn data remove {name}`.") from None

    def folder(self, name: str) -> Path:
        """The folder of the dataset, which may not exist; raises InputError for an invalid name."""
        if not NAME.fullmatch(name):
            raise InputError(f"unknown dataset {name!r:.200}: local/ is followed by letters, digits, '.', '_', '-'.")
        return _root() / name.removeprefix("local/")


@register_source
class CachedEpisodes(Source):
    """Episodes that were given to `train` or `compare` in memory; the name of each collection is a hash of it."""

    prefix = "episodes"
    pattern = "episodes/HASH"

    def names(self) -> list[str]:
        return []

    def check(self, name: str) -> None:
        if not re.fullmatch("episodes/[0-9a-f]{16}", name) or not self.folder(name).is_dir():
            raise InputError(f"there are no episodes {name} in the cache. Give the episodes again, or use write_store.")

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        refuse_path(name, path)
        return EpisodeStore.open(self.folder(name))


def cache_episodes(
    episodes: Iterable[Any],
    environment_id: str | None,
    settings: dict[str, Any] | None = None,
    spaces: Sequence[gymnasium.Space[Any] | None] = (None, None),
) -> str:
    """Write episodes to the cache; returns their name, which depends on their contents. Arguments: as `write_store`."""
    source = {} if settings is None else {"environment_settings": settings}
    if None in spaces:
        known = known_spaces(environment_id, settings) or (None, None)
        spaces = [space or other for space, other in zip(spaces, known, strict=True)]
    parent = store_folder("episodes")
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=parent) as temporary:
        store = EpisodeStore.write(
            Path(temporary) / "store",
            episodes,
            environment_id=environment_id,
            source=source,
            spaces=spaces,
            label="the list of episodes",
        )
        described = described_spaces(store.observation_space, store.action_space)
        digest = sha256_of_json([store.fingerprint, environment_id, settings, described])[:16]
        try:
            store.path.rename(parent / digest)
        except OSError:  # they are there, perhaps written by another process at the same time
            if not (parent / digest).is_dir():
                raise
    return f"episodes/{digest}"


def write_store(
    name: str,
    episodes: Iterable[Episode],
    environment_id: str | None = None,
    *,
    environment_settings: dict[str, Any] | None = None,
    append: bool = False,
    observation_space: gymnasium.Space[Any] | None = None,
    action_space: gymnasium.Space[Any] | None = None,
    missing: Missing = "error",
    columns: Mapping[str, Sequence[str]] | None = None,
    notes: list[str] | None = None,
) -> EpisodeStore:
    """Write episodes, one at a time, as the new dataset `name`, completely or not at all.

    It is stored in `$DECISION_RNN_DATA/local`, or in `~/.local/share/decision_rnn/local`; pass its name to `train`.

    Args:
        name: `local/` and a word.
        episodes: Episodes of one environment, in any order: `Episode`, or objects with the same attributes, as arrays
            or lists; Minari's `EpisodeData` has `terminations` and `truncations` of every step instead. An episode of T
            steps has observations (T+1, O), actions (T, A) and rewards (T,). If no observation follows the last action,
            repeat the last one: agents are not trained on it.
        environment_id: The Gymnasium id of the environment that agents trained on them are evaluated in. If it is
            registered here, its spaces are those of the episodes. None for data of no environment, such as a
            robot's: agents trained on them are not evaluated.
        environment_settings: The settings of the environment besides its id, if known, as
            `DatasetSpec.environment_settings`: agents are not evaluated in an environment that is registered with
            others.
        append: If the dataset exists, add the episodes to its end; it is replaced once all are written.
        observation_space, action_space: The spaces, if they are not those of the registered environment, such as
            `gymnasium.spaces.Discrete(4)` for actions from 0 to 3. Values of Discrete and MultiDiscrete spaces and, for
            observations, of MultiBinary, Dict and Tuple, are stored as rows of numbers, as `gymnasium.spaces.flatten`
            makes them, without text.
        missing: What is done with an episode in which a number is NaN or infinite: `error`, `drop_episode`, or
            `end_episode`, which ends it before that step, neither terminated nor truncated.
        columns: The names of the entries of `observations` and `actions`, if they have any, as in a log.
        notes: Sentences on the data for readers of scores; the list may grow until the last episode is read.

    Returns:
        The store: `.num_episodes` and `.steps` count them, `.episode_returns` (episodes,) are undiscounted.

    Raises:
        InputError: If the name is taken, invalid or being written by another process, if the folder cannot be written,
            if the dataset appended to is of another environment, if no agent can be trained on such actions, or, naming
            the episode, if one is not an episode, is empty, not finite or not numeric, or does not match the
            environment's sizes.

    Example:
        >>> swing = decision_rnn.Episode(
        ...     observations=np.zeros((4, 2)),  # one more than there are actions
        ...     actions=np.ones((3, 1)),
        ...     rewards=np.full(3, -0.1),
        ...     terminated=False,
        ...     truncated=True,
        ... )
        >>> store = decision_rnn.write_store("local/three-steps", [swing], "MountainCarContinuous-v0")
        >>> store.num_episodes, store.steps, store.episode_returns.round(3)
        (1, 3, array([-0.3]))
    """
    if not isinstance(episodes, Iterable) or isinstance(episodes, dict | str):
        raise InputError(f"{name}: {type(episodes).__name__} is no sequence of episodes: give a list or a generator.")
    if environment_id is not None:
        check_id(environment_id, "write_store")
    notes = [] if notes is None else notes
    source: dict[str, Any] = {"notes": notes}  # written last, once all notes are known
    if columns:
        source["columns"] = dict(columns)
    if environment_settings is not None:
        source["environment_settings"] = environment_settings
    spaces = [observation_space, action_space]
    if None in spaces:
        known = known_spaces(environment_id, environment_settings) or (None, None)
        spaces = [space or other for space, other in zip(spaces, known, strict=True)]
    with _writing(name) as path:
        check_new(name, append)
        before = EpisodeStore.open(path) if path.exists() else None
        if before is not None:
            _check_alike(name, _traits(before), _traits_of(environment_id, source, spaces))
            spaces = [space or stated for space, stated in zip(spaces, before.stated_spaces, strict=True)]
        rows = without_missing(as_episodes(episodes, name, layouts_of(spaces, name)), missing, notes)
        if before is not None:
            notes[:0] = [note for note in before.source.get("notes", ()) if note not in notes]
            source = {**before.source, "notes": notes}
        label = f"{name} ({environment_id or 'no environment'})"
        options: dict[str, Any] = {"environment_id": environment_id, "source": source, "spaces": spaces, "label": label}
        if before is None:
            store = EpisodeStore.write(path, rows, **options)
        else:
            EpisodeStore.write(_staged(path), chain(before, rows), **options)
            _replace(path)
            store = EpisodeStore.open(path)
    store.name = name
    return store


def check_new(name: str, append: bool = False) -> None:
    """Raise InputError if no dataset can be written by that name, or, with `append`, appended to."""
    path = LocalSource().folder(name)
    if path.exists() and not append:
        raise InputError(f"{name} exists in {path}: remove it, append to it, or choose another name.")


def merge_stores(name: str, stores: Mapping[str, EpisodeStore]) -> EpisodeStore:
    """Write the episodes of several stores, by their names, as the new dataset `name`, in that order.

    Raises:
        InputError: If the environments, sizes or spaces of the stores differ, or as `write_store`.
    """
    first, *further = stores.values()
    for other_name, other in list(stores.items())[1:]:
        _check_alike(other_name, _traits(first), _traits(other))
    inherited = ("columns", "environment_settings", "requirements")
    source = {key: first.source[key] for key in inherited if key in first.source}
    notes = dict.fromkeys(note for store in stores.values() for note in store.source.get("notes", ()))
    source |= {"notes": list(notes), "merged": {part: store.fingerprint for part, store in stores.items()}}
    stated = zip(*(store.stated_spaces for store in stores.values()), strict=True)
    spaces = [next((space for space in each if space is not None), None) for each in stated]
    with _writing(name) as path:
        check_new(name)
        episodes = chain(first, *further)
        store = EpisodeStore.write(path, episodes, environment_id=first.environment_id, source=source, spaces=spaces)
    store.name = name
    return store


def remove_dataset(name: str) -> None:
    """Remove a local dataset from disk. Runs that were trained on it can still be evaluated, not resumed.

    Raises:
        InputError: If it is not a local dataset, there is none of that name, or another process is writing it.
    """
    with _writing(name) as path:
        LocalSource().check(name)
        remove_directory(path)


def _traits(store: EpisodeStore) -> dict[str, Any]:
    return _traits_of(store.environment_id, store.source, store.stated_spaces) | {
        "sizes": (store.observation_dim, store.action_dim)
    }


def _traits_of(
    environment_id: str | None, source: Mapping[str, Any], spaces: Sequence[gymnasium.Space[Any] | None]
) -> dict[str, Any]:
    """What must agree for episodes to be in one dataset; None for what is not known."""
    settings = source.get("environment_settings")
    if settings is None and (spec := registered(environment_id)) is not None:
        settings = settings_of(spec)
    plain = json.loads(json.dumps(settings or {}, default=repr))
    return {
        "environment": (environment_id, {key: value for key, value in plain.items() if value}),
        "columns": source.get("columns"),
        "observation space": None if spaces[0] is None else _space_trait(spaces[0], "observations"),
        "action space": None if spaces[1] is None else _space_trait(spaces[1], "actions"),
    }


def _space_trait(space: gymnasium.Space[Any], kind: str) -> Any:
    """What a store keeps of a space: nothing of the bounds of vectors of observations, or of infinite ones."""
    if kind == "observations" and Layout.of_space(space, kind).flat:
        return None
    if not isinstance(space, Box):
        return space
    bounds = np.array([space.low, space.high], np.float32)
    return bounds.tolist() if np.isfinite(bounds).all() else None


def _check_alike(name: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    for trait, value in second.items():
        if value is not None and first.get(trait) is not None and value != first[trait]:
            raise InputError(
                f"{name} has the {trait} {one_line(value)}, expected {one_line(first[trait])}: choose another name."
            )


@contextlib.contextmanager
def _writing(name: str) -> Iterator[Path]:
    """The folder of a local dataset, which only this process changes inside the block."""
    path = LocalSource().folder(name)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(_lock(name), wait=False))
            _replace(path)
        except TimeoutError:
            raise InputError(f"another process is writing {name} to {path}: choose another name, or wait.") from None
        except OSError as error:
            raise cannot_write(f"{name} into {_root()} (DECISION_RNN_DATA)", error) from None
        yield path


def _finish_appending(name: str) -> None:
    """Finish what a process killed while it appended had written in full."""
    with contextlib.suppress(OSError), locked(_lock(name)):
        _replace(LocalSource().folder(name))


def _replace(path: Path) -> None:
    """Replace a dataset by what was appended to it, if that is complete; killed at any point, a second call goes on."""
    if _staged(path).is_dir():
        remove_directory(path)
        _staged(path).rename(path)


def _staged(path: Path) -> Path:
    return path.with_name(f".{path.name}{APPENDED}")


def _lock(name: str) -> Path:
    return _root().with_name("locks") / name


def _root() -> Path:
    return Path(os.environ.get("DECISION_RNN_DATA") or "~/.local/share/decision_rnn").expanduser() / "local"
