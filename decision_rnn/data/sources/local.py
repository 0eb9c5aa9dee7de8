"""Your own data: named stores written from episodes. They are kept outside the cache of what can be regenerated."""

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from decision_rnn.data.episode import Episode, as_episodes
from decision_rnn.data.missing import Missing, check_policy, without_missing
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec, described_spaces, read_spaces, spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.verification import CacheError
from decision_rnn.environments.environments import (
    check_id,
    known_spaces,
    layouts_of,
    registered,
    registered_settings,
    sizes_of,
)
from decision_rnn.utils.errors import InputError, did_you_mean, one_line
from decision_rnn.utils.files import locked, remove_directory

APPENDED = ".appended"
"""How the hidden folder ends in which a dataset with the episodes appended to it is complete, before it replaces it."""
NAME = re.compile(r"local/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@register_source
class LocalSource(Source):
    """Datasets written by `write_store`, in `$DECISION_RNN_DATA/local` or `~/.local/share/decision_rnn/local`."""

    prefix = "local"
    pattern = "local/NAME"

    def names(self) -> list[str]:
        for name in [f"local/{path.name[1:].removesuffix(APPENDED)}" for path in _root().glob(f".*{APPENDED}")]:
            _finish_appending(name)
        found = sorted(f"local/{path.name}" for path in _root().glob("*") if path.is_dir())
        return [name for name in found if NAME.fullmatch(name)]

    def spec(self, name: str) -> DatasetSpec:
        return spec_of_store(name, self.open(name, True, None))

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        folder = self.folder(name)
        if path is not None:
            raise InputError(f"{name} is read from {_root()}: leave out --path")
        if _appended(folder).is_dir():
            _finish_appending(name)
        if not folder.is_dir():
            raise InputError(
                f"there is no dataset {name} in {_root()}: {did_you_mean(name, self.names())}`decision-rnn data list` "
                "shows those that are there, and record or write_store writes one"
            )
        try:
            return EpisodeStore.open(folder)
        except CacheError as error:
            raise InputError(f"{error.fault}: `decision-rnn data remove {name}` removes it; write it again") from None

    def folder(self, name: str) -> Path:
        """The folder of the dataset, which may not exist; raises InputError for an invalid name."""
        if not NAME.fullmatch(name):
            raise InputError(f"unknown dataset {name!r:.200}: local/ is followed by letters, digits, '.', '_', '-'")
        return _root() / name.removeprefix("local/")


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
) -> EpisodeStore:
    """Write episodes, one at a time, as the new dataset `name`, completely or not at all.

    It is stored in `$DECISION_RNN_DATA/local`, or in `~/.local/share/decision_rnn/local`; pass its name to `train`.

    Args:
        name: `local/` and a word.
        episodes: Episodes of one environment, in any order: `Episode`, or objects with the same attributes, as arrays
            or lists; Minari's `EpisodeData` has `terminations` and `truncations` of every step instead. An episode of T
            steps has observations (T+1, O), actions (T, A) and rewards (T,). If no observation follows the last action,
            repeat the last one: agents are not trained on it.
        environment_id: The Gymnasium id of the environment that agents trained on them are evaluated in. If it is not
            registered here, the episodes are not checked against its sizes. None for data of no environment, such as a
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

    Returns:
        The store: `.episodes` and `.steps` count them, `.episode_returns` (episodes,) are undiscounted.

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
        >>> store.episodes, store.steps, store.episode_returns.round(3)
        (1, 3, array([-0.3]))
    """
    if not isinstance(episodes, Iterable) or isinstance(episodes, dict | str):
        raise InputError(f"{name}: {type(episodes).__name__} is no sequence of episodes: give a list or a generator")
    return write_local(
        name,
        episodes,
        environment_id,
        environment_settings=environment_settings,
        append=append,
        observation_space=observation_space,
        action_space=action_space,
        missing=missing,
        notes=[],
    )


