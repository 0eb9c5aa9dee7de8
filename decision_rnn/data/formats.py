"""Readers of logs in the layouts of other libraries: HDF5 and npz files, and arrays in memory, known by their keys.

Tables, such as LeRobot's parquet files, are read by `table.py`.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
from gymnasium.spaces import Box, Dict, Tuple

from decision_rnn.data.logs import (
    FLAGS,
    JOINED,
    LEFT_OUT,
    NAMES,
    Log,
    LogOptions,
    cut,
    label_log,
    listed,
    natural,
    notes_of,
)
from decision_rnn.data.table import INFO, TABLES, read_table
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.layouts import IMAGE_SIDE, Layout, nested
from decision_rnn.utils.errors import InputError, one_line, reading

Arrays = Mapping[str, Any]
"""Arrays by key, such as `data/demo_0/obs/position`: numpy's, or HDF5's datasets, which are read when indexed."""
FILES = (".hdf5", ".h5", ".npz")
CUTS = ("truncated", "done", "success", "following", "ends", "lengths", "starts", "episode")
"""What ends or cuts episodes besides terminations."""


def expand_folder(log: Any) -> list[Any]:
    """A log, a path as `Path`, or the logs in a folder that is not one of LeRobot's, in the natural order of names."""
    if not isinstance(log, str | Path):
        return [log]
    folder = Path(log).expanduser()
    if not folder.is_dir() or (folder / INFO).is_file():
        return [folder]
    files = sorted(folder.iterdir(), key=lambda file: natural(file.name))
    logs = [file for file in files if file.suffix.lower() in (*FILES, *TABLES)]
    if not logs:
        raise InputError(
            f"{folder} holds {listed([file.name for file in files]) or 'nothing'}: expected the files "
            f"{', '.join((*FILES, *TABLES))}, or LeRobot's folder. Write the arrays of a zarr store by numpy.savez."
        )
    return list(logs)


def open_log(log: Any, options: LogOptions) -> Log:
    """Open a log.

    Args:
        log: The `Path` of a file or of a folder of LeRobot's, arrays by name, or what `pandas.DataFrame` accepts.
        options: The names of its columns or arrays; without observations and actions they are found by `NAMES`.

    Raises:
        InputError: If the log cannot be read, or its layout is unknown; the message then lists its arrays.
    """
    label = label_log(log)
    if isinstance(log, Mapping):
        named = {"observations", "actions"} <= options.names.keys()
        if named and not any(isinstance(each, Mapping) or getattr(each, "ndim", 1) > 1 for each in log.values()):
            return read_table(log, options)
        return read_arrays(label, _by_path(log), options)
    if not isinstance(log, Path) or log.suffix.lower() not in FILES:
        return read_table(log, options)
    arrays, environment_id = _read_file(log)
    log = read_arrays(label, arrays, options)
    log.environment_id = environment_id
    return log


def as_episode(item: Any, space: gymnasium.Space[Any] | None) -> Any:
    """An `Episode` with observations of this space from a dictionary of its arrays; anything else is returned
    unchanged."""
    if not isinstance(item, Mapping):
        return item
    log = read_arrays("a dictionary of arrays", _by_path(item), LogOptions(), whole=True)
    episode = next(log.episodes)
    return by_name(episode, log.space) if log.space and isinstance(space, Dict | Tuple) else episode


def by_name(episode: Episode, space: gymnasium.Space[Any]) -> Episode:
    """An episode with observations as values of a log's space, whose parts may have another order elsewhere, in place
    of rows."""
    return replace(episode, observations=Layout.of_space(space, "observations").values(episode.observations))


