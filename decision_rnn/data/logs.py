"""Logs of all formats: the usual names of their arrays and columns, and the cut into episodes."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.environments.episode import Episode, Missing
from decision_rnn.utils.errors import InputError, did_you_mean

NAMES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "acts"),
    "rewards": ("rewards", "reward", "rews", "next.reward"),
    "terminated": ("terminals", "terminated", "terminations", "terminal", "is_terminal"),
    "truncated": ("timeouts", "truncated", "truncations", "timeout"),
    "done": ("episode_terminals", "dones", "done", "next.done", "is_last"),
    "success": ("next.success",),
    "ends": ("episode_ends",),
    "lengths": ("episode_lengths", "traj_lengths"),
    "starts": ("episode_starts", "is_first"),
    "episode": ("episode_index", "episode_id", "episode_ids", "episode"),
    "time": ("frame_index",),
}
"""The names that other libraries give to arrays and columns, by role; the first that a log has is read."""
FLAGS = ("terminated", "truncated", "done", "success")
LISTED = 20
"""The most names or files that a message lists."""
UNREAD, LEFT_OUT, SPLITS, ENDS, JOINED, SCATTERED = (
    "not read",
    "left out, since they cannot be read",
    "all of its splits are read (--split reads one)",
    "read as terminations, since it does not distinguish truncations",
    "the only ends that are read: episodes that ended otherwise, as by time, are joined to the next",
    "rows of one episode are not side by side; if several robots or days count alike, name every column that "
    "identifies an episode, as --episode robot,run. Named now",
)
"""What the notes of a log are about."""


@dataclass(frozen=True)
class LogOptions:
    """The columns or arrays of a log by role, and how it is read.

    `names` are by role, as in `NAMES`, and may be patterns such as `obs_*`; the defaults are those of `import_log`.
    `done` is true at ends of both kinds; with `success`, those where it is true are terminations.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    split: str | None = None
    missing: Missing = "error"

    def find(self, label: str, known: Sequence[str], usual: bool = True) -> dict[str, list[str]]:
        """The columns or arrays of each role among those that are known: the named ones, or if `usual` the first of the
        usual names. InputError if the log lacks a named one."""
        keys: dict[str, list[str]] = {}
        for role, names in NAMES.items():
            groups = ([key for key in known if re.fullmatch(rf"{re.escape(n)}([/.].*)?", key)] for n in names)
            keys[role] = next(filter(None, groups), []) if usual else []
            if role in self.names:
                keys[role] = self._named(label, role, known)
        return keys

    def _named(self, label: str, role: str, known: Sequence[str]) -> list[str]:
        following = {f"next_{name}" for name in known}  # which `*_state` does not name
        current = [name for name in known if name not in following]
        matches = dict[str, None]()
        for pattern in self.names[role]:
            ways = (pattern, f"*/{pattern}", f"{pattern}/*")
            matching = [name for name in current if any(fnmatchcase(name, way) for way in ways)]
            if pattern in known:  # `q[0]` is no pattern, and `actions` does not name `obs/actions`
                matching = [pattern]
            if not matching:
                near = did_you_mean(pattern, known)
                raise InputError(f"{label} has no {pattern!r:.100}: {near}it has {listed(known)}.")
            matches |= dict.fromkeys(matching)
        return list(matches)

    def identifiers(self, keys: Mapping[str, Sequence[str]]) -> list[str]:
        """The columns or arrays that together identify an episode: all that are named, or the first usual one."""
        return list(keys["episode"][: None if "episode" in self.names else 1])

    def members(self, label: str, splits: Mapping[str, Collection[Any]]) -> Collection[Any] | None:
        """The episodes of the split to read; None for all."""
        if self.split is not None and self.split not in splits:
            raise InputError(f"{label} has no split {self.split!r:.100}: it has {', '.join(splits) or 'none'}.")
        return None if self.split is None else splits[self.split]


@dataclass
class Log:
    """An open log.

    Attributes:
        episodes: Its episodes.
        keys: By role, the columns or arrays that are read.
        action_size: The number of entries of an action.
        columns: The names of the entries of `observations` and `actions`, if it has any.
        space: The space of an observation; None for vectors.
        environment_id: The Gymnasium id that it states.
        notes: What readers of scores should know, as names by what they are about; complete after the last episode.
    """

    episodes: Iterator[Episode]
    keys: dict[str, list[str]]
    action_size: int
    columns: dict[str, list[str]] = field(default_factory=dict)
    space: gymnasium.Space[Any] | None = None
    environment_id: str | None = None
    notes: dict[str, list[str]] = field(default_factory=dict)


def notes_of(
    keys: Mapping[str, Sequence[str]], unread: Sequence[str], splits: Mapping[str, Collection[Any]]
) -> dict[str, list[str]]:
    """The notes of a log with these keys, arrays or columns that are not read, and splits if all are read."""
    alone = keys["done"] if not any(keys[flag] for flag in FLAGS if flag != "done") else []
    several = [f"{split} ({len(members)})" for split, members in splits.items()] if len(splits) > 1 else []
    return {UNREAD: list(unread), ENDS: list(alone), SPLITS: several, LEFT_OUT: []}


def cut(arrays: Mapping[str, np.ndarray]) -> Iterator[Episode]:
    """Cut steps into episodes: at `bounds`, otherwise at flags and where the next observation is not the following one.
    Where no observation follows the last action of an episode, the last one is repeated.

    Args:
        arrays: `observations` (T, O) and `actions` (T, A); as far as known `rewards` (T,), `following` (T, O), the
            observations after the actions, any of `FLAGS` (T,) and `bounds` (T,), bool, the last steps of episodes.
    """
    observations, actions = arrays["observations"], arrays["actions"]
    steps, following = len(actions), arrays.get("following", observations)
    terminated, truncated, done, success = (arrays.get(key, np.zeros(steps, bool)) for key in FLAGS)
    if "terminated" not in arrays:
        terminated = success if "success" in arrays else done & ~truncated
    truncated = truncated | (done & ~terminated)
    ends, bounds = terminated | truncated, arrays.get("bounds")
    if not {"bounds", "following", *FLAGS} & set(arrays):
        bounds = np.arange(steps) == steps - 1
    if bounds is not None:
        ends = bounds
        if "truncated" not in arrays:
            truncated = truncated | (ends & ~terminated)
    elif "following" in arrays:
        before, after = following[:-1], observations[1:]
        differ = (before != after) & ~(np.isnan(before) & np.isnan(after))  # NaN equals NaN
        ends = ends | np.append(differ.any(1), False)
    rewards = arrays.get("rewards", np.zeros(steps))
    for start, stop in pairwise([0, *(np.flatnonzero(ends[:-1]) + 1).tolist(), steps]):
        observed = np.concatenate([observations[start:stop], following[stop - 1 : stop]])
        flags = bool(terminated[stop - 1]), bool(truncated[stop - 1])
        yield Episode(observed, actions[start:stop], rewards[start:stop], *flags)


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def label_log(log: Any) -> str:
    """The name of a log in messages."""
    return str(log) if isinstance(log, Path) else f"the log, of type {type(log).__name__},"


def natural(name: str) -> list[tuple[int, str]]:
    """A sorting key for names with numbers: `demo_9` before `demo_10`."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]
