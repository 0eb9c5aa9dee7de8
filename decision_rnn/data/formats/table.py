"""Logs, such as a robot's: CSV and parquet files and tables in memory with a row for every step, read by pandas.

A row has an observation, the action that was chosen at it, and the reward of that action. Most logs have no
observation after an episode's last action: the last observation is then repeated, and no row is lost. An episode's last
row may also be that observation, with no action and no reward.
"""

import fnmatch
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.episode import Episode, Missing, is_finite
from decision_rnn.utils.errors import InputError, did_you_mean, one_line
from decision_rnn.utils.messages import counted

DELIMITERS = ",;\t"
FLAGS = {"true": True, "1": True, "1.0": True} | dict.fromkeys(["false", "0", "0.0", "nan", "none", "<na>", ""], False)


@dataclass(frozen=True)
class Columns:
    """The columns of a log by what they hold; observations and actions are names and patterns such as `obs_*`.

    Without `reward` all rewards are 0. Without `episode` a log is one episode, unless flags end episodes in it. Without
    `time` the rows are in order. Without `truncated`, episodes that did not terminate were truncated.
    """

    observations: Sequence[str]
    actions: Sequence[str]
    reward: str | None = None
    episode: str | None = None
    time: str | None = None
    terminated: str | None = None
    truncated: str | None = None


def read_tables(
    logs: Sequence[Any], columns: Columns, names: dict[str, list[str]], notes: list[str], missing: Missing = "error"
) -> Iterator[Episode]:
    """The episodes of logs with the same columns, one log after the other, each in the order of the episodes' first
    rows.

    Args:
        logs: The paths of CSV or parquet files, or what `pandas.DataFrame` accepts. A file is read into memory.
        columns: The columns to read.
        names: Filled with the names of the entries of `observations` and `actions`, before the first episode.
        notes: Extended, after the last episode, by sentences on how the logs became episodes.
        missing: With `error`, missing numbers are errors; else episodes have NaN in their place.

    Raises:
        InputError: If a log cannot be read, lacks one of the columns, or holds something else than numbers, has two
            rows of one time, flags within an episode, or a missing number that is an error; the message names the
            file, the column and the row, counted from 0.
    """
    counts: Counter[str] = Counter()
    for log in logs:
        table = _Table(log, columns)
        entries = {kind: table.names[kind] for kind in ("observations", "actions")}
        if names and names != entries:
            raise InputError(f"{table.label} has the columns {entries}, but the log before has {names}.")
        names.update(entries)
        for rows in table.rows_of_episodes():
            counts["joined"] += bool((np.diff(np.sort(rows)) > 1).any())
            yield _episode(table, rows, missing, counts)
    episodes = counted(counts["episodes"], "episode")
    if counts["repeated"]:
        notes.append(
            f"the log has no observation after the last action of {counts['repeated']:,} of {episodes}: the last "
            "observation is repeated"
        )
    if counts["joined"]:
        notes.append(f"the rows of {counts['joined']:,} of {episodes} were not side by side in the log")
    if columns.reward is None:
        notes.append("the log has no rewards: all are 0")


def _episode(table: "_Table", rows: np.ndarray, missing: Missing, counts: Counter[str]) -> Episode:
    observations, actions, rewards = table.observations[rows], table.actions[rows], table.rewards[rows]
    final = (  # whether the last row is the observation after the last action
        len(rows) > 1
        and np.isnan(actions[-1]).all()
        and (np.isnan(rewards[-1]) or rewards[-1] == 0)
        and is_finite(observations[-1]).all()
    )
    steps = len(rows) - final
    counts["episodes"] += 1
    if not final:
        counts["repeated"] += 1
        observations = np.concatenate([observations, observations[-1:]])
    ends = {"terminated": False, "truncated": False}
    for flag, values in table.flags.items():
        if values[rows[: steps - 1]].any():
            raise InputError(f"{table.label}: {flag} is true within the episode that begins at row {rows[0]}.")
        ends[flag] = bool(values[rows[steps - 1 :]].any())
    if "truncated" not in table.flags:
        ends["truncated"] = not ends["terminated"]
    if missing == "error":
        for kind, values in (
            ("observations", observations),
            ("actions", actions[:steps]),
            ("rewards", rewards[:steps]),
        ):
            faults = np.argwhere(~is_finite(values.reshape(len(values), -1)))
            if len(faults):
                row, entry = faults[0]
                raise InputError(
                    f"{table.label}: row {rows[row]} has no finite float32 number in the column "
                    f"{table.names[kind][entry]}. Fix it, or pass missing drop_episode or end_episode."
                )
    return Episode(observations, actions[:steps], rewards[:steps], **ends)