def write_local(
    name: str,
    episodes: Iterable[Any],
    environment_id: str | None,
    *,
    environment_settings: dict[str, Any] | None = None,
    append: bool,
    observation_space: gymnasium.Space[Any] | None = None,
    action_space: gymnasium.Space[Any] | None = None,
    missing: Missing,
    notes: list[str],
    columns: dict[str, list[str]] | None = None,
) -> EpisodeStore:
    """Write episodes as `write_store` does.

    Args:
        notes: Sentences on the data; the list is extended, and may be until the last episode is read.
        columns: The names of the entries of observations and actions, as in a log.

    Returns, raises and other arguments: as of `write_store`.
    """
    check_policy(missing)
    source: dict[str, Any] = {"notes": notes}
    if columns:
        source["columns"] = columns
    if environment_settings is not None:
        source["environment_settings"] = environment_settings
    if environment_id is not None:
        check_id(environment_id, "write_store")
        if registered(environment_id) is None:
            notes.append(f"{environment_id} was not registered where this was written: its sizes are not checked")
    known = known_spaces(environment_id, environment_settings) or (None, None)
    spaces = (observation_space or known[0], action_space or known[1])
    with _writing(name) as path:
        check_new(name, append)
        before = LocalSource().open(name, False, None) if path.exists() else None
        if before is not None:
            former = before.manifest["source"]
            given = environment_id, _effective(environment_id, environment_settings)
            if environment_of(before) != given:
                raise InputError(
                    f"{name} has episodes of {_describe(environment_of(before))} and these are of {_describe(given)}: "
                    "choose another name"
                )
            recorded = read_spaces(former.get("spaces"))
            spaces = (spaces[0] or recorded.get("observation"), spaces[1] or recorded.get("action"))
        layouts = layouts_of(spaces, name)
        source["spaces"] = described_spaces(*spaces)
        added = without_missing(as_episodes(episodes, name, layouts), missing, notes)
        if before is None:
            sizes = sizes_of(layouts)
            store = EpisodeStore.write(path, added, environment_id=environment_id, source=source, sizes=sizes)
        else:
            if (differs := _difference(former, source)) is not None:
                raise InputError(f"{name} has {differs[0]} and these are {differs[1]}: choose another name")
            for kind, layout in zip(("observation", "action"), layouts, strict=True):
                rows = getattr(before, f"{kind}s")
                if layout is not None and kind not in recorded and layout.size == rows.shape[1]:
                    try:
                        layout.check_rows(rows, f"{kind}s")  # a space that is new must be that of the earlier ones too
                    except InputError as error:
                        raise InputError(f"{name} was written without this space of {kind}s: {error}") from None
            notes[:0] = [note for note in former.get("notes", ()) if note not in notes]
            EpisodeStore.write(
                _appended(path),
                itertools.chain(before.read_episodes(), added),
                environment_id=environment_id,
                source={**former, "notes": notes, "spaces": source["spaces"]},
                sizes=(before.observation_dim, before.action_dim),
            )
            _replace(path)
            store = EpisodeStore.open(path)
    store.name = name
    return store


def check_new(name: str, append: bool) -> None:
    """Raise InputError if no dataset can be written by that name, or, with `append`, appended to."""
    path = LocalSource().folder(name)
    if path.exists() and not append:
        raise InputError(f"{name} exists in {path}: remove it, append to it, or choose another name")


