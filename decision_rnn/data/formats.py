"""Readers of logs in the layouts of other libraries: HDF5 and npz files, and arrays in memory, known by their keys.

Tables, such as LeRobot's parquet files, are read by `table.py`.
"""

import contextlib
import gzip
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from decision_rnn.data.logs import FLAGS, LISTED, NAMES, Log, LogOptions, Remarks, cut, label_log, natural
from decision_rnn.data.table import TABLES, lerobot_files, read_table
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.layouts import IMAGE_SIDE
from decision_rnn.utils.errors import InputError, reading

Arrays = Mapping[str, Any]
"""Arrays by key, such as `data/demo_0/obs/position`: numpy's, or HDF5's datasets, which are read when indexed."""
FILES = (".hdf5", ".h5", ".npz")


def _blocks(arrays: Arrays, action: str) -> dict[str, Arrays]:
    """The arrays of each block of steps, by name. Keys of actions match the regular expression `action`.

    A block is a numbered group, `data/demo_0/actions`, as of robomimic, Minari and ManiSkill, also one without actions;
    or arrays of one number, `actions_0`, as of d3rlpy 2, where `observations_0_1` is one of several observations; or
    all arrays, without a name: `actions`, as of D4RL and d3rlpy 1, or `data/action`, as of diffusion policy.
    """
    groups = (re.fullmatch(rf"(.*\D|)\d+/(steps/)?({action})(/.*)?", key) for key in arrays)
    matches = {re.escape(match[1]) for match in groups if match}
    stems = "|".join(matches)
    for layout in (
        rf"(?P<block>({stems if matches else '(?!)'})\d+)(/(steps/)?(?P<name>.*))?(?P<part>)",
        r"(?P<name>.*?[^\d_])_(?P<block>\d+)(_(?P<part>\d+))?",
        r"(?P<block>)((data|meta|steps)/)?(?P<name>.*)(?P<part>)",
    ):
        blocks: dict[str, dict[str, Any]] = {}
        for key in arrays if matches else sorted(arrays, key=natural):
            if match := re.fullmatch(layout, key):
                block = blocks.setdefault(match["block"], {})
                if match["name"]:
                    block["/".join(filter(None, match.group("name", "part")))] = arrays[key]
        if any(re.fullmatch(rf"({action})(/.*)?", key) for block in blocks.values() for key in block):
            break
    names = {block: f"episode {block}" if block.isdecimal() else block for block in sorted(blocks, key=natural)}
    return {name: blocks[block] for block, name in names.items()}


def open_log(logs: Sequence[Any], options: LogOptions, remarks: Remarks) -> Log:
    """Open a log, or several files as one.

    Args:
        logs: The paths of files or of a folder of LeRobot's, arrays by name, or what `pandas.DataFrame` accepts.
        options: The names of its columns or arrays; without observations and actions they are found by `NAMES`.
        remarks: Collects remarks for readers of scores.

    Raises:
        InputError: If the log cannot be read, or its layout is unknown; the message then lists its arrays.
    """
    if not _is_of_arrays(logs[0], options):
        return read_table(logs, options, remarks)
    if "time" in options.names:
        raise InputError(f"the steps of arrays are in order: leave out --time {options.names['time'][0]}.")
    label = " and ".join(map(label_log, logs))
    arrays, environment_id = _open_arrays(logs[0])
    if len(logs) > 1:
        with reading(label, "one log"):
            keys = [key for key, values in arrays.items() if np.shape(values)]
            # Read one after another: more files than a process may hold open can be joined.
            opened = [{key: np.asarray(_open_arrays(log)[0][key]) for key in keys} for log in logs]
            for key in (key for key in keys if key.rpartition("/")[2] in NAMES["ends"]):
                steps = np.cumsum([0, *(each[key][-1] for each in opened[:-1])])
                opened = [{**each, key: each[key] + before} for each, before in zip(opened, steps, strict=True)]
            arrays = {key: np.concatenate([each[key] for each in opened]) for key in keys}
    remarks.counts["logs"] += 1
    log = read_arrays(label, arrays, options, remarks)
    log.environment_id = environment_id
    return log


