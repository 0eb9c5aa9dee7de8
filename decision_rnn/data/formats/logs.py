"""Logs, such as a robot's: CSV and parquet files and tables in memory with a row for every step, read by pyarrow.

A row has an observation, the action that was chosen at it, and the reward of that action. Most logs have no
observation after an episode's last action: the last observation is then repeated, and no row is lost. An episode's last
row may also be that observation, with no action and no reward.
"""

import contextlib
import csv
import fnmatch
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from tqdm.utils import CallbackIOWrapper

from decision_rnn.data.episode import Episode, is_finite
from decision_rnn.data.missing import Missing
from decision_rnn.utils.errors import InputError, did_you_mean, one_line
from decision_rnn.utils.messages import bar, counted, typed

PARQUET = b"PAR1"
DELIMITERS = ",;\t"
HEADER = 2**20
"""The most characters of a CSV file's first line."""
WORDS = {
    "null_values": [*pa.csv.ConvertOptions().null_values, "None", "none"],
    "true_values": ["True", "true", "TRUE", "1"],
    "false_values": ["False", "false", "FALSE", "0"],
}
"""What a CSV file's cells may hold besides numbers and text, perhaps after a space: `0.5, True`."""
LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
SHOWN = 20
"""The most columns that a message names."""


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

    def flags(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.terminated, self.truncated)))


class LogReader:
    """Reads the episodes of logs with the same columns.

    Attributes:
        entries: The names of the entries of the observations and actions, once a log has been read.
    """

    def __init__(self, columns: Columns, missing: Missing) -> None:
        """With `missing` other than "error", episodes with missing numbers are yielded with NaN in their place."""
        self.columns, self.missing = columns, missing
        self.entries: dict[str, list[str]] = {}
        self.counts: Counter[str] = Counter()

    def read(self, logs: Sequence[Any], notes: list[str]) -> Iterator[Episode]:
        """Read one log after the other into memory, and yield the episodes of each in the order of their first rows.

        Args:
            logs: The paths of files, or what `pyarrow.table` accepts: DataFrames, or dictionaries of columns.
            notes: Extended, after the last episode, by sentences on how the logs became episodes.

        Raises:
            InputError: If it cannot be read, lacks one of the columns, or holds something else than numbers, has two
                rows of one time, flags within an episode, or a missing number that is an error; the message names the
                file, the column and the row, counted from 0.
        """
        for log in logs:
            table = _Table(log, self.columns)
            entries = {kind: table.entries[kind] for kind in ("observations", "actions")}
            if entries != (self.entries or entries):
                raise InputError(
                    f"{table.label} has {_listed(entries)} where the log before has {_listed(self.entries)}: give logs "
                    "with the same columns"
                )
            self.entries = entries
            self.counts["apart"] += table.apart
            for rows in table.rows_of_episodes():
                yield self._episode(table, rows)
        notes.extend(note for note in self._notes() if note not in notes)

    def _notes(self) -> Iterator[str]:
        episodes = counted(self.counts["episodes"], "episode")
        if number := self.counts["repeated"]:
            yield (
                f"the log has no observation after the last action of {number:,} of {episodes}: the last observation "
                "stands for it"
            )
        if number := self.counts["apart"]:
            yield f"the rows of {number:,} of {episodes} are apart in the log, and were joined"
        if self.columns.reward is None:
            yield "the log has no rewards: all are 0"

    def _episode(self, table: "_Table", rows: np.ndarray) -> Episode:
        observations, actions, rewards = table.observations[rows], table.actions[rows], table.rewards[rows]
        closing = (
            len(rows) > 1
            and np.isnan(actions[-1]).all()
            and (np.isnan(rewards[-1]) or rewards[-1] == 0)
            and is_finite(observations[-1]).all()
        )
        steps = len(rows) - closing
        self.counts["episodes"] += 1
        if not closing:
            self.counts["repeated"] += 1
            observations = np.concatenate([observations, observations[-1:]])
        ends = dict.fromkeys(("terminated", "truncated"), False)
        for flag, column in (("terminated", self.columns.terminated), ("truncated", self.columns.truncated)):
            if column is not None:
                flagged = table.flags[column][rows]
                if flagged[: steps - 1].any():
                    raise InputError(
                        f"{table.label}: row {rows[flagged.argmax()]} is flagged in the column {column} and is not the "
                        f"last one of its episode: check the columns {self.columns.episode} and {column}"
                    )
                ends[flag] = bool(flagged[steps - 1 :].any())
        if self.columns.truncated is None:
            ends["truncated"] = not ends["terminated"]
        if self.missing == "error":
            table.check(rows[:steps])
            table.check(rows[steps:], ("observations",))
        return Episode(observations, actions[:steps], rewards[:steps], **ends)


