"""Logs of all formats: the usual names of arrays and columns, options, remarks, and the cut into episodes."""

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.environments.episode import Episode, Missing
from decision_rnn.environments.spaces import OptionalSpaces
from decision_rnn.utils.errors import InputError, did_you_mean, one_line
from decision_rnn.utils.messages import counted

NAMES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    "following": ("next_observations", "next_observation", "next_obs", "next_states", "next_state"),
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
LEAVE_OUT = " --missing drop_episode leaves out such episodes; end_episode ends those with missing numbers before."
LISTED = 20
"""The most names or files that an error lists."""
GAP = 10
"""A longer step of time, in median ones, is noted."""
SHOWN = 5
"""The most names that a sentence lists."""


@dataclass(frozen=True)
class LogOptions:
    """The columns or arrays of a log by role, and how it is read.

    `names` are by role, as in `NAMES`, and may be patterns such as `obs_*`. Without `rewards` all rewards are 0.
    Without `episode` a log is one episode, unless flags end episodes in it. Without `time` the rows are in order.
    Without `truncated`, episodes that did not terminate were truncated. `done` is true at ends of both
    kinds; with `success`, those where it is true are terminations.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    split: str | None = None
    missing: Missing = "error"

    def find(self, label: str, role: str, known: Sequence[str], remarks: "Remarks") -> list[str]:
        """The columns or arrays of a role among those that are known: the named ones, or the first of usual names.
        What a pattern matches is noted.

        Raises:
            InputError: If the log lacks a named one.
        """
        if role not in self.names:
            usual = (rf"{re.escape(name)}([/.].*)?" for name in NAMES[role])
            groups = ([name for name in known if re.fullmatch(pattern, name)] for pattern in usual)
            return next(filter(None, groups), [])
        current = [name for name in known if name.partition("/")[0] not in NAMES["following"]]
        matches = dict[str, None]()
        for pattern in self.names[role]:
            ways = (pattern, f"*/{pattern}", f"{pattern}/*")
            matching = [name for name in current if any(fnmatchcase(name, way) for way in ways)]
            if pattern in current:  # `q[0]` is no pattern, and `actions` does not name `obs/actions`
                matching = [pattern]
            if not matching:
                near = did_you_mean(pattern, known)
                raise InputError(f"{label} has no {pattern!r:.100}: {near}it has {', '.join(known[:LISTED])}.")
            if matching != [pattern]:
                remarks.name("patterns", [f"{pattern} reads {listed(matching, LISTED)}"])
            matches |= dict.fromkeys(matching)
        return list(matches)

    def members(self, label: str, splits: Mapping[str, Collection[Any]], remarks: "Remarks") -> Collection[Any] | None:
        """The episodes of the split to read; None for all."""
        if self.split is None:
            if len(splits) > 1:
                remarks.name("splits", (f"{split} ({len(members)})" for split, members in splits.items()))
            return None
        if self.split not in splits:
            raise InputError(f"{label} has no split {self.split!r:.100}: it has {', '.join(splits) or 'none'}.")
        return splits[self.split]


@dataclass
class Log:
    """An open log: its episodes and, if it has them, the names of columns, the spaces and the Gymnasium id."""

    episodes: Iterator[Episode]
    columns: dict[str, list[str]] = field(default_factory=dict)
    spaces: OptionalSpaces = (None, None)
    environment_id: str | None = None


class Remarks:
    """Counts and names that are collected while logs are read, and described by `sentences`."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.names: dict[str, dict[str, None]] = {}
        self.ids: dict[Any, tuple[str, tuple[Any, Any] | None]] = {}

    def name(self, kind: str, names: Iterable[str]) -> None:
        """Note names of a kind, once each."""
        self.names.setdefault(kind, {}).update(dict.fromkeys(names))

    def name_bounds(self, name: str, codes: np.ndarray, values: np.ndarray) -> None:
        """Note an unused column or array that seems to number episodes, or to be the time in them; `codes` (N,) number
        its different values."""
        runs = 1 + np.count_nonzero(np.diff(codes))
        if 1 < runs == codes.max() + 1 <= len(codes) / 2 and values.dtype.kind not in "fc":
            self.name("flags", [name])
        elif values.dtype.kind in "iuf" and runs > 1:
            growth = np.diff(values.astype(np.float64))
            first = values[1:][~(growth > 0)] - values[0]
            if 0 < len(first) < len(growth) / 2 and (np.abs(first) < np.median(growth)).all():
                self.name("anew", [name])

    @contextlib.contextmanager
    def leaving_out(self, where: str, missing: Missing, remedy: str = LEAVE_OUT) -> Iterator[None]:
        """Note InputError inside the block as an episode or file that is left out; raise it if `missing` is `error`."""
        try:
            yield
        except InputError as error:
            if missing == "error":
                raise InputError(f"{error}{remedy}") from None
            self.name("left out", [f"{where} ({one_line(error)})"])

    def identify(self, log: str, times: Mapping[Any, tuple[Any, Any] | None]) -> None:
        """Note ids of a log's episodes that an earlier log has too; `times` are the first and the last, if known."""
        for episode, span in times.items():
            earlier, before = self.ids.get(episode, (log, None))
            if earlier != log:
                continues = ", where its times continue" * bool(before and span and span[0] > before[1])
                self.name("shared", [f"the episode {episode} is in {earlier} and {log}{continues}"])
            self.ids[episode] = log, span

    def sentences(self) -> Iterator[str]:
        """Sentences on how logs became episodes, for readers of scores."""
        counts, names = self.counts, {kind: listed(list(each)) for kind, each in self.names.items() if each}
        episodes = counted(counts["episodes"], "episode")
        steps, join = counted(counts["partial steps"], "step"), ", --join reads the files as one log"
        sentences = {
            "repeated": f"the log has no observation after the last action of {{:,}} of {episodes}: the last "
            "observation is repeated",
            "joined": f"the rows of {{:,}} of {episodes} were not side by side in the log",
            "gaps": f"in {{:,}} of {episodes} the time jumps by more than {GAP} of its median steps without an end",
            "unrewarded": "the log has no rewards: all are 0",
            "untimed": "it has no timeouts: episodes end only at its terminals",
            "partial": f"{{}} of {episodes} ({steps}) end without a flag: they are neither terminated nor truncated "
            f"(--partial drop leaves them out{join if counts['logs'] > 1 else ''})",
            "endless": "no flag ends episodes in {:,} of the logs: each is read as one truncated episode",
            "within": f"flags are true within {{:,}} of {episodes}, which are not cut there",
            "done": "{} does not distinguish termination from truncation: ends are read as terminations",
            "flags": "not read, although it seems to mark episodes: {} (by --terminated, --truncated or --episode)",
            "anew": "within an episode it begins anew: {}; name what numbers the episodes by --episode",
            "images": "left out, since they are not numeric vectors in most episodes: {}",
            "tasks": "the observations do not distinguish {}: --observations may name task_index too",
            "splits": "all of its splits are read: {} (--split reads one)",
            "shared": "{}: read as two episodes (--join reads the files as one log)",
            "left out": "left out, since they cannot be read: {}",
        }
        for kind, sentence in sentences.items():
            if value := counts[kind] or names.get(kind):
                yield sentence.format(value)