def expand_folder(log: Any) -> list[Any]:
    """A log, or those in a folder that is not one of LeRobot's, in the natural order of their names."""
    folder = Path(log).expanduser() if isinstance(log, str | Path) else None
    if folder is None or not folder.is_dir():
        return [log]
    if nested := sorted(folder.glob("*/meta/info.json")):  # several of LeRobot's
        return [file.parents[1] for file in nested]
    if lerobot_files(folder):
        return [log]
    files = sorted(folder.iterdir(), key=lambda file: natural(file.name))
    logs = [file for file in files if file.name.removesuffix(".gz").endswith((*FILES, *TABLES))]
    if not logs:
        raise InputError(
            f"{folder} holds {', '.join(file.name for file in files[:LISTED]) or 'nothing'}: expected the files "
            f"{', '.join((*FILES, *TABLES))}, or LeRobot's folder. Write the arrays of a zarr store by numpy.savez."
        )
    return list(logs)


def as_episode(item: Any) -> Any:
    """An `Episode` from a dictionary of its arrays; anything else is returned unchanged."""
    if not isinstance(item, Mapping):
        return item
    log = read_arrays("a dictionary of arrays", _by_path(item), LogOptions(), Remarks(), whole=True)
    return next(log.episodes)


def read_arrays(label: str, arrays: Arrays, options: LogOptions, remarks: Remarks, whole: bool = False) -> Log:
    """The episodes of arrays in a known layout; of a single one if `whole`. Errors as from `open_log`."""
    names = options.names.get("actions", NAMES["actions"])
    pattern = "|".join(re.escape(name).replace(r"\*", "[^/]*") for name in names)
    blocks = _blocks(arrays, pattern)
    reader = _Reader(label, blocks, options, remarks, whole or "" not in blocks)
    if not (reader.keys["observations"] and reader.keys["actions"]):
        raise InputError(
            f"{label} has an unknown layout: {_shapes(arrays)}. Expected observations (T, O) that are not images, "
            "actions (T, A), and flags (T,) or ends of episodes unless each episode is a numbered group. Name the "
            "arrays with --observations, --actions, --reward, --terminated, --truncated, --episode."
        )
    masks = {key: set(np.ravel(arrays[key]).astype("U").tolist()) for key in arrays if key.startswith("mask/")}
    splits = {key.removeprefix("mask/"): members for key, members in masks.items()}
    if (members := options.members(label, splits, remarks)) is not None:
        blocks = {key: block for key, block in blocks.items() if key.rpartition("/")[2] in members}
    numbered = np.any(arrays.get("discrete_action", False))  # of d3rlpy 1: actions are indices
    space = Discrete(int(np.max(blocks[""][reader.keys["actions"][0]])) + 1) if numbered and "" in blocks else None
    return Log(reader.episodes(blocks), {}, (reader.space, space))


