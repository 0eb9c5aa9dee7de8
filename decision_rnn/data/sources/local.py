"""Local data: named stores written from episodes, outside the cache of what can be made again; and episodes that were
given to `train` in memory, inside it."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from decision_rnn.data.cache import sha256_of_json
from decision_rnn.data.formats import as_episode
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.store import EpisodeStore, store_folder
from decision_rnn.environments.episode import Episode, Missing
from decision_rnn.environments.registry import check_id, known_spaces
from decision_rnn.environments.spaces import OptionalSpaces, described_spaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import locked, remove_directory
from decision_rnn.utils.messages import warn
from decision_rnn.utils.parsing import convert

NEW = ".new"
"""Suffix of the hidden folder in which a dataset is complete before it takes its place, or that of an earlier one."""
NAME = re.compile(r"local/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@register_source
class LocalSource(Source):
    """Datasets written by `write_store`, in `$DECISION_RNN_DATA/local` or `~/.local/share/decision_rnn/local`."""

    prefix = "local"
    pattern = "local/NAME"

    def names(self) -> list[str]:
        _finish()
        names = sorted(f"local/{path.name}" for path in _root().glob("*") if path.is_dir())
        return [name for name in names if NAME.fullmatch(name)]

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        return EpisodeStore.open(self.folder(name))

    def folder(self, name: str) -> Path:
        """The folder of the dataset, which may not exist; raises InputError for an invalid name."""
        if not NAME.fullmatch(name):
            raise InputError(f"unknown dataset {name!r:.200}: expected local/ and letters, digits, '.', '_', '-'.")
        return _root() / name.removeprefix("local/")


@register_source
class CachedEpisodes(Source):
    """Episodes that were given to `train` or `compare` in memory; the name of each collection is a hash of it."""

    prefix = "episodes"
    pattern = "episodes/HASH"

    def names(self) -> list[str]:
        return []

    def check(self, name: str) -> None:
        if not self.folder(name).is_dir():
            super().check(name)

    def open(self, name: str, path: Path | None) -> EpisodeStore:
        return EpisodeStore.open(self.folder(name))


def cache_episodes(
    episodes: Iterable[Any],
    environment_id: str | None,
    source: dict[str, Any],
    spaces: OptionalSpaces = (None, None),
) -> str:
    """Write episodes to the cache; returns their name, which depends on their contents. Arguments: as
    `EpisodeStore.write`."""
    parent = store_folder("episodes")
    parent.mkdir(parents=True, exist_ok=True)
    spaces = _with_known(spaces, environment_id, source.get("environment_settings"))
    with tempfile.TemporaryDirectory(prefix=".", dir=parent) as temporary:
        store = EpisodeStore.write(
            Path(temporary) / "store",
            map(partial(as_episode, space=spaces[0]), episodes),
            environment_id=environment_id,
            source=source,
            spaces=spaces,
            label="the list of episodes",
        )
        described = described_spaces(store.observation_space, store.action_space)
        digest = sha256_of_json([store.fingerprint, environment_id, source, described])[:16]
        with contextlib.suppress(OSError):  # they are there, perhaps written by another process at the same time
            store.path.rename(parent / digest)
    return f"episodes/{digest}"


def _with_known(spaces: OptionalSpaces, environment_id: str | None, settings: dict[str, Any] | None) -> OptionalSpaces:
    """The spaces; in place of a space that is None, the registered environment's."""
    known = known_spaces(environment_id, settings) if None in spaces else None
    return [space or other for space, other in zip(spaces, known or (None, None), strict=True)]


