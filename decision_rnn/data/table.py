"""Readers of logs with a row for every step, such as a robot's, by pandas: CSV and parquet files, tables in memory, and
LeRobot's folders of parquet files.

A row has an observation, the action that was chosen at it, and the reward of that action. An episode's last row may
also be the observation after the last action, with no action and no reward.
"""

import json
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.data.logs import FLAGS, SCATTERED, Log, LogOptions, cut, label_log, natural, notes_of
from decision_rnn.environments.episode import is_finite
from decision_rnn.utils.errors import InputError, importing, reading

TRUTH = {"true": True, "1": True, "1.0": True} | dict.fromkeys(["false", "0", "0.0", "nan", "none", "<na>", ""], False)
TABLES = (".csv", ".tsv", ".parquet")
ROLES = ("observations", "actions", "rewards", "episode", "time", *FLAGS)
INFO = Path("meta", "info.json")
"""The file that makes a folder one of LeRobot's."""
IDENTIFY = "Name the column that identifies episodes, or several, as --episode robot,run."
REMEDY = "Name a CSV, parquet, HDF5 or npz file. Load others in Python, and pass their arrays to import_log."


def read_table(log: Any, options: LogOptions) -> Log:
    """The episodes of a table, in the order of their first rows, and the names of their entries.

    It is a CSV or parquet file, a folder of LeRobot's, or what `pandas.DataFrame` accepts. Unless missing numbers are
    errors, episodes have NaN in their place. Errors, as from `open_log`, name the column and the row, counted from 0.
    """
    table = _Table(log, options)
    keys, label = table.keys, table.label
    arrays: dict[str, np.ndarray] = {}
    arrays["observations"], observed = table.matrix("observations")
    arrays["actions"], acted = table.matrix("actions")
    if keys["rewards"]:
        arrays["rewards"] = table.numbers(keys["rewards"][0])[:, 0]
    arrays |= {flag: table.flags(keys[flag][0]) for flag in FLAGS if keys[flag]}

    idle = np.isnan(arrays["actions"]).all(axis=1) & is_finite(arrays["observations"]).all(axis=1)
    idle &= np.nan_to_num(arrays.get("rewards", 0)) == 0
    rows, bounds = table.order([values for key, values in arrays.items() if key in FLAGS[:3]], idle)
    arrays = {key: values[rows] for key, values in arrays.items()}
    following = arrays["observations"].copy()
    # The last rows of episodes, but for single ones, that are the observation after the last action.
    idle = idle[rows] & bounds & ~np.append(True, bounds[:-1])
    before = np.append(idle[1:], False)
    following[before] = arrays["observations"][idle]
    bounds = bounds | before
    for flag in arrays.keys() & FLAGS:
        arrays[flag] = arrays[flag] | np.append((arrays[flag] & idle)[1:], False)
    rows, *values = (each[~idle] for each in (rows, *arrays.values(), following, bounds))
    arrays = dict(zip([*arrays, "following", "bounds"], values, strict=True))

    for flag in {"terminated", "truncated"} & arrays.keys():
        if (within := arrays[flag] & ~arrays["bounds"]).any():
            raise InputError(f"{label}: {flag} is true within an episode, at row {rows[within.argmax()]}. {IDENTIFY}")
    if options.missing == "error":
        for key, names in (("observations", observed), ("actions", acted), ("rewards", keys["rewards"])):
            for row, entry in np.argwhere(~is_finite(arrays[key].reshape(len(rows), -1)))[:1] if key in arrays else ():
                table.refuse(rows[row], names[entry])
    columns = {"observations": observed, "actions": acted}
    notes = notes_of(keys, table.unread, table.splits) | {SCATTERED: table.scattered}
    return Log(cut(arrays), keys, len(acted), columns, notes=notes)