class _Table:
    """The columns of a log as arrays: observations (N, O), actions (N, A), rewards (N,), flags (N,) by column."""

    def __init__(self, log: Any, columns: Columns) -> None:
        self.label, names, load = _open(log)
        self.columns, self.names = columns, names
        matched = {kind: self._match(kind, getattr(columns, kind)) for kind in ("observations", "actions")}
        single = {kind: getattr(columns, kind) for kind in ("reward", "episode", "time", "terminated", "truncated")}
        for kind, name in single.items():
            if name is not None and name not in names:
                raise self._unknown(kind, name)
        roles = [*matched["observations"], *matched["actions"]]
        roles += [name for kind, name in single.items() if name is not None and kind != "time"]
        if repeated := [name for name, number in Counter(roles).items() if number > 1]:
            raise InputError(f"{self.label}: the column {repeated[0]!r:.100} is named twice: it can be only one thing")
        used = list(dict.fromkeys([*roles, *filter(None, [columns.time])]))
        if twice := [name for name in used if names.count(name) > 1]:
            raise InputError(f"{self.label} has two columns {twice[0]!r:.100}: rename one")
        table = load(used)
        if not len(table):
            raise InputError(f"{self.label} has no rows: give a log with at least one")
        self.entries: dict[str, list[str]] = {}
        self.observations, self.actions = (self._matrix(table, *part) for part in matched.items())
        self.rewards = np.zeros(len(table))
        if columns.reward is not None:
            self.rewards = self._single(table, columns.reward)
        self.entries["rewards"] = [str(columns.reward)]
        self.flags = {name: self._flags(table, name) for name in columns.flags()}
        self.times = None if columns.time is None else self._times(table, columns.time)
        self.codes = np.zeros(len(table), np.int64)
        if columns.episode is not None:
            ids = _plain(table[columns.episode]).combine_chunks()
            self._check_known(ids, columns.episode)
            self.codes = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
        begins = np.flatnonzero(np.diff(self.codes, prepend=-1))  # of runs of rows of one episode
        self.apart = int((np.bincount(self.codes[begins]) > 1).sum())

    def rows_of_episodes(self) -> Iterator[np.ndarray]:
        """The rows of each episode, in order of time."""
        count, times = len(self.codes), self.times
        if self.columns.episode is None:
            if times is not None and (late := times[1:] <= times[:-1]).any():
                raise InputError(
                    f"{self.label}: row {late.argmax() + 1} is not later than the one before: name the column of the "
                    "episodes, or sort the rows"
                )
            flagged = np.any([*self.flags.values(), np.zeros(count, bool)], axis=0)
            order, codes = np.arange(count), np.append(0, flagged[:-1].cumsum())
        else:
            order = np.argsort(self.codes, kind="stable") if times is None else np.lexsort((times, self.codes))
            codes = self.codes[order]
            if times is not None:
                same = (np.diff(codes) == 0) & (times[order][1:] == times[order][:-1])
                if same.any():
                    first, second = order[same.argmax() :][:2]
                    raise InputError(
                        f"{self.label}: rows {first} and {second} are of one episode and one {self.columns.time}: "
                        "leave one out, or check both columns"
                    )
        bounds = np.flatnonzero(np.diff(codes, prepend=-1, append=-1))
        for start, stop in pairwise(bounds):
            yield order[start:stop]

    def check(self, rows: np.ndarray, parts: Sequence[str] = ("observations", "actions", "rewards")) -> None:
        """Raise InputError, naming the first row and its column, if a number in these rows is missing."""
        faults = []
        for part in parts:
            missing = ~is_finite(getattr(self, part)[rows].reshape(len(rows), len(self.entries[part])))
            faults += [(row, entry, part) for row, entry in np.argwhere(missing)[:1]]
        if faults:
            row, entry, part = min(faults, key=lambda fault: fault[0])
            number = getattr(self, part)[rows[row]].reshape(-1)[entry]
            found = "no finite number" if np.isnan(number) else "a number too large for float32, beyond 3.4e38 or inf,"
            raise InputError(
                f"{self.label}: row {rows[row]} has {found} in the column {self.entries[part][entry]}: mend it, or "
                "choose missing drop_episode or missing end_episode"
            )

    def _match(self, kind: str, patterns: Sequence[str]) -> list[str]:
        """The columns that names and patterns give, each name or pattern in the order of the log."""
        found: list[str] = []
        for pattern in patterns:
            matching = [pattern] if pattern in self.names else fnmatch.filter(self.names, pattern)
            if not matching:
                raise self._unknown(kind, pattern)
            found += [name for name in matching if name not in found or name == pattern]
        if not found:
            raise InputError(f"{self.label}: no columns of {kind} are named: give names, or a pattern such as obs_*")
        return found

    def _unknown(self, kind: str, name: str) -> InputError:
        return InputError(
            f"{self.label} has no column {name!r:.100}, given for {kind}: {did_you_mean(name, self.names)}it has "
            f"{_listed(self.names)}"
        )

    def _matrix(self, table: pa.Table, kind: str, names: Sequence[str]) -> np.ndarray:
        """Columns of numbers, or of lists of numbers, side by side: (N, entries) float32."""
        parts, self.entries[kind] = [], []
        for name in names:
            with np.errstate(over="ignore"):
                parts.append(self._numbers(table, name).astype(np.float32))
            width = parts[-1].shape[1]
            self.entries[kind] += [name] if width == 1 else [f"{name}[{index}]" for index in range(width)]
        return np.concatenate(parts, axis=1)

    def _numbers(self, table: pa.Table, name: str) -> np.ndarray:
        """A column of numbers, or of lists of equally many numbers: (N, entries) float64, NaN where there is none."""
        column, width = _plain(table[name]), 1
        if any(is_list(column.type) for is_list in LISTS):
            lengths = pc.list_value_length(column).unique().to_pylist()
            if len(lengths) != 1 or not lengths[0]:
                raise InputError(f"{self.label}: the rows of the column {name} are not lists of equally many numbers")
            column, width = pc.list_flatten(column), lengths[0]
        if not any(is_number(column.type) for is_number in NUMBERS):
            row, value = next(((i, v) for i, v in enumerate(column) if not _is_number(v)), (0, column[0]))
            raise InputError(
                f"{self.label}: the column {name} holds something else than numbers, {str(value)!r:.50} in row "
                f"{row // width}: leave the column out, or mend it"
            )
        return column.cast(pa.float64()).to_numpy().reshape(-1, width)

    def _single(self, table: pa.Table, name: str) -> np.ndarray:
        numbers = self._numbers(table, name)
        if numbers.shape[1] > 1:
            raise InputError(f"{self.label}: the rows of the column {name} are lists: one number is needed in each")
        return numbers[:, 0]

    def _flags(self, table: pa.Table, name: str) -> np.ndarray:
        values = np.nan_to_num(self._single(table, name))
        if not (known := np.isin(values, (0, 1))).all():
            row = known.argmin()
            raise InputError(f"{self.label}: row {row} has {values[row]:g} in {name}, which must be a flag, 0 or 1")
        return values.astype(bool)

    def _times(self, table: pa.Table, name: str) -> np.ndarray:
        column = table[name]
        self._check_known(column, name)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
        if pa.types.is_integer(column.type):
            return column.to_numpy()  # nanoseconds since 1970 have more digits than float64
        return self._single(table, name)

    def _check_known(self, column: pa.ChunkedArray, name: str) -> None:
        """Raise InputError if a row has no value in a column without which it has no place."""
        unknown = column.is_null(nan_is_null=True)
        if pc.any(unknown).as_py():
            raise InputError(f"{self.label}: row {pc.index(unknown, True).as_py()} has nothing in the column {name}")