class _Table:
    """The columns of a log as arrays: observations (N, O), actions (N, A), rewards (N,), flags (N,) by name."""

    def __init__(self, log: Any, columns: Columns) -> None:
        try:
            import pandas  # an optional package
        except ModuleNotFoundError:
            raise InputError("reading a log needs pandas, which is missing: install the extra `logs`.") from None
        self.pandas, self.columns = pandas, columns
        self.label, self.frame = _read_frame(log)
        self.names: dict[str, list[str]] = {}
        if not len(self.frame):
            raise InputError(f"{self.label} has no rows.")
        self.observations = self._matrix("observations", columns.observations)
        self.actions = self._matrix("actions", columns.actions)
        self.rewards = np.zeros(len(self.frame))
        if columns.reward is not None:
            self.rewards = self._numbers(self._column(columns.reward))[:, 0]
        self.names["rewards"] = [str(columns.reward)]
        flags = {"terminated": columns.terminated, "truncated": columns.truncated}
        self.flags = {flag: self._flag(name) for flag, name in flags.items() if name is not None}

    def rows_of_episodes(self) -> Iterator[np.ndarray]:
        """The rows of each episode, in order of time."""
        rows, columns = np.arange(len(self.frame)), self.columns
        times = rows if columns.time is None else self._codes(columns.time)
        if columns.episode is not None:
            codes = self._codes(columns.episode, sort=False)
        else:
            ended = np.any([*self.flags.values(), np.zeros(len(rows), bool)], axis=0)
            codes = np.append(0, ended[:-1].cumsum())
        order = np.lexsort((times, codes))
        if columns.episode is None and (order != rows).any():
            raise InputError(f"{self.label}: the rows are not in order of {columns.time}: name the episodes' column.")
        same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
        if same.any():
            first, second = order[same.argmax() :][:2]
            raise InputError(f"{self.label}: rows {first} and {second} of one episode have the same {columns.time}.")
        bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
        for start, stop in pairwise(bounds):
            yield order[start:stop]

    def _column(self, name: str) -> Any:
        if name not in self.frame.columns:
            known = list(map(str, self.frame.columns))
            raise InputError(f"{self.label} has no column {name!r:.100}: {did_you_mean(name, known)}it has {known}")
        return self.frame[name]

    def _codes(self, name: str, sort: bool = True) -> np.ndarray:
        """A number for each different value of a column, in order of the values or of appearance."""
        codes = self.pandas.factorize(self._column(name), sort=sort)[0]
        if codes.min() < 0:
            raise InputError(f"{self.label}: row {codes.argmin()} has nothing in the column {name}.")
        return codes

    def _matrix(self, kind: str, patterns: Sequence[str]) -> np.ndarray:
        """The columns that names and patterns give, side by side: (N, entries) float32."""
        matching: dict[str, None] = {}
        for pattern in patterns:
            known = list(map(str, self.frame.columns))
            for name in fnmatch.filter(known, pattern) or [pattern]:
                matching[name] = None
        if not matching:
            raise InputError(f"no columns of {kind} are named: give names, or a pattern such as obs_*.")
        parts, names = [], list[str]()
        for name in matching:
            with np.errstate(over="ignore"):
                parts.append(self._numbers(self._column(name)).astype(np.float32))
            width = parts[-1].shape[1]
            names += [name] if width == 1 else [f"{name}[{index}]" for index in range(width)]
        self.names[kind] = names
        return np.concatenate(parts, axis=1)

    def _numbers(self, column: Any) -> np.ndarray:
        """A column of numbers, or of lists of equally many numbers: (N, entries) float64, NaN where there is none."""
        try:
            if isinstance(column.iloc[0], list | tuple | np.ndarray):
                return np.array(column.tolist(), np.float64).reshape(len(column), -1)
            return self.pandas.to_numeric(column).to_numpy(np.float64, na_value=np.nan).reshape(-1, 1)
        except (ValueError, TypeError) as error:
            raise InputError(f"{self.label}: the column {column.name} is not of numbers ({one_line(error)}).") from None

    def _flag(self, name: str) -> np.ndarray:
        words = self._column(name).astype(str).str.strip().str.lower().fillna("nan")
        if not words.isin(FLAGS).all():
            row = int(np.argmin(words.isin(FLAGS)))
            raise InputError(f"{self.label}: row {row} has {words.iloc[row]!r} in {name}: expected a flag, 0 or 1.")
        return words.map(FLAGS).to_numpy(bool)


def _read_frame(log: Any) -> tuple[str, Any]:
    """A log's name in messages, and its table."""
    import pandas  # an optional package

    if not isinstance(log, str | Path):
        try:
            return "the log", log.to_pandas() if hasattr(log, "to_pandas") else pandas.DataFrame(log)
        except (ValueError, TypeError) as error:
            raise InputError(f"{type(log).__name__} is no table ({one_line(error)}): give a path or columns.") from None
    path = Path(log).expanduser()
    try:
        if path.suffix == ".parquet":
            return str(path), pandas.read_parquet(path)
        with path.open(encoding="utf-8-sig") as text:
            delimiter = max(DELIMITERS, key=text.readline().count)
        frame = pandas.read_csv(
            path,
            sep=delimiter,
            encoding="utf-8-sig",
            skipinitialspace=True,
            index_col=False,
            float_precision="round_trip",
        )
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"cannot read the log {path} ({one_line(error)}): expected CSV or parquet.") from None
    return str(path), frame.rename(columns=lambda name: str(name).strip())