class _Reader:
    """Reads episodes from the blocks of a log.

    Attributes:
        keys: By role, the keys of its arrays in a block.
        widths: By key, the shape of the rows of most of its arrays.
        space: The space of an observation; None for vectors.
    """

    def __init__(
        self, label: str, blocks: Mapping[str, Arrays], options: LogOptions, remarks: Remarks, whole: bool
    ) -> None:
        self.label, self.options, self.remarks, self.whole = label, options, remarks, whole
        named: dict[str, list[Any]] = {}
        for key, values in chain.from_iterable(block.items() for block in blocks.values()):
            named.setdefault(key, []).append(values)
        samples = {key: _typical(arrays) for key, arrays in named.items()}
        self.keys = {role: options.find(label, role, list(samples), remarks) for role in NAMES}
        observed = sorted(self.keys["observations"], key=lambda key: key.split("/"))
        vectors = {key for key in observed if _is_vector(samples[key]) and 2 * len(named[key]) >= len(blocks)}
        remarks.name("images", [key for key in observed if key not in vectors])
        observed = self.keys["observations"] = [key for key in observed if key in vectors]
        suffixes = {key: key.partition("/")[2] for key in observed}
        following = [[f"{name}/{suffix}".strip("/") for suffix in suffixes.values()] for name in NAMES["following"]]
        self.widths = widths = {key: values.shape[1:] for key, values in samples.items()}
        self.keys["following"] = next((keys for keys in following if widths.keys() >= set(keys)), [])
        for key, observation in zip(self.keys["following"], suffixes, strict=False):
            if widths[key] != widths[observation]:
                raise InputError(f"{label}: the shapes of {key} {widths[key]} and {observation} differ.")
        shapes = {tuple((suffix or key).split("/")): widths[key] or (1,) for key, suffix in suffixes.items()}
        several = len(shapes) > 1 or any(len(shape) > 1 for shape in shapes.values())
        self.space = _space(shapes if len(shapes) > 1 else {(): next(iter(shapes.values()))}) if several else None
        if not any(self.keys[flag] for flag in ("terminated", "truncated", "success")):
            remarks.name("done", self.keys["done"])

    def episodes(self, blocks: Mapping[str, Arrays]) -> Iterator[Episode]:
        """The episodes of blocks, in order. A block that is whole or has one more observation than actions is one."""
        for name, block in blocks.items():
            where = ", ".join(filter(None, (self.label, name)))
            tolerant = self.remarks.leaving_out(name, self.options.missing) if self.whole else contextlib.nullcontext()
            with tolerant, reading(where, "episodes", "Name its arrays, or pass them to import_log in Python."):
                yield from cut(self._read(where, block), self.remarks.counts)

    def _matrix(self, block: Arrays, role: str) -> np.ndarray:
        """The arrays of a role side by side, (rows, entries)."""
        arrays = [np.asarray(block[key]) for key in self.keys[role]]
        matrices = [array.reshape(len(array), -1) for array in arrays]
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1)

    def _flags(self, where: str, block: Arrays, role: str, steps: int) -> np.ndarray:
        """(steps,) bool; a single flag is that of the last step."""
        key = self.keys[role][0]
        values = np.ravel(block[key])
        if values.size == 1:
            values = np.append(np.zeros(steps - 1), values)
        if values.shape != (steps,) or not ((values == 0) | (values == 1)).all():
            raise InputError(f"{where}: {key} has the shape {values.shape}: expected 0 or 1 for each of {steps} steps.")
        return values.astype(bool)

    def _bounds(self, where: str, block: Arrays, steps: int) -> np.ndarray | None:
        """(steps,) bool, true at the last steps of episodes, from ids, starts, ends or lengths; None without these."""
        kinds = ("episode",) if "episode" in self.options.names else ("starts", "ends", "lengths", "episode")
        kind = next((kind for kind in kinds if self.keys[kind]), None)
        if kind is None:
            return None
        key = self.keys[kind][0]
        ids = values = np.ravel(block[key])
        if kind in ("ends", "lengths"):
            values = values.astype(np.int64)
        if kind == "starts":
            ids = np.cumsum(self._flags(where, block, kind, steps))
        elif kind in ("ends", "lengths"):
            ids = np.repeat(np.arange(len(values)), values if kind == "lengths" else np.diff(values, prepend=0))
        elif len(values) == 1:  # the number of the episode
            return None
        last = np.append(ids[1:] != ids[:-1], True)
        if len(ids) != steps or len(np.unique(ids)) != last.sum():
            raise InputError(f"{where}: {key} does not cut the {steps} steps into episodes, each with steps in a row.")
        if kind == "episode":
            self.remarks.identify(self.label, dict.fromkeys(ids[last].tolist()))
        return last

    def _read(self, where: str, block: Arrays) -> dict[str, np.ndarray]:
        """The arrays of a block, as `cut` takes them."""
        for key in (*self.keys["observations"], *self.keys["actions"]):
            if (rows := np.shape(block[key])[1:]) != self.widths[key]:
                raise InputError(f"{where}: the rows of {key} have the shape {rows}, unlike {self.widths[key]}.")
        roles = ("observations", "following", "actions", "rewards")
        arrays = {role: self._matrix(block, role) for role in roles if self.keys[role]}
        steps = len(arrays["actions"])
        if "rewards" in arrays:
            arrays["rewards"] = np.ravel(arrays["rewards"])
        whole = self.whole or len(arrays["observations"]) == steps + 1
        if len(arrays["observations"]) == steps + 1:
            arrays["following"], arrays["observations"] = arrays["observations"][1:], arrays["observations"][:-1]
        if not steps or any(len(each) != steps for each in arrays.values()):
            raise InputError(
                f"{where} has {_shapes(block)}: expected one episode's or equally many steps in each, at least one."
            )
        arrays |= {role: self._flags(where, block, role, steps) for role in FLAGS if self.keys[role]}
        bounds = np.arange(steps) == steps - 1 if whole else self._bounds(where, block, steps)
        used = set(chain.from_iterable(self.keys.values()))
        for key in (key for key in block if key not in used and np.shape(block[key]) in ((steps,), (steps, 1))):
            with contextlib.suppress(TypeError):  # objects of several types mark no episodes
                different, codes = np.unique(values := np.ravel(block[key]), return_inverse=True)
                if values.dtype.kind in "fiub" and different.tolist() == [0, 1]:
                    self.remarks.name("flags", [key])
                elif bounds is None:
                    self.remarks.name_bounds(key, codes, values)
        return arrays if bounds is None else arrays | {"bounds": bounds}


