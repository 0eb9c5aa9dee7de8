"""Logs, such as a robot's: CSV and parquet files and tables in memory with a row for every step, read by pandas.

A row has an observation, the action that was chosen at it, and the reward of that action. Most logs have no
observation after an episode's last action: the last observation is then repeated, and no row is lost. An episode's last
row may also be that observation, with no action and no reward.
"""

import fnmatch
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.environments.episode import Episode, is_finite
from decision_rnn.utils.errors import InputError, did_you_mean, importing, reading
from decision_rnn.utils.messages import counted

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


def read_table(
    log: Any, columns: Columns, counts: Counter[str], complete: bool = True
) -> tuple[dict[str, list[str]], Iterator[Episode]]:
    """The names of the entries of a log's `observations` and `actions`, and its episodes in the order of their first
    rows.

    Args:
        log: The path of a CSV or parquet file, or what `pandas.DataFrame` accepts, which is read into memory.
        columns: The columns to read.
        counts: Counts what `table_notes` reports.
        complete: Whether missing numbers are errors; else episodes have NaN in their place.

    Raises:
        InputError: If the log cannot be read, lacks one of the columns, or holds something else than numbers, is not
            in order, has flags within an episode, or a missing number that is an error; the message names the file, the
            column and the row, counted from 0.
    """
    table = _Table(log)
    observations, names = table.matrix(columns.observations)
    actions, action_names = table.matrix(columns.actions)
    rewards = np.zeros(len(actions)) if columns.reward is None else table.numbers(columns.reward)[:, 0]
    ends = [end for end in ("terminated", "truncated") if getattr(columns, end) is not None]
    flags = {end: table.flags(getattr(columns, end)) for end in ends}

    def episode(rows: np.ndarray) -> Episode:
        final = (  # whether the last row is the observation after the last action
            len(rows) > 1
            and np.isnan(actions[rows[-1]]).all()
            and np.nan_to_num(rewards[rows[-1]]) == 0
            and is_finite(observations[rows[-1]]).all()
        )
        counts.update(episodes=1, repeated=not final, joined=bool((np.diff(np.sort(rows)) > 1).any()))
        following, steps = (rows, rows[:-1]) if final else (np.append(rows, rows[-1]), rows)
        for end, values in flags.items():
            if values[steps[:-1]].any():
                raise InputError(f"{table.label}: {end} is true within the episode that begins at row {rows[0]}.")
        used = (observations, following, names), (actions, steps, action_names), (rewards, steps, [columns.reward])
        for values, numbers, entries in used if complete else ():
            faults = np.argwhere(~is_finite(values[numbers].reshape(len(numbers), -1)))
            if len(faults):
                table.refuse(numbers[faults[0, 0]], entries[faults[0, 1]])
        last = {end: bool(values[rows[len(steps) - 1 :]].any()) for end, values in flags.items()}
        terminated = last.get("terminated", False)
        truncated = last.get("truncated", not terminated)
        return Episode(observations[following], actions[steps], rewards[steps], terminated, truncated)

    rows = map(episode, table.rows_of_episodes(columns, list(flags.values())))
    return {"observations": names, "actions": action_names}, rows


def table_notes(counts: Counter[str], columns: Columns) -> Iterator[str]:
    """Sentences on how logs became episodes."""
    episodes = counted(counts["episodes"], "episode")
    if counts["repeated"]:
        yield (
            f"the log has no observation after the last action of {counts['repeated']:,} of {episodes}: the last "
            "observation is repeated"
        )
    if counts["joined"]:
        yield f"the rows of {counts['joined']:,} of {episodes} were not side by side in the log"
    if counts["episodes"] and columns.reward is None:
        yield "the log has no rewards: all are 0"