def read_arrays(label: str, arrays: Arrays, options: LogOptions, whole: bool = False) -> Log:
    """The episodes of arrays in a known layout; of a single one if `whole`. Errors as from `open_log`."""
    names = options.names.get("actions", NAMES["actions"])
    blocks = _blocks(arrays, "|".join(re.escape(name).replace(r"\*", "[^/]*") for name in names))
    layouts = Counter(map(_layout, blocks.values()))
    first = max(blocks.values(), key=lambda block: layouts[_layout(block)], default={})
    reader = _Reader(label, first, options, whole or "" not in blocks)
    if not (reader.keys["observations"] and reader.keys["actions"]):
        raise InputError(
            f"{label} has an unknown layout: {_shapes(arrays)}. Expected observations (T, O) that are not images, "
            "actions (T, A), and flags (T,) or ends of episodes unless each episode is a numbered group. Name the "
            "arrays with --observations, --actions, --reward, --terminated, --truncated, --episode."
        )
    masks = {key: set(np.ravel(arrays[key]).astype("U").tolist()) for key in arrays if key.startswith("mask/")}
    splits = {key.removeprefix("mask/"): members for key, members in masks.items()}  # of robomimic
    if (members := options.members(label, splits)) is not None:
        blocks, splits = {key: block for key, block in blocks.items() if key.rpartition("/")[2] in members}, {}
    notes = notes_of(reader.keys, reader.unread, splits)
    if not (reader.whole or any(reader.keys[role] for role in CUTS)):
        notes[JOINED] = list(reader.keys["terminated"])
    size = sum(int(np.prod(reader.shapes[key])) for key in reader.keys["actions"])
    return Log(reader.episodes(blocks, notes[LEFT_OUT]), reader.keys, size, {}, reader.space, notes=notes)


def _blocks(arrays: Arrays, action: str) -> dict[str, Arrays]:
    """The arrays of each block of steps, by name. Keys of actions match the regular expression `action`.

    A block is a numbered group, `data/demo_0/actions`, as of robomimic, Minari and ManiSkill, also one without actions;
    or arrays of one number, `actions_0`, as of d3rlpy 2, where `observations_0_1` is one of several observations; or
    all arrays, without a name: `actions`, as of D4RL and d3rlpy 1, or `data/action`, as of diffusion policy.
    """
    groups = (re.fullmatch(rf"(.*\D|)\d+/(steps/)?({action})(/.*)?", key) for key in arrays)
    stems = "|".join({re.escape(match[1]) for match in groups if match})
    grouped = rf"(?P<block>({stems})\d+)/(steps/)?(?P<name>.*)(?P<part>)"
    for layout in (
        *([grouped] if any(re.fullmatch(grouped, key) for key in arrays) else []),
        r"(?P<name>.*?[^\d_])_(?P<block>\d+)(_(?P<part>\d+))?",
        r"(?P<block>)((data|meta|steps)/)?(?P<name>.*)(?P<part>)",
    ):
        blocks: dict[str, dict[str, Any]] = {}
        for key in arrays if stems else sorted(arrays, key=natural):
            if match := re.fullmatch(layout, key):
                name = "/".join(filter(None, match.group("name", "part")))
                blocks.setdefault(match["block"], {})[name] = arrays[key]
        if any(re.fullmatch(rf"({action})(/.*)?", key) for block in blocks.values() for key in block):
            break
    names = {block: f"episode {block}" if block.isdecimal() else block for block in sorted(blocks, key=natural)}
    return {name: blocks[block] for block, name in names.items()}


