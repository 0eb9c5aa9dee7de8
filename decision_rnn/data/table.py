"""Logs, such as a robot's: CSV and parquet files and tables in memory with a row for every step, read by pandas, and
LeRobot's folders of parquet files.

A row has an observation, the action that was chosen at it, and the reward of that action. Most logs have no
observation after an episode's last action: the last observation is then repeated, and no row is lost. An episode's last
row may also be that observation, with no action and no reward.
"""

import contextlib
import fnmatch
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.logs import NAMES, Log, LogOptions, Remarks, natural
from decision_rnn.environments.episode import Episode, is_finite
from decision_rnn.utils.errors import InputError, did_you_mean, importing, reading

FLAGS = {"true": True, "1": True, "1.0": True} | dict.fromkeys(["false", "0", "0.0", "nan", "none", "<na>", ""], False)
ENDS = ("terminated", "truncated", "done", "success")
TABLES = (".csv", ".tsv", ".parquet")
REMEDY = "Name a CSV, parquet, HDF5 or npz file. Load others in Python, and pass their arrays to import_log."
LEROBOT = {"episode_index", "frame_index"}
"""Columns of LeRobot's parquet files, whose other columns are known by name."""


def read_table(logs: Sequence[Any], options: LogOptions, remarks: Remarks) -> Log:
    """The episodes of a log, in the order of their first rows, and the names of the entries of its `observations` and
    `actions`.

    Args:
        logs: The path of a CSV or parquet file or of a folder of LeRobot's, or what `pandas.DataFrame` accepts, which
            is read into memory; or several that are one log.
        options: The columns to read, and whether missing numbers are errors; else episodes have NaN in their place.
            Columns of usual names need not be named, nor those of LeRobot.
        remarks: Collects what a reader of scores should know.

    Raises:
        InputError: If the log cannot be read, lacks one of the columns, or holds something else than numbers, is not
            in order, has flags within an episode, or a missing number that is an error; the message names the file, the
            column and the row, counted from 0.
    """
    table = _Table(logs, options, remarks)
    columns = table.options
    observations, names = table.matrix(columns.observations)
    actions, action_names = table.matrix(columns.actions)
    rewards = np.zeros(len(actions)) if columns.reward is None else table.numbers(columns.reward)[:, 0]
    flags = {end: table.flags(name) for end in ENDS if (name := getattr(columns, end)) is not None}
    complete = options.missing == "error"

    def episode(rows: np.ndarray) -> Episode:
        table.check_order(rows)
        final = (  # whether the last row is the observation after the last action
            len(rows) > 1
            and np.isnan(actions[rows[-1]]).all()
            and np.nan_to_num(rewards[rows[-1]]) == 0
            and is_finite(observations[rows[-1]]).all()
        )
        following, steps = (rows, rows[:-1]) if final else (np.append(rows, rows[-1]), rows)
        within = [end for end, values in flags.items() if values[steps[:-1]].any()]
        for end in {"terminated", "truncated"}.intersection(within):
            raise InputError(f"{table.label}: {end} is true within the episode that begins at row {rows[0]}.")
        used = (observations, following, names), (actions, steps, action_names), (rewards, steps, [columns.reward])
        for values, numbers, entries in used if complete else ():
            faults = np.argwhere(~is_finite(values[numbers].reshape(len(numbers), -1)))
            if len(faults):
                table.refuse(numbers[faults[0, 0]], entries[faults[0, 1]])
        last = {end: bool(values[rows[len(steps) - 1 :]].any()) for end, values in flags.items()}
        terminated = last.get("terminated", last.get("success", last.get("done", False)))
        truncated = last.get("truncated", not terminated)
        remarks.counts.update(episodes=1, repeated=not final, joined=bool((np.diff(np.sort(rows)) > 1).any()))
        remarks.counts.update(unrewarded=columns.reward is None, within="done" in within)
        return Episode(observations[following], actions[steps], rewards[steps], terminated, truncated)

    def episodes() -> Iterator[Episode]:
        if "done" in flags and not {"terminated", "truncated", "success"} & set(flags):
            remarks.name("done", [str(columns.done)])
        for rows in table.rows_of_episodes([values for end, values in flags.items() if end != "success"]):
            with remarks.leaving_out(f"row {rows[0]}", options.missing):
                yield episode(rows)

    return Log(episodes(), {"observations": names, "actions": action_names})


def lerobot_files(path: Path) -> list[Path]:
    """The files with the data of a folder, or a file, of LeRobot's, version 2 or 3; none if it is another."""
    files = [file for file in path.rglob("*.parquet") if "meta" not in file.relative_to(path).parts]
    files = files or [path] * (path.suffix == ".parquet" and path.is_file())
    known = (path / "meta" / "info.json").is_file() or any(LEROBOT.issubset(_schema(file)) for file in files)
    return sorted(files, key=lambda file: natural(str(file))) if known else []