def merge_stores(name: str, stores: Mapping[str, EpisodeStore]) -> EpisodeStore:
    """Write the episodes of several stores, by their names, as the new dataset `name`, in that order.

    Raises:
        InputError: If the environments or sizes of the stores differ, or as `write_store`.
    """
    (first_name, first), *others = stores.items()
    sizes = first.observation_dim, first.action_dim
    for other_name, other in others:
        if environment_of(other) != environment_of(first) or (other.observation_dim, other.action_dim) != sizes:
            first_is, other_is = (
                f"{_describe(environment_of(store))}, {store.observation_dim} observations, {store.action_dim} actions"
                for store in (first, other)
            )
            raise InputError(
                f"{other_name} is of {other_is}, and {first_name} of {first_is}: merge datasets of one environment"
            )
        if (differs := _difference(other.manifest["source"], first.manifest["source"])) is not None:
            raise InputError(f"{other_name} has {differs[0]}, and {first_name} {differs[1]}: merge datasets that agree")
    source = dict(first.manifest["source"])
    kept = {key: source[key] for key in ("columns", "environment_settings", "requirements", "spaces") if key in source}
    notes = dict.fromkeys(note for store in stores.values() for note in store.manifest["source"].get("notes", ()))
    with _writing(name) as path:
        if path.exists():
            raise InputError(f"{name} exists in {path}: remove it, or choose another name")
        store = EpisodeStore.write(
            path,
            itertools.chain.from_iterable(store.read_episodes() for store in stores.values()),
            environment_id=first.environment_id,
            source={**kept, "notes": list(notes), "merged": {part: of.fingerprint for part, of in stores.items()}},
            sizes=sizes,
        )
    store.name = name
    return store


def remove_dataset(name: str) -> None:
    """Remove a local dataset from disk. Runs that were trained on it can still be evaluated, not resumed.

    Raises:
        InputError: If it is not a local dataset, there is none of that name, or another process is writing it.
    """
    if not str(name).startswith("local/"):
        raise InputError(
            f"{name!r:.100} is not a local dataset, local/NAME: others are made again, so delete their folder"
        )
    with _writing(name) as path:
        if not path.is_dir():
            raise InputError(f"there is no dataset {name} in {_root()}: `decision-rnn data list` lists them")
        remove_directory(path)


def environment_of(store: EpisodeStore) -> tuple[str | None, dict[str, Any]]:
    """The id and settings that must agree for the episodes of two stores to be of one environment."""
    return store.environment_id, _effective(store.environment_id, store.manifest["source"].get("environment_settings"))


def _difference(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, str] | None:
    """What two sources say of their columns or spaces, in words, where both do and differ."""
    said = [
        {
            "the columns": source.get("columns"),
            **{f"{kind}s in": space for kind, space in read_spaces(source.get("spaces")).items()},
        }
        for source in (first, second)
    ]
    for what in said[0]:
        one, other = (of.get(what) for of in said)
        if None not in (one, other) and one != other:
            return (f"{what} {one_line(one)}", f"{what} {one_line(other)}")
    return None


def _describe(environment: tuple[str | None, dict[str, Any]]) -> str:
    return f"{environment[0] or 'no environment'} {environment[1]!s:.300}"


def _effective(environment_id: str | None, settings: dict[str, Any] | None) -> dict[str, Any]:
    """Settings without those that say nothing; those of the registered environment if none are known."""
    if settings is None and environment_id is not None and registered(environment_id) is not None:
        settings = registered_settings(environment_id)
    plain = json.loads(json.dumps(settings or {}, default=repr))
    return {key: value for key, value in plain.items() if value}


@contextlib.contextmanager
def _writing(name: str) -> Iterator[Path]:
    """The folder of a local dataset, which only this process changes inside the block."""
    path = LocalSource().folder(name)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(_lock(name), wait=False))
            _replace(path)
        except TimeoutError:
            raise InputError(f"another process is writing {name} to {path}: choose another name, or wait") from None
        except OSError as error:
            raise InputError(
                f"cannot write {name} into {_root()}: {error.strerror}; name another folder with DECISION_RNN_DATA"
            ) from None
        yield path


def _finish_appending(name: str) -> None:
    """Finish what a process killed while it appended had written in full."""
    with contextlib.suppress(OSError), locked(_lock(name)):
        _replace(LocalSource().folder(name))


def _replace(path: Path) -> None:
    """Replace a dataset by what was appended to it, if that is complete; killed at any point, a second call goes on."""
    if _appended(path).is_dir():
        remove_directory(path)
        _appended(path).rename(path)


def _appended(path: Path) -> Path:
    return path.with_name(f".{path.name}{APPENDED}")


def _lock(name: str) -> Path:
    return _root().with_name("locks") / name


def _root() -> Path:
    return Path(os.environ.get("DECISION_RNN_DATA") or "~/.local/share/decision_rnn").expanduser() / "local"