class _Reader:
    """Reads episodes from the blocks of a log, in the layout of most of them.

    Attributes:
        keys: By role, the keys of its arrays in a block.
        shapes: By key, the shape of the rows of observations and actions.
        space: The space of an observation; None for vectors.
        unread: The keys of the usual block's other arrays with a row for every step, such as images.
    """

    def __init__(self, label: str, usual: Arrays, options: LogOptions, whole: bool) -> None:
        self.label, self.options, self.whole = label, options, whole
        self.keys = keys = options.find(label, sorted(usual, key=_place))
        observed = sorted(keys["observations"], key=_place)
        keys["observations"] = observed = [key for key in observed if _is_vector(usual[key])]
        following = [f"next_{key}" for key in observed]  # as `next_obs/arm` of `obs/arm`
        keys["following"] = following if set(following) <= set(usual) else []
        self.shapes = {key: np.shape(usual[key])[1:] for key in (*observed, *keys["actions"])}
        self.shapes |= dict(zip(keys["following"], map(self.shapes.__getitem__, observed), strict=False))
        boxes: dict[tuple[str | int, ...], Box] = {}
        for key in observed:
            names = (key.partition("/")[2] or key).split("/") if len(observed) > 1 else ()
            path = tuple(int(name) if name.isdecimal() else name for name in names)
            boxes[path] = Box(-np.inf, np.inf, self.shapes[key] or (1,))
        several = len(boxes) > 1 or any(len(box.shape) > 1 for box in boxes.values())
        self.space = nested(boxes, Dict, Tuple) if several else None
        rows, used = [np.shape(usual[key])[:1] for key in keys["actions"]], set(chain.from_iterable(keys.values()))
        self.unread = [key for key in usual if key not in used and np.shape(usual[key])[:1] in rows]

    def episodes(self, blocks: Mapping[str, Arrays], left_out: list[str]) -> Iterator[Episode]:
        """The episodes of blocks, in order. A block that is whole or has one more observation than actions is one. One
        that cannot be read is an error, or `left_out` if missing numbers are none."""
        for name, block in blocks.items():
            where = ", ".join(filter(None, (self.label, name)))
            try:
                with reading(where, "episodes", "Name its arrays, or pass them to import_log in Python."):
                    yield from cut(self._read(where, block))
            except InputError as error:
                if self.options.missing == "error" or not self.whole:
                    raise
                left_out.append(f"{name} ({one_line(error)})")

    def _matrix(self, where: str, block: Arrays, role: str) -> np.ndarray:
        """The arrays of a role side by side, (rows, entries)."""
        if lacking := [key for key in self.keys[role] if key not in block]:
            raise InputError(f"{where} has no {', '.join(lacking)}, which others have.")
        arrays = [np.asarray(block[key]) for key in self.keys[role]]
        for key, array in zip(self.keys[role], arrays, strict=True):
            if key in self.shapes and array.shape[1:] != self.shapes[key]:
                raise InputError(
                    f"{where}: the rows of {key} have the shape {array.shape[1:]}, unlike {self.shapes[key]}."
                )
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
        if kind == "episode" and len(names := self.options.identifiers(self.keys)) > 1:
            key, columns = ", ".join(names), [np.ravel(block[name]) for name in names]
            ids = values = np.unique(np.rec.fromarrays(columns), return_inverse=True)[1]
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
        return last

    def _read(self, where: str, block: Arrays) -> dict[str, np.ndarray]:
        """The arrays of a block, as `cut` takes them."""
        roles = ("observations", "following", "actions", "rewards")
        arrays = {role: self._matrix(where, block, role) for role in roles if self.keys[role]}
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
        if bounds is None:
            return arrays
        for role in ("terminated", "truncated") if not self.whole else ():  # simulators go on after a success
            if (within := arrays.get(role, bounds) & ~bounds).any():
                raise InputError(
                    f"{where}: {self.keys[role][0]} is true within an episode, at step {within.argmax()}: expected "
                    "episodes that end there, or as many observations as actions."
                )
        return arrays | {"bounds": bounds}


def _layout(block: Arrays) -> tuple[Any, ...]:
    """The keys of a block, and the shapes of their rows."""
    return tuple((key, np.shape(values)[1:]) for key, values in block.items())


def _place(key: str) -> list[tuple[int, str]]:
    """A sorting key for keys: parts that are numbers are in order of these, others in that of a Dict's keys."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in key.split("/")]


def _is_vector(array: Any) -> bool:
    """Whether the rows of an array are numeric and not images, also not compressed ones."""
    rows = sorted(array.shape[1:])
    image = rows[-2:-1] >= [IMAGE_SIDE] or (array.dtype == np.uint8 and rows >= [IMAGE_SIDE**2])
    return array.ndim > 0 and array.dtype.kind in "fiub" and not image


def _by_path(arrays: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries or groups of arrays as one, with keys such as `obs/position`."""
    flat: dict[str, Any] = {}
    for key, values in arrays.items():
        name = f"{prefix}{key}"
        if isinstance(values, Mapping):
            flat |= _by_path(values, f"{name}/")
        elif isinstance(values, h5py.Dataset):
            flat[name] = values
        else:
            with reading(name, "an array", "Give numpy's arrays."):
                flat[name] = np.asarray(values)
    return flat


def _read_file(path: Path) -> tuple[Arrays, str | None]:
    """The arrays of a file, and the Gymnasium id that it names, if any."""
    with reading(path, path.suffix[1:].lower()):
        if path.suffix.lower() != ".npz":
            file = h5py.File(path, "r")  # closed with the last of its datasets
            environment_id = file.attrs.get("environment_id")
            return _by_path(file), environment_id if isinstance(environment_id, str) else None
        arrays: dict[str, Any] = {}
        with np.load(path, allow_pickle=False) as content:
            for key in content.files:
                with contextlib.suppress(ValueError):  # a pickle, which is not read
                    arrays[key] = content[key]
        return arrays, None


def _shapes(arrays: Arrays) -> str:
    return listed([f"{key} {np.shape(values)} {values.dtype}" for key, values in arrays.items()]) or "no arrays"