def _typical(arrays: Sequence[Any]) -> Any:
    """The largest of the arrays whose rows have the most common shape; some may be empty."""
    shapes = [array.shape for array in arrays]
    ((rows, _),) = Counter(shape[1:] for shape in shapes).most_common(1)
    sizes = [(shape[1:] == rows, math.prod(shape)) for shape in shapes]
    return arrays[sizes.index(max(sizes))]


def _is_vector(array: Any) -> bool:
    """Whether the rows of an array are numeric and not images, also not compressed ones."""
    rows = sorted(array.shape[1:])
    image = rows[-2:-1] >= [IMAGE_SIDE] or (array.dtype == np.uint8 and rows >= [IMAGE_SIDE**2])
    return array.ndim > 0 and array.dtype.kind in "fiub" and not image


def _space(shapes: Mapping[tuple[str, ...], tuple[int, ...]]) -> gymnasium.Space[Any]:
    """The space of arrays with these shapes by their paths: a Dict, or a Tuple where they are numbered."""
    if () in shapes:
        return Box(-np.inf, np.inf, shapes[()])
    inner: dict[str, dict[tuple[str, ...], tuple[int, ...]]] = {}
    for (first, *rest), shape in shapes.items():
        inner.setdefault(first, {})[tuple(rest)] = shape
    spaces = {key: _space(entries) for key, entries in inner.items()}
    return Tuple(spaces.values()) if all(map(str.isdigit, spaces)) else Dict(spaces)


def _by_path(arrays: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries or groups of arrays as one, with keys such as `obs/position`."""
    flat: dict[str, Any] = {}
    for key, values in arrays.items():
        name = f"{prefix}{key}"
        if isinstance(values, Mapping) and len(values):
            flat |= _by_path(values, f"{name}/")
        elif isinstance(values, h5py.Dataset):
            flat[name] = values
        else:  # an empty group may be an episode that is missing
            with reading(name, "an array", "Give numpy's arrays."):
                flat[name] = np.asarray(values)
    return flat


def _is_of_arrays(log: Any, options: LogOptions) -> bool:
    """Whether a log has arrays: an HDF5 or npz file, or a dictionary of arrays rather than of named columns."""
    if isinstance(log, Mapping):
        named = {"observations", "actions"} <= options.names.keys()
        return not named or any(isinstance(each, Mapping) or getattr(each, "ndim", 1) > 1 for each in log.values())
    if not isinstance(log, str | Path):
        return False
    path = Path(log).expanduser()
    return path.name.removesuffix(".gz").endswith(FILES) or (path.is_file() and h5py.is_hdf5(path))


def _open_arrays(log: Any) -> tuple[Arrays, str | None]:
    """The arrays of a file or a dictionary, and the Gymnasium id that the file names, if any."""
    if isinstance(log, Mapping):
        return _by_path(log), None
    path, arrays = Path(log).expanduser(), dict[str, Any]()
    with reading(path, "npz" if ".npz" in path.suffixes else "HDF5"):
        source = io.BytesIO(gzip.decompress(path.read_bytes())) if path.suffix == ".gz" else path
        if ".npz" in path.suffixes:
            with np.load(source, allow_pickle=False) as content:
                for key in content.files:
                    with contextlib.suppress(ValueError):  # a pickle, which is not read
                        arrays[key] = content[key]
            return arrays, None
        file = h5py.File(source, "r")  # closed with the last of its datasets
        environment_id = file.attrs.get("environment_id")
        return _by_path(file), environment_id if isinstance(environment_id, str) else None


def _shapes(arrays: Arrays) -> str:
    listed = [f"{key} {np.shape(values)} {values.dtype}" for key, values in arrays.items()]
    return ", ".join(listed[:LISTED]) or "no arrays"