def write_store(
    name: str,
    episodes: Iterable[Episode],
    environment_id: str | None = None,
    *,
    environment_settings: dict[str, Any] | None = None,
    overwrite: bool = False,
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
        environment_id: The Gymnasium id of the environment that agents trained on them are evaluated in, whose spaces
            they have if it is registered here; None for data of no environment, such as a robot's.
        environment_settings: Its settings besides the id, if known, as `DatasetSpec.environment_settings`.
        overwrite: If the dataset exists, replace it once all episodes are written; until then, or if that fails, it
            stays.
        observation_space: The space, if it is not that of the registered environment. Values that are no vectors are
            stored as rows of numbers, as `gymnasium.spaces.flatten` makes them, without text.
        action_space: As `observation_space`, such as `gymnasium.spaces.Discrete(4)` for actions from 0 to 3.
        missing: What is done with an episode in which a number is NaN or infinite: `error`, `drop_episode`, or
            `end_episode`, which ends it before that step, neither terminated nor truncated.
        columns: The names of the entries of `observations` and `actions`, if they have any, as in a log.
        notes: Sentences on the data for readers of scores; the list may grow until the last episode is read.

    Returns:
        The store: `.num_episodes` and `.steps` count them, `.episode_returns` (episodes,) are undiscounted.

    Raises:
        InputError: If the name is taken or invalid, if no agent can be trained on such actions, or, naming the episode,
            if one is empty, not finite or not numeric, or does not match the environment's sizes.
        BlockingIOError: If another process is writing the dataset.

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
    if environment_id is not None:
        check_id(environment_id, "write_store")
    missing = convert(missing, Missing, "missing")
    source: dict[str, Any] = {"notes": [] if notes is None else notes}  # written last, once all notes are known
    if columns:
        source["columns"] = dict(columns)
    if environment_settings is not None:
        source["environment_settings"] = environment_settings
    spaces = _with_known((observation_space, action_space), environment_id, environment_settings)
    options: dict[str, Any] = {"environment_id": environment_id, "source": source, "spaces": spaces}
    label = f"{name} ({environment_id or 'no environment'})"
    episodes = map(partial(as_episode, space=spaces[0]), episodes)
    return _write(name, episodes, overwrite, label=label, missing=missing, **options)


def write_stores(name: str, stores: Sequence[EpisodeStore], source: dict[str, Any], overwrite: bool = False) -> None:
    """Write the episodes of stores of one environment, in that order, as the dataset `name`; errors and `overwrite` as
    for `write_store`. Actions have the widest bounds of all that are stated, with a warning where they differ."""
    stated = zip(*(store.stated_spaces for store in stores), strict=True)
    spaces = [next(filter(None, each), None) for each in stated]
    boxes = [box for store in stores if isinstance(box := store.stated_spaces[1], Box)]
    if any(box != boxes[0] for box in boxes):
        spaces[1] = box = Box(np.min([box.low for box in boxes], axis=0), np.max([box.high for box in boxes], axis=0))
        warn(f"{name}: warning: its parts have different bounds of actions, now {box}: give all the same unit")
    environment_id = stores[0].environment_id
    _write(name, chain(*stores), overwrite, environment_id=environment_id, source=source, spaces=spaces)


def _write(name: str, episodes: Iterable[Any], overwrite: bool, **options: Any) -> EpisodeStore:
    path = LocalSource().folder(name)
    with _rewriting(path) as new:
        check_new(name, overwrite)
        EpisodeStore.write(new, episodes, **options)
    store = EpisodeStore.open(path)
    store.name = name
    return store


def remove_dataset(name: str) -> None:
    """Remove a local dataset from disk. Runs that were trained on it can still be evaluated, not resumed.

    Raises:
        InputError: If it is not a local dataset, or there is none of that name.
    """
    path = LocalSource().folder(name)
    with _rewriting(path):
        LocalSource().check(name)
        remove_directory(path)


def check_new(name: str, overwrite: bool = False) -> None:
    """Raise InputError if no dataset can be written by that name or, with `overwrite`, replaced."""
    path = LocalSource().folder(name)
    if path.exists() and not overwrite:
        raise InputError(f"{name} exists in {path}: overwrite it, or choose another name.")


@contextlib.contextmanager
def _rewriting(path: Path, wait: bool = False) -> Iterator[Path]:
    """Where to write a dataset anew, which only this process does inside the block. What is complete takes the place of
    `path` when the block ends, or begins again if the process was killed in between."""
    new = path.with_name(f".{path.name}{NEW}")

    def replace() -> None:
        if new.is_dir():
            remove_directory(path)
            new.rename(path)

    with locked(path.parent.with_name("locks") / "local" / path.name, wait):
        replace()
        yield new
        replace()


def _finish() -> None:
    """Finish what killed processes had written in full, if there is anything."""
    for new in _root().glob(f".*{NEW}"):
        with contextlib.suppress(OSError), _rewriting(_root() / new.name[1:].removesuffix(NEW), wait=True):
            pass


def _root() -> Path:
    return Path(os.environ.get("DECISION_RNN_DATA") or "~/.local/share/decision_rnn").expanduser() / "local"