def cut(arrays: Mapping[str, np.ndarray], counts: Counter[str]) -> Iterator[Episode]:
    """Cut steps into episodes: at `bounds`, otherwise at flags and where the next observation is not the following one.

    Args:
        arrays: `observations` (T, O) and `actions` (T, A); as far as known `rewards` (T,), `following` (T, O), the
            observations after the actions, any of `FLAGS` (T,) and `bounds` (T,), bool, the last steps of episodes.
        counts: The counts of `Remarks`, which are increased.
    """
    observations, actions = arrays["observations"], arrays["actions"]
    steps, following = len(actions), arrays.get("following", observations)
    terminated, truncated, done, success = (arrays.get(key, np.zeros(steps, bool)) for key in FLAGS)
    if "terminated" not in arrays:
        terminated = success if "success" in arrays else done & ~truncated
    truncated = truncated | (done & ~terminated)
    ends, within, bounds = terminated | truncated, np.zeros(steps, bool), arrays.get("bounds")
    if not {"bounds", "following", *FLAGS} & set(arrays):
        counts["endless"] += 1
        bounds = np.arange(steps) == steps - 1
    if bounds is not None:
        within, ends = ends & ~bounds, bounds
        if "truncated" not in arrays:
            truncated = truncated | (ends & ~terminated)
    elif "following" in arrays:
        before, after = following[:-1], observations[1:]
        differ = (before != after) & ~(np.isnan(before) & np.isnan(after))  # NaN equals NaN
        ends = ends | np.append(differ.any(1), False)
    offsets = np.concatenate([[0], np.flatnonzero(ends[:-1]) + 1, [steps]])
    last = offsets[1:] - 1
    unflagged = ~(terminated | truncated)[last]
    counts["episodes"] += len(last)
    counts["partial"] += int(unflagged.sum())
    counts["partial steps"] += int(np.diff(offsets)[unflagged].sum())
    counts["within"] += int(np.logical_or.reduceat(within, offsets[:-1]).sum())
    counts["repeated"] += len(last) * ("following" not in arrays)
    counts["unrewarded"] += "rewards" not in arrays
    counts["untimed"] += "terminated" in arrays and not {"bounds", "truncated", "done"} & set(arrays)
    rewards = arrays.get("rewards", np.zeros(steps))
    for start, stop in pairwise(offsets):
        observed = np.concatenate([observations[start:stop], following[stop - 1 : stop]])
        flags = bool(terminated[stop - 1]), bool(truncated[stop - 1])
        yield Episode(observed, actions[start:stop], rewards[start:stop], *flags)


def listed(names: list[str], most: int = SHOWN) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def label_log(log: Any) -> str:
    """The name of a log in messages."""
    return str(Path(log).expanduser()) if isinstance(log, str | Path) else f"the log, of type {type(log).__name__},"


def natural(name: str) -> list[tuple[int, str]]:
    """A sorting key for names with numbers: `demo_9` before `demo_10`."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]