def _open(log: Any) -> tuple[str, list[str], Callable[[list[str]], pa.Table]]:
    """A log's name in messages, the names of its columns, and the function that reads some of them."""
    if not isinstance(log, str | Path):
        try:
            table = pa.table(log)
        except Exception as error:  # of many types
            raise InputError(
                f"{type(log).__name__} is no log ({one_line(error)}): give a path, a DataFrame or a dictionary of "
                "columns"
            ) from None
        return "the log", table.column_names, table.select
    path = Path(log).expanduser()
    if path.is_dir():
        raise InputError(
            f"{path} is a folder: name the files in it, CSV, parquet or HDF5 in D4RL's layout, such as "
            f"{typed(path)}/*.csv"
        )
    with _reading(path):
        with path.open("rb") as file:
            start = file.read(1000)
        if not start:
            raise InputError(f"{path} is empty: give a log with a header and at least one row")
        if start.startswith(PARQUET):
            return str(path), *_open_parquet(path)
        if b"\0" in start:
            raise InputError(f"{path} is neither parquet nor text in UTF-8: give a CSV or parquet file")
        return str(path), *_open_csv(path)


def _open_parquet(path: Path) -> tuple[list[str], Callable[[list[str]], pa.Table]]:
    with pa.parquet.ParquetFile(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows

    def load(used: list[str]) -> pa.Table:
        with (
            _reading(path),
            pa.parquet.ParquetFile(path) as file,
            bar(total=rows, desc=f"reading {path.name}", unit="row", unit_scale=True) as shown,
        ):
            batches = []
            for batch in file.iter_batches(columns=used):
                batches.append(batch)
                shown.update(len(batch))
            table = pa.Table.from_batches(batches) if batches else file.schema_arrow.empty_table()
            return table.select(used)

    return names, load


def _open_csv(path: Path) -> tuple[list[str], Callable[[list[str]], pa.Table]]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        header = text.readline(HEADER)
    if "\ufffd" in header:
        _check_utf8(path)
    delimiter = max(DELIMITERS, key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]

    def load(used: list[str]) -> pa.Table:
        size = path.stat().st_size
        with (
            _reading(path),
            path.open("rb") as file,
            bar(total=size, desc=f"reading {path.name}", unit="B", unit_scale=True) as shown,
        ):
            table = pa.csv.read_csv(
                CallbackIOWrapper(shown.update, file, "read"),
                pa.csv.ReadOptions(column_names=names, skip_rows=1),
                pa.csv.ParseOptions(delimiter=delimiter),
                pa.csv.ConvertOptions(
                    include_columns=used,
                    strings_can_be_null=True,
                    **{kind: [*words, *(f" {word}" for word in words)] for kind, words in WORDS.items()},
                ),
            )
        if any(pa.types.is_binary(column.type) for column in table.columns):  # what is no text to pyarrow
            _check_utf8(path)
        return table

    return names, load


def _check_utf8(path: Path) -> None:
    """Raise InputError, naming the first such line, if a file is not in UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.decode(errors="ignore").encode() != line:
                raise InputError(f"{path} is not in UTF-8, as in line {number}: save it as UTF-8")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into an InputError that names it."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read the log {path}: {error.strerror or one_line(error)}") from None
    except (ValueError, csv.Error, pa.ArrowException) as error:
        raise InputError(f"{path} is not valid CSV or parquet ({one_line(error)}): mend it or write it again") from None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without the dictionary by which pandas stores categories."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_number(value: pa.Scalar) -> bool:
    try:
        float(value.as_py() or 0)
    except (TypeError, ValueError):
        return False
    return True


def _listed(columns: Sequence[str] | dict[str, list[str]]) -> str:
    """The columns `a, b, c`, cut if there are many."""
    names = list(chain.from_iterable(columns.values())) if isinstance(columns, dict) else columns
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"the columns {', '.join(names[:SHOWN])}{more}"