class _Table:
    """A log as a DataFrame, with its name in messages."""

    def __init__(self, log: Any) -> None:
        is_file = isinstance(log, str | Path)
        self.label = str(Path(log).expanduser()) if is_file else f"the log, of type {type(log).__name__},"
        with importing(self.label, "logs"):
            import pandas

            if self.label.endswith(".parquet"):
                import pyarrow  # noqa: F401 - pandas needs it
        self.pandas = pandas
        with reading(self.label, "a table"):
            if not is_file:
                self.frame = log.to_pandas() if hasattr(log, "to_pandas") else pandas.DataFrame(log)
            elif self.label.endswith(".parquet"):
                self.frame = pandas.read_parquet(self.label)
            else:
                with Path(self.label).open(encoding="utf-8-sig") as text:
                    delimiter = max(",;\t", key=text.readline().count)
                options: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True, "index_col": False}
                self.frame = pandas.read_csv(self.label, sep=delimiter, float_precision="round_trip", **options)
        self.frame = self.frame.rename(columns=lambda name: str(name).strip())
        self.names = list(self.frame.columns)

    def refuse(self, row: int, column: str) -> None:
        raise InputError(
            f"{self.label}: row {row} has no valid value in the column {column}. Fix it; where a number is missing or "
            "not finite in float32, --missing drops or ends the episode."
        )

    def column(self, name: str) -> Any:
        if name not in self.names:
            near = did_you_mean(name, self.names)
            raise InputError(f"{self.label} has no column {name!r:.100}: {near}it has {self.names}.")
        return self.frame[name]

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, or of lists of equally many numbers: (N, entries) float64, NaN where there is none."""
        column = self.column(name)
        with reading(f"the column {name} of {self.label}", "numbers"):
            if isinstance(column.iloc[0], list | tuple | np.ndarray):
                return np.array(column.tolist(), np.float64).reshape(len(column), -1)
            return self.pandas.to_numeric(column).to_numpy(np.float64, na_value=np.nan).reshape(-1, 1)

    def matrix(self, patterns: Sequence[str]) -> tuple[np.ndarray, list[str]]:
        """The columns that names and patterns give, side by side, (N, entries) float32, and the entries' names."""
        matches = chain.from_iterable(fnmatch.filter(self.names, pattern) or [pattern] for pattern in patterns or [""])
        columns = {name: self.numbers(name) for name in dict.fromkeys(matches)}
        with np.errstate(over="ignore"):
            values = np.concatenate(list(columns.values()), axis=1).astype(np.float32)
        widths = {name: numbers.shape[1] for name, numbers in columns.items()}
        return values, [
            f"{name}[{index}]" if width > 1 else name for name, width in widths.items() for index in range(width)
        ]

    def flags(self, name: str) -> np.ndarray:
        """A column of true and false or 1 and 0, (N,) bool; empty is false."""
        flags = self.column(name).astype(str).str.strip().str.lower().fillna("nan").map(FLAGS)
        if flags.isna().any():
            self.refuse(int(flags.isna().argmax()), name)
        return flags.to_numpy(bool)

    def codes(self, name: str, sort: bool) -> np.ndarray:
        """A number for each different value of a column, in order of the values or of appearance."""
        codes = self.pandas.factorize(self.column(name), sort=sort)[0]
        if codes.min() < 0:
            self.refuse(codes.argmin(), name)
        return codes

    def rows_of_episodes(self, columns: Columns, flags: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows of each episode, in order of time."""
        rows = np.arange(len(self.frame))
        times = rows if columns.time is None else self.codes(columns.time, sort=True)
        ended = np.any([*flags, np.zeros(len(rows), bool)], axis=0)
        by_flags = np.append(0, ended[:-1].cumsum())
        codes = by_flags if columns.episode is None else self.codes(columns.episode, sort=False)
        order = np.lexsort((times, codes))
        same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
        if same.any() or (columns.episode is None and (order != rows).any()):
            row = order[same.argmax()]
            raise InputError(
                f"{self.label}: {columns.time} does not order the rows of an episode, as at row {row}. Name the column "
                "of what tells episodes apart."
            )
        bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
        return (order[start:stop] for start, stop in pairwise(bounds))
