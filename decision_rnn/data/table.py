"""Readers of logs with a row for every step, such as a robot's, by pandas: CSV and parquet files, tables in memory, and
LeRobot's folders of parquet files.

A row has an observation, the action that was chosen at it, and the reward of that action. Most logs have no
observation after an episode's last action: the last observation is then repeated, and no row is lost. An episode's last
row may also be that observation, with no action and no reward.
"""

import contextlib
import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.logs import FLAGS, GAP, NAMES, Log, LogOptions, Remarks, cut, label_log, natural
from decision_rnn.environments.episode import Episode, is_finite
from decision_rnn.utils.errors import InputError, importing, reading

TRUTH = {"true": True, "1": True, "1.": True, "1.0": True} | dict.fromkeys(
    ["false", "0", "0.", "0.0", "nan", "none", "<na>", ""], False
)
TABLES = (".csv", ".tsv", ".parquet")
REMEDY = "Name a CSV, parquet, HDF5 or npz file. Load others in Python, and pass their arrays to import_log."
LEROBOT = {"episode_index", "frame_index"}
"""Columns by which LeRobot's parquet files are recognised."""


def read_table(logs: Sequence[Any], options: LogOptions, remarks: Remarks) -> Log:
    """The episodes of a log, in the order of their first rows, and the names of the entries of its `observations` and
    `actions`.

    Args:
        logs: The path of a CSV or parquet file or of a folder of LeRobot's, or what `pandas.DataFrame` accepts, which
            is read into memory; or several that are one log.
        options: The columns to read, and whether missing numbers are errors; else episodes have NaN in their place.
            Usual names, and those of LeRobot, need not be given.
        remarks: Collects remarks for readers of scores.

    Raises:
        InputError: If the log cannot be read, lacks one of the columns, or holds something else than numbers, is not
            in order, has flags within an episode, or a missing number that is an error; the message names the file, the
            column and the row, counted from 0.
    """
    table = _Table(logs, options, remarks)
    columns: dict[str, np.ndarray] = {}
    columns["observations"], observed = table.matrix("observations")
    columns["actions"], acted = table.matrix("actions")
    entries = {"observations": observed, "actions": acted, "rewards": table.keys["rewards"]}
    for reward in table.keys["rewards"][:1]:
        columns["rewards"] = table.numbers(reward)[:, 0]
    columns |= {flag: table.flags(table.keys[flag][0]) for flag in FLAGS if table.keys[flag]}

    def arrays(rows: np.ndarray) -> dict[str, np.ndarray]:
        """The steps of an episode, as `cut` takes them."""
        table.check_order(rows)
        remarks.counts["joined"] += bool((np.diff(np.sort(rows)) > 1).any())
        steps = {key: values[rows] for key, values in columns.items()}
        last = {key: values[-1] for key, values in steps.items()}
        idle = np.isnan(last["actions"]).all() and np.nan_to_num(last.get("rewards", 0)) == 0
        if len(rows) > 1 and idle and is_finite(last["observations"]).all():  # the observation after the last action
            following = steps["observations"][1:]
            for flag in steps.keys() & FLAGS:
                steps[flag][-2] |= steps[flag][-1]
            steps = {key: values[:-1] for key, values in steps.items()} | {"following": following}
        for flag in ("terminated", "truncated"):
            if flag in steps and steps[flag][:-1].any():
                raise InputError(f"{table.label}: {flag} is true within the episode that begins at row {rows[0]}.")
        for key in filter(steps.__contains__, entries) if table.complete else ():
            faults = np.argwhere(~is_finite(steps[key].reshape(len(steps[key]), -1)))
            if len(faults):
                table.refuse(rows[faults[0, 0]], entries[key][faults[0, 1]])
        return steps | {"bounds": np.arange(len(steps["actions"])) == len(steps["actions"]) - 1}

    def episodes() -> Iterator[Episode]:
        for rows in table.rows_of_episodes([values for key, values in columns.items() if key in FLAGS[:3]]):
            with remarks.leaving_out(f"row {rows[0]}", options.missing):
                yield from cut(arrays(rows), remarks.counts)

    return Log(episodes(), {"observations": observed, "actions": acted})


