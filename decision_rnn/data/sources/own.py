"""Your own data: named stores written from episodes. They are kept outside the cache of what can be regenerated."""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium

from decision_rnn.data.environments import check_id, known_sizes
from decision_rnn.data.sources.contract import Source, register_source
from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store.episode import Episode, as_episodes
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.verification import CacheError
from decision_rnn.errors import InputError
from decision_rnn.files import locked

NAME = re.compile(r"own/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@register_source
class OwnSource(Source):
    """Datasets written by `write_store`, in `$DECISION_RNN_DATA/own` or `~/.local/share/decision_rnn/own`."""

    prefix = "own"
    pattern = "own/NAME"

    def names(self) -> list[str]:
        found = sorted(f"own/{path.name}" for path in _root().glob("*") if path.is_dir())
        return [name for name in found if NAME.fullmatch(name)]

    def spec(self, name: str) -> DatasetSpec:
        return spec_of_store(name, self.open(name, True, None))

    def open(self, name: str, progress: bool, path: Path | None) -> EpisodeStore:
        folder = self.folder(name)
        if path is not None:
            raise InputError(f"{name} is read from {_root()}: leave out --path")
        if not folder.is_dir():
            known = ", ".join(self.names()) or "none"
            raise InputError(f"there is no dataset {name} in {_root()} (known there: {known}): write it by write_store")
        try:
            return EpisodeStore.open(folder)
        except CacheError as error:
            raise InputError(f"{error.fault}: remove it and write {name} again with write_store") from None

    def folder(self, name: str) -> Path:
        """The folder of the dataset, which may not exist; raises InputError for an invalid name."""
        if not NAME.fullmatch(name):
            raise InputError(f"unknown dataset {name!r:.200}: own/ must be followed by letters, digits, '.', '_', '-'")
        return _root() / name.removeprefix("own/")


def write_store(
    name: str,
    episodes: Iterable[Episode],
    environment_id: str,
    *,
    environment_settings: dict[str, Any] | None = None,
) -> EpisodeStore:
    """Write episodes, one at a time, as the new dataset `name`, completely or not at all.

    It is stored in `$DECISION_RNN_DATA/own`, or in `~/.local/share/decision_rnn/own`; pass its name to `train`.

    Args:
        name: `own/` and a word.
        episodes: Episodes of one environment, in any order: `Episode`, or objects with the same attributes, as arrays
            or lists; Minari's `EpisodeData` has `terminations` and `truncations` of every step instead. An episode of T
            steps has observations (T+1, O), actions (T, A) and rewards (T,).
        environment_id: The Gymnasium id of the environment that agents trained on them are evaluated in. If it is not
            registered here, the episodes are not checked against its sizes.
        environment_settings: The settings of the environment besides its id, if known, as
            `DatasetSpec.environment_settings`: agents are not evaluated in an environment that is registered with
            others.

    Returns:
        The store: `.episodes` and `.steps` count them, `.episode_returns` (episodes,) are undiscounted.

    Raises:
        InputError: If the name is taken, invalid or being written by another process, if the folder cannot be written,
            or, naming the episode, if one is not an episode, is empty, not finite or not numeric, or does not match the
            environment's sizes.

    Example:
        >>> swing = decision_rnn.Episode(
        ...     observations=np.zeros((4, 2)),  # one more than there are actions
        ...     actions=np.ones((3, 1)),
        ...     rewards=np.full(3, -0.1),
        ...     terminated=False,
        ...     truncated=True,
        ... )
        >>> store = decision_rnn.write_store("own/three-steps", [swing], "MountainCarContinuous-v0")
        >>> store.episodes, store.steps, store.episode_returns.round(3)
        (1, 3, array([-0.3]))
    """
    path = OwnSource().folder(name)
    check_id(environment_id, "write_store")
    source: dict[str, Any] = {"notes": []}
    if environment_settings is not None:
        source["environment_settings"] = environment_settings
    if environment_id not in gymnasium.registry:
        source["notes"].append(f"{environment_id} was not registered where this was written: its sizes are not checked")
    if not isinstance(episodes, Iterable) or isinstance(episodes, dict | str):
        raise InputError(f"{name}: {type(episodes).__name__} is no sequence of episodes: give a list or a generator")
    sizes = known_sizes(environment_id, environment_settings)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(_root().with_name("locks") / name, wait=False))
        except TimeoutError:
            raise InputError(f"another process is writing {name} to {path}: choose another name") from None
        except OSError as error:
            raise InputError(
                f"cannot write {name} into {_root()}: {error.strerror}; name another folder with DECISION_RNN_DATA"
            ) from None
        if path.exists():
            raise InputError(f"{name} exists in {path}: remove it, or choose another name")
        converted = as_episodes(episodes, name)
        store = EpisodeStore.write(path, converted, environment_id=environment_id, source=source, sizes=sizes)
        store.name = name
        return store


def _root() -> Path:
    return Path(os.environ.get("DECISION_RNN_DATA") or "~/.local/share/decision_rnn").expanduser() / "own"