class _Table:
    """A log as a DataFrame, with its name in messages.

    Attributes:
        keys: By role, its columns.
        unread: The names of other columns, and of LeRobot's videos.
        features: By column, the names of its entries, as LeRobot's metadata list them.
        splits: The episodes of LeRobot's splits if all are read.
        scattered: The columns that identify episodes if rows of some are not side by side.
    """

    def __init__(self, log: Any, options: LogOptions) -> None:
        self.label = label = label_log(log)
        lerobot = isinstance(log, Path) and (log / INFO).is_file()
        with importing(label, "logs"):
            import pandas

            if lerobot or label.endswith(".parquet"):
                import pyarrow.parquet
        self.pandas, self.options = pandas, options
        self.features: dict[str, list[str]] = {}
        self.splits: dict[str, Collection[int]] = {}
        self.unread: list[str] = []
        self.scattered: list[str] = []
        with reading(label, "a table", REMEDY):
            if lerobot:
                self.frame = self._read_lerobot(log, pyarrow)
            else:
                table = log.to_pandas() if hasattr(log, "to_pandas") else log  # of pyarrow or polars
                self.frame = self._read(log) if isinstance(log, Path) else pandas.DataFrame(table)
                options.members(label, {})
            self.frame.columns = [str(name).strip() for name in self.frame]
        names = list(self.frame.columns)
        if not len(self.frame):
            raise InputError(f"{label} has no rows: its columns are {names}.")
        usual = lerobot or not {"observations", "actions"} <= options.names.keys()
        self.keys = {role: keys for role, keys in options.find(label, names, usual).items() if role in ROLES}
        if not (self.keys["observations"] and self.keys["actions"]):
            raise InputError(
                f"{label} has the columns {names}. Name those of the observations and of the actions, as "
                '--observations "obs_*" --actions force, and any of --reward, --episode, --time and --terminated.'
            )
        self.unread += sorted(set(names) - set(chain.from_iterable(self.keys.values())), key=names.index)

    def _read(self, path: Path) -> Any:
        if path.suffix.lower() == ".parquet":
            return self.pandas.read_parquet(path)
        with path.open(encoding="utf-8-sig") as text:
            delimiter = max(",;\t", key=text.readline().count)
        return self.pandas.read_csv(path, sep=delimiter, encoding="utf-8-sig", skipinitialspace=True, index_col=False)

    def _read_lerobot(self, folder: Path, pyarrow: Any) -> Any:
        """The numeric columns of a LeRobot dataset; its rows, not its metadata, determine the episodes and their order.

        https://github.com/huggingface/lerobot, formats 2.1 (a file for every episode) and 3.0 (many in a file).
        """
        info, frames = json.loads((folder / INFO).read_bytes()), []
        for file in sorted((folder / "data").rglob("*.parquet"), key=lambda file: natural(str(file))):
            kinds = {
                each.name: getattr(each.type, "value_type", each.type) for each in pyarrow.parquet.read_schema(file)
            }
            numeric = [name for name, kind in kinds.items() if pyarrow.types.is_primitive(kind)]
            self.unread += [name for name in kinds if name not in {*numeric, *self.unread}]
            frames.append(self.pandas.read_parquet(file, columns=numeric))
        if not frames:
            raise InputError(f"{folder} has no data/*.parquet.")
        features = info.get("features") or {}
        self.features = {key: _listed_names(each.get("names")) for key, each in features.items()}
        self.unread += [key for key, each in features.items() if each.get("dtype") == "video"]
        frame = self.pandas.concat(frames, ignore_index=True)
        self.splits = {name: range(*map(int, text.split(":"))) for name, text in info.get("splits", {}).items()}
        members = self.options.members(str(folder), self.splits)
        if members is None:
            return frame
        self.splits = {}
        return frame[frame["episode_index"].isin(members)].reset_index(drop=True)

    def refuse(self, row: int, column: str) -> None:
        raise InputError(f"{self.label}: row {row} has no valid value in the column {column}.")

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, or of lists of equally many numbers: (N, entries) float64, NaN where there is none."""
        column = self.frame[name]
        with reading(f"the column {name} of {self.label}", "numbers", "Give times in seconds, others as 0.5."):
            if column.dtype.kind in "mMc":  # which numpy reads as nanoseconds and real parts
                raise TypeError(column.dtype)
            if isinstance(column.iloc[0], list | tuple | np.ndarray):
                return np.array(column.tolist(), np.float64).reshape(len(column), -1)
            numbers = self.pandas.to_numeric(column, errors="raise" if self.options.missing == "error" else "coerce")
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

    def flags(self, name: str) -> np.ndarray:
        """A column of true and false or 1 and 0, (N,) bool; empty is false."""
        flags = self.frame[name].astype(str).str.strip("[] ").str.lower().fillna("nan").map(TRUTH)
        if flags.isna().any():
            self.refuse(int(flags.isna().argmax()), name)
        return flags.to_numpy(bool)

    def order(self, flags: list[np.ndarray], idle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the episodes one after another, each in order of time, (N,), and (N,) bool, true at the last row
        of each. Without a column of episodes they end at flags, or at the next row if that is `idle`."""
        rows = times = np.arange(len(self.frame))
        after = np.append(False, np.any([*flags, rows < 0], axis=0)[:-1])
        codes = (after & ~idle | np.append(False, (after & idle)[:-1])).cumsum()
        if identifiers := self.options.identifiers(self.keys):
            for name in identifiers:
                if (missing := self.frame[name].isna()).any():
                    self.refuse(int(missing.argmax()), name)
            codes = self.frame.groupby(identifiers, sort=False).ngroup().to_numpy()
            if np.count_nonzero(np.diff(codes)) > codes.max():
                self.scattered = [", ".join(identifiers)]
        for name in self.keys["time"][:1]:
            times = self.pandas.factorize(self._times(name), sort=True)[0]
        rows = np.lexsort((times, codes))
        times, bounds = times[rows], np.append(np.diff(codes[rows]) != 0, True)
        unordered = (times < 0) | (~bounds & (np.diff(times, append=-1) == 0))
        if not self.keys["episode"]:  # a clock that starts again belongs to another episode
            unordered |= rows != np.arange(len(rows))
        if unordered.any():
            raise InputError(
                f"{self.label}: {self.keys['time'][0]} does not order the rows of an episode, as at row "
                f"{rows[unordered.argmax()]}. {IDENTIFY} If times repeat, leave out --time, or rows."
            )
        return rows, bounds

    def _times(self, name: str) -> Any:
        """A column of times as numbers or dates, also those written as text, which is not in their order."""
        column = self.frame[name]
        if column.dtype.kind in "iufmM":
            return column
        with reading(f"the column {name} of {self.label}", "times", "Write numbers or dates."):
            try:
                return self.pandas.to_numeric(column)
            except (TypeError, ValueError):
                return self.pandas.to_datetime(column, format="mixed", utc=True)


def _listed_names(names: Any) -> list[str]:
    """The names in LeRobot's metadata: a list, a dictionary of lists such as `{"motors": [...]}`, or one of indices."""
    if isinstance(names, dict) and any(isinstance(each, dict | list) for each in names.values()):
        names = list(names.values())
    if isinstance(names, dict | list):
        return list(chain.from_iterable(map(_listed_names, names)))
    return [names] if isinstance(names, str) else []