def lerobot_files(path: Path) -> list[Path]:
    """The data files of a LeRobot dataset, version 2 or 3, from its folder or a file; none if it is not LeRobot's."""
    files = [file for file in path.rglob("*.parquet") if "meta" not in file.relative_to(path).parts]
    files = files or [path] * (path.suffix == ".parquet" and path.is_file())
    known = (path / "meta" / "info.json").is_file() or any(LEROBOT.issubset(_schema(file)) for file in files)
    return sorted(files, key=lambda file: natural(str(file))) if known else []


def _schema(file: Path) -> dict[str, bool]:
    """The columns of a parquet file, and whether each holds numbers or lists of numbers; empty if it is unreadable."""
    with importing(file, "logs"):
        import pyarrow.parquet
    try:
        schema = pyarrow.parquet.read_schema(file)
    except (OSError, pyarrow.ArrowException):
        return {}
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in schema}
    return {name: pyarrow.types.is_primitive(kind) for name, kind in kinds.items()}


class _Table:
    """A log as a DataFrame, with its name in messages.

    Attributes:
        keys: By role, its columns.
        complete: Whether missing numbers are errors.
        features: By column, the names of its entries, as LeRobot's metadata list them.
        files: (N,), the index of the log that a row is from.
        moments: (N,), the times of rows as numbers or dates; None if they are in order.
        times, clock: (N,), their ranks, and their numbers in any unit; the numbers of rows without `moments`.
    """

    def __init__(self, logs: Sequence[Any], options: LogOptions, remarks: Remarks) -> None:
        self.label = " and ".join(map(label_log, logs))
        with importing(self.label, "logs"):
            import pandas

            if self.label.endswith(".parquet"):
                import pyarrow  # noqa: F401 - pandas needs it
        self.pandas, self.remarks, self.complete = pandas, remarks, options.missing == "error"
        self.features: dict[str, list[str]] = {}
        frames = [self._frame(log, options) for log in logs]
        self.files = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
        self.frame = pandas.concat(frames, ignore_index=True)
        names = list(self.frame.columns)
        if not len(self.frame):
            raise InputError(f"{self.label} has no rows: its columns are {names}.")
        usual = not {"observations", "actions"} <= options.names.keys() or LEROBOT.issubset(names)
        roles = NAMES if usual else options.names
        self.keys = {role: options.find(self.label, role, names, remarks) if role in roles else [] for role in NAMES}
        if not (self.keys["observations"] and self.keys["actions"]):
            raise InputError(
                f"{self.label} has the columns {names}. Name those of the observations and of the actions, as "
                '--observations "obs_*" --actions force, and any of --reward, --episode, --time and --terminated.'
            )
        self.moments = self.order(self.keys["time"][0]) if self.keys["time"] else None
        self._remark()

    def _frame(self, log: Any, options: LogOptions) -> Any:
        """One of the logs as a DataFrame; of a LeRobot dataset, only the numeric columns."""
        with reading(label_log(log), "a table", REMEDY):
            if isinstance(log, str | Path) and (files := lerobot_files(path := Path(log).expanduser())):
                frame = self._lerobot(path, files, options)
            else:
                options.members(label_log(log), {}, self.remarks)
                frame = self._read(path) if isinstance(log, str | Path) else log
                frame = frame.to_pandas() if hasattr(frame, "to_pandas") else self.pandas.DataFrame(frame)
            names = ["/".join(map(str, name)) if isinstance(name, tuple) else str(name).strip() for name in frame]
            frame = frame.set_axis(names, axis="columns")
            return frame.reset_index([name for name in frame.index.names if name is not None])

    def _read(self, path: Path) -> Any:
        if path.suffix == ".parquet":
            return self.pandas.read_parquet(path)
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as text:
            delimiter = max(",;\t", key=text.readline().count)
        settings: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True, "index_col": False}
        return self.pandas.read_csv(path, sep=delimiter, float_precision="round_trip", **settings)

    def _lerobot(self, folder: Path, files: Sequence[Path], options: LogOptions) -> Any:
        """The rows of a LeRobot dataset, which determine the episodes and their order; its metadata do not."""
        frames, columns, splits, features = [], dict[str, bool](), dict[str, range](), dict[str, Any]()
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # no metadata, or others'
            info = json.loads((folder / "meta" / "info.json").read_bytes())
            features = {key: each for key, each in info.get("features", {}).items() if isinstance(each, dict)}
            splits = {name: range(*map(int, text.split(":"))) for name, text in info.get("splits", {}).items()}
        for file in files:
            schema = _schema(file)
            columns |= schema
            with self.remarks.leaving_out(file.name, options.missing), reading(file, "parquet", "Fetch it again."):
                frames.append(self.pandas.read_parquet(file, columns=[name for name in schema if schema[name]]))
        videos = {path.name for path in folder.glob("videos/**/*") if path.is_dir() and "chunk-" not in path.name}
        videos |= {key for key, each in features.items() if each.get("dtype") in ("video", "image")}
        self.features |= {key: _listed_names(each.get("names")) for key, each in features.items()}
        self.remarks.name("images", sorted(videos | {name for name in columns if not columns[name]}))
        frame = self.pandas.concat(frames, ignore_index=True)
        members = options.members(str(folder), splits, self.remarks)
        return frame if members is None else frame[frame["episode_index"].isin(members)]

    def _remark(self) -> None:
        """Note the ids of episodes, whether there are several tasks, and unused columns that look like flags."""
        keys, frame = self.keys, self.frame
        if keys["episode"] and not self.files.any():
            ids = frame[keys["episode"][0]]
            spans = dict.fromkeys(ids.unique())
            if self.moments is not None:
                ends = self.moments.groupby(ids.astype(object), sort=False).agg(["min", "max"])
                spans = dict(zip(ends.index, ends.itertuples(index=False), strict=True))
            self.remarks.identify(self.label, spans)
        if not any(keys[flag] for flag in FLAGS if flag != "done"):
            self.remarks.name("done", keys["done"])
        roles = ("observations", "actions", "rewards", "episode", "time", *FLAGS)
        used = set(chain.from_iterable(keys[role] for role in roles))
        for name in filter(lambda name: name not in used, frame.columns):
            with contextlib.suppress(TypeError):  # lists mark no episodes
                codes, different = self.pandas.factorize(frame[name])
                if name == "task_index" and len(different) > 1:
                    self.remarks.name("tasks", [f"{len(different)} tasks"])
                elif len(different) <= len(TRUTH) and set(_truth(self.pandas.Series(different))) == {True, False}:
                    self.remarks.name("flags", [name])
                elif not keys["episode"]:
                    self.remarks.name_bounds(name, codes, frame[name].to_numpy())

    def refuse(self, row: int, column: str) -> None:
        raise InputError(f"{self.label}: row {row} has no valid value in the column {column}.")

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, or of lists of equally many numbers: (N, entries) float64, NaN where there is none."""
        column = self.frame[name]
        with reading(f"the column {name} of {self.label}", "numbers", "Give times in seconds, others as 0.5."):
            if column.dtype.kind in "mMc":  # which numpy reads as nanoseconds and real parts
                raise TypeError(column.dtype)
            values = column.tolist()
            if width := next((len(value) for value in values if isinstance(value, list | tuple | np.ndarray)), 0):
                if not self.complete:
                    values = [value if np.shape(value) == (width,) else [np.nan] * width for value in values]
                return np.array(values, np.float64).reshape(len(column), -1)
            numbers = self.pandas.to_numeric(column, errors="raise" if self.complete else "coerce")
            return numbers.to_numpy(np.float64, na_value=np.nan).reshape(-1, 1)

    def matrix(self, role: str) -> tuple[np.ndarray, list[str]]:
        """The columns of a role side by side, (N, entries) float32, and the entries' names."""
        columns = {name: self.numbers(name) for name in self.keys[role]}
        with np.errstate(over="ignore"):
            values = np.concatenate(list(columns.values()), axis=1).astype(np.float32)
        entries = {name: self.features.get(name, []) for name in columns}
        for name, numbers in columns.items():
            width = numbers.shape[1]
            if not len(set(entries[name])) == len(entries[name]) == width:
                entries[name] = [f"{name}[{index}]" for index in range(width)] if width > 1 else [name]
        names = list(chain.from_iterable(entries.values()))
        if len(set(names)) < len(names):  # such as the positions and the velocities of the same joints
            names = [f"{name}.{entry}" for name, each in entries.items() for entry in each]
        return values, names

    def order(self, name: str) -> Any:
        """A column of times, as numbers or dates: text is not in their order."""
        column = self.frame[name]
        if column.dtype.kind in "iufmM":
            return column
        with reading(f"the column {name} of {self.label}", "times", "Write numbers or dates."):
            try:
                return self.pandas.to_numeric(column)
            except (ValueError, TypeError):
                return self.pandas.to_datetime(column, format="mixed", utc=True)

    def flags(self, name: str) -> np.ndarray:
        """A column of true and false or 1 and 0, (N,) bool; empty is false."""
        flags = _truth(self.frame[name])
        if flags.isna().any():
            self.refuse(int(flags.isna().argmax()), name)
        return flags.to_numpy(bool)

    def rows_of_episodes(self, flags: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The rows of each episode, in order of time; `check_order` says whether the times are valid."""
        rows = self.times = self.clock = np.arange(len(self.frame))
        codes = np.append(0, np.any([*flags, rows < 0], axis=0)[:-1].cumsum())
        if self.moments is not None:
            self.times, moments = self.pandas.factorize(self.moments, sort=True)
            numbers: Any = getattr(moments, "asi8", moments)  # of dates
            self.clock = np.append(numbers, 0.0)[self.times]
        for name in self.keys["episode"][:1]:
            codes = self.pandas.factorize(self.frame[name])[0]
            if codes.min() < 0:
                self.refuse(codes.argmin(), name)
        order = np.lexsort((self.times, codes))
        if not self.keys["episode"] and (order != rows).any():
            self.refuse_order(int((order != rows).argmax()))
        return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)

    def check_order(self, rows: np.ndarray) -> None:
        """Raise InputError unless times order the rows of an episode, all of a log before those of the next."""
        times, files = self.times[rows], self.files[rows]
        unordered = (np.diff(times, append=-2) == 0) | (times < 0)
        if unordered.any() or (np.diff(files) != 0).sum() >= len(np.unique(files)):
            self.refuse_order(rows[unordered.argmax()])
        spacing = np.diff(self.clock[rows])
        self.remarks.counts["gaps"] += bool(len(rows) > 1 and spacing.max() > GAP * np.median(spacing))

    def refuse_order(self, row: int) -> None:
        raise InputError(
            f"{self.label}: {self.keys['time'][0]} does not order the rows of an episode, as at row {row}. Name the "
            f"column that identifies episodes{', or leave out --join' * bool(self.files[-1])}."
        )


def _listed_names(names: Any) -> list[str]:
    """The names in LeRobot's metadata: a list, a dictionary of lists such as `{"motors": [...]}`, or one of indices."""
    if isinstance(names, dict) and any(isinstance(each, dict | list) for each in names.values()):
        names = list(names.values())
    if isinstance(names, dict | list):
        return list(chain.from_iterable(map(_listed_names, names)))
    return [names] if isinstance(names, str) else []


def _truth(column: Any) -> Any:
    """True, False or NaN for each value of a column."""
    return column.astype(str).str.strip("[] ").str.lower().fillna("nan").map(TRUTH)