def _schema(file: Path) -> dict[str, bool]:
    """The columns of a parquet file, and whether each holds numbers or lists of them; none if it cannot be read."""
    with importing(file, "logs"):
        import pyarrow.parquet
        from pyarrow.types import is_boolean, is_floating, is_integer
    try:
        schema = pyarrow.parquet.read_schema(file)
    except (OSError, pyarrow.ArrowException):
        return {}
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in schema}
    return {name: is_integer(kind) or is_floating(kind) or is_boolean(kind) for name, kind in kinds.items()}


class _Table:
    """A log as a DataFrame, with its name in messages, and the columns to read.

    Attributes:
        options: The options, in which columns of usual names are named.
        files: (N,), the number of the log that a row is from.
    """

    def __init__(self, logs: Sequence[Any], options: LogOptions, remarks: Remarks) -> None:
        self.label = " and ".join(map(_label, logs))
        with importing(self.label, "logs"):
            import pandas

            if self.label.endswith(".parquet"):
                import pyarrow  # noqa: F401 - pandas needs it
        self.pandas, self.remarks, self.complete = pandas, remarks, options.missing == "error"
        frames = [self._frame(log, options) for log in logs]
        self.files = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
        self.frame = pandas.concat(frames, ignore_index=True)
        if not len(self.frame):
            raise InputError(f"{self.label} has no rows: its columns are {list(self.frame.columns)}.")
        self.names, self.times = list(self.frame.columns), np.arange(len(self.frame))
        self.options = self._named(options)
        self._remark()

    def _frame(self, log: Any, options: LogOptions) -> Any:
        """One of the logs; of a folder of LeRobot's, the columns that hold numbers."""
        with reading(_label(log), "a table", REMEDY):
            if isinstance(log, str | Path) and (files := lerobot_files(path := Path(log).expanduser())):
                frame = self._lerobot(path, files, options)
            elif options.split is not None:
                raise InputError(f"{_label(log)} has no splits: leave out --split {options.split}.")
            elif not isinstance(log, str | Path):
                frame = log.to_pandas() if hasattr(log, "to_pandas") else self.pandas.DataFrame(log)
            elif path.suffix == ".parquet":
                frame = self.pandas.read_parquet(path)
            else:
                with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as text:
                    delimiter = max(",;\t", key=text.readline().count)
                settings: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True, "index_col": False}
                frame = self.pandas.read_csv(path, sep=delimiter, float_precision="round_trip", **settings)
        return frame.rename(columns=lambda name: str(name).strip())

    def _lerobot(self, folder: Path, files: Sequence[Path], options: LogOptions) -> Any:
        """The data of a LeRobot dataset: the episodes and their order are those of its rows, not of its metadata."""
        info, frames, columns = dict[str, Any](), [], dict[str, bool]()
        with contextlib.suppress(OSError):
            info = json.loads((folder / "meta" / "info.json").read_bytes())
        for file in files:
            schema = _schema(file)
            columns |= schema
            with self.remarks.leaving_out(file.name, options.missing), reading(file, "parquet", "Fetch it again."):
                frames.append(self.pandas.read_parquet(file, columns=[name for name in schema if schema[name]]))
        videos = {path.name for path in folder.glob("videos/**/*") if path.is_dir() and "chunk-" not in path.name}
        videos |= {key for key, each in info.get("features", {}).items() if each.get("dtype") in ("video", "image")}
        self.remarks.name("images", sorted(videos | {name for name in columns if not columns[name]}))
        frame = self.pandas.concat(frames, ignore_index=True)
        splits = {name: list(map(int, text.split(":"))) for name, text in info.get("splits", {}).items()}
        if options.split is not None:
            if options.split not in splits:
                raise InputError(f"{folder} has no split {options.split!r:.100}: it has {', '.join(splits) or 'none'}.")
            first, stop = splits[options.split]
            frame = frame[frame["episode_index"].between(first, stop, inclusive="left")]
        elif len(splits) > 1:
            self.remarks.name("splits", splits)
        return frame

    def _named(self, options: LogOptions) -> LogOptions:
        """The options, in which columns are named that LeRobot writes, or all that are known, if none are named."""
        if not LEROBOT.issubset(self.names) and (options.observations or options.actions):
            return options
        known: dict[str, Any] = {}
        for role in ("observations", "actions"):
            groups = ([key for key in self.names if key == name or key.startswith(f"{name}.")] for name in NAMES[role])
            known[role] = getattr(options, role) or next(filter(None, groups), [])
        if not all(known.values()):
            raise InputError(
                f"{self.label} has the columns {self.names}. Name those of the observations and of the actions, as "
                '--observations "obs_*" --actions force, and --reward, --episode, --time and --terminated as there are.'
            )
        for role in ("reward", "episode", "time", *ENDS):
            known[role] = getattr(options, role) or next(filter(self.names.__contains__, NAMES[role]), None)
        return replace(options, **known)

    def _remark(self) -> None:
        """Note the ids of the episodes, whether tasks differ, and columns that are not read but look like flags."""
        options, frame = self.options, self.frame
        if options.episode in self.names and not self.files.any():
            times = frame[options.time if options.time in self.names else options.episode]
            spans = times.groupby(frame[options.episode], sort=False).agg(["min", "max"])
            ends = spans.itertuples(index=False, name=None) if options.time else repeat(None)
            self.remarks.identify(self.label, dict(zip(spans.index, ends, strict=False)))
        roles = ("reward", "episode", "time", *ENDS)
        read = [*options.observations, *options.actions, *(str(getattr(options, role)) for role in roles)]
        for name in self.names:
            if not any(fnmatch.fnmatch(name, used) for used in read):
                with contextlib.suppress(TypeError):  # lists, which are no flags
                    different = set(frame[name].drop_duplicates().astype(str).str.strip().str.lower())
                    if name == "task_index" and len(different) > 1:
                        self.remarks.name("tasks", [f"{len(different)} tasks"])
                    elif {FLAGS.get(value) for value in different} == {True, False}:
                        self.remarks.name("flags", [name])

    def refuse(self, row: int, column: str) -> None:
        raise InputError(f"{self.label}: row {row} has no valid value in the column {column}.")

    def column(self, name: str) -> Any:
        if name not in self.names:
            near = did_you_mean(name, self.names)
            raise InputError(f"{self.label} has no column {name!r:.100}: {near}it has {self.names}.")
        return self.frame[name]

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, or of lists of equally many numbers: (N, entries) float64, NaN where there is none."""
        column = self.column(name)
        with reading(f"the column {name} of {self.label}", "numbers"):
            values = column.tolist()
            if width := next((len(value) for value in values if isinstance(value, list | tuple | np.ndarray)), 0):
                if not self.complete:
                    values = [value if np.shape(value) == (width,) else [np.nan] * width for value in values]
                return np.array(values, np.float64).reshape(len(column), -1)
            numbers = self.pandas.to_numeric(column, errors="raise" if self.complete else "coerce")
            return numbers.to_numpy(np.float64, na_value=np.nan).reshape(-1, 1)

    def matrix(self, patterns: Sequence[str]) -> tuple[np.ndarray, list[str]]:
        """The columns that names and patterns give, side by side, (N, entries) float32, and the entries' names."""
        matches = chain.from_iterable(fnmatch.filter(self.names, pattern) or [pattern] for pattern in patterns)
        columns = {name: self.numbers(name) for name in dict.fromkeys(matches)}
        with np.errstate(over="ignore"):
            values = np.concatenate(list(columns.values()), axis=1).astype(np.float32)
        widths = {name: numbers.shape[1] for name, numbers in columns.items()}
        return values, [
            f"{name}[{index}]" if width > 1 else name for name, width in widths.items() for index in range(width)
        ]

    def flags(self, name: str) -> np.ndarray:
        """A column of true and false or 1 and 0, (N,) bool; empty is false."""
        flags = self.column(name).astype(str).str.strip("[] ").str.lower().fillna("nan").map(FLAGS)
        if flags.isna().any():
            self.refuse(int(flags.isna().argmax()), name)
        return flags.to_numpy(bool)

    def codes(self, name: str) -> np.ndarray:
        """A number for each different value of a column, in order of appearance."""
        codes = self.pandas.factorize(self.column(name))[0]
        if codes.min() < 0:
            self.refuse(codes.argmin(), name)
        return codes

    def rows_of_episodes(self, flags: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows of each episode, in order of time; `check_order` says whether the times are valid."""
        rows, options = np.arange(len(self.frame)), self.options
        if options.time is not None:
            self.times = self.pandas.factorize(self.column(options.time), sort=True)[0]
        ended = np.any([*flags, np.zeros(len(rows), bool)], axis=0)
        by_flags = np.append(0, ended[:-1].cumsum())
        codes = by_flags if options.episode is None else self.codes(options.episode)
        order = np.lexsort((self.times, codes))
        if options.episode is None and (order != rows).any():
            self.refuse_order(int((order != rows).argmax()))
        bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
        return (order[start:stop] for start, stop in pairwise(bounds))

    def check_order(self, rows: np.ndarray) -> None:
        """Raise InputError unless times order the rows of an episode, and all of one log before those of the next."""
        times, files = self.times[rows], self.files[rows]
        unordered = (np.diff(times, append=-2) == 0) | (times < 0)
        if (np.diff(files) != 0).sum() >= len(np.unique(files)):
            unordered[np.diff(files, append=files[-1]) != 0] = True
        if unordered.any():
            self.refuse_order(rows[unordered.argmax()])
        self.remarks.counts["continued"] += len(np.unique(files)) > 1

    def refuse_order(self, row: int) -> None:
        join = " or leave out --join: one log is not over when the next begins" * bool(self.files[-1] > 0)
        raise InputError(
            f"{self.label}: {self.options.time} does not order the rows of an episode, as at row {row}. Name the "
            f"column of what tells episodes apart{join}."
        )


def _label(log: Any) -> str:
    return str(Path(log).expanduser()) if isinstance(log, str | Path) else f"the log, of type {type(log).__name__},"
