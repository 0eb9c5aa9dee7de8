"""D4RL's HDF5 layout (Fu et al. 2020), version 2: steps end to end, cut into episodes by flags.

`observations` (N, O), `actions` (N, A), `rewards`, `terminals` and `timeouts` (N,) or (N, 1), of any numeric type;
`next_observations` (N, O) if present. Everything else in the file, such as `infos`, is ignored. Where the columns of
observations or actions have names, these are a list in JSON, the attribute `columns` of that array.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from decision_rnn.data.episode import Episode, Missing, is_finite
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.writing import CHUNK
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import counted

DEFLATE = 1032  # the maximum compression factor of HDF5's gzip filter (zlib's technical details)
COLUMNS = "columns"
FINGERPRINT = "decision_rnn_fingerprint"
"""The attribute of files that `write_d4rl` wrote."""
FLAGS = ("terminals", "timeouts")


def read_d4rl(
    path: Path,
    notes: list[str],
    *,
    max_episode_steps: int | None = None,
    observation_dims: Sequence[int] = (),
    missing: Missing = "error",
) -> Iterator[Episode]:
    """The episodes of a file in D4RL's layout, which is read into memory and validated as a whole.

    An episode ends where `terminals | timeouts` is true, and where the next row does not continue it (as at the seam of
    a medium-expert file, where an array was cut). The last episode of a file is usually cut off too: it is neither
    terminated nor truncated. Without `next_observations` the observation after an episode's last action is unknown, and
    the last observation is repeated.

    Args:
        path: The HDF5 file.
        notes: Extended by sentences on which of these cases occurred.
        max_episode_steps: The environment's time limit, which no episode may exceed; None for a file of any task,
            which may lack timeouts.
        observation_dims: The numbers of observation columns that the file may have, of which the first so many as the
            first number says are kept; any if empty.
        missing: With `error`, missing numbers are errors; else the caller treats them.

    Raises:
        InputError: If the file is invalid; the message names the file and the key.
    """
    arrays, exported = _read_arrays(path, missing)
    observations, actions, rewards = (arrays[key] for key in ("observations", "actions", "rewards"))
    if "timeouts" not in arrays and max_episode_steps is None:
        arrays["timeouts"] = np.zeros_like(arrays["terminals"])
        notes.append("it has no timeouts: episodes end only at its terminals")
    steps = rewards.size
    expected = {"observations": 2, "actions": 2, "rewards": 1, "terminals": 1, "timeouts": 1, "next_observations": 2}
    shapes = {key: array.shape for key, array in arrays.items()}
    for key, dims in expected.items():
        if key in arrays and (arrays[key].ndim != dims or len(arrays[key]) != steps or 0 in arrays[key].shape):
            raise InputError(f"{path}: {key} has the wrong shape, expected {dims} dimensions and N > 0: {shapes}")
    following = arrays.get("next_observations", observations)
    columns = observations.shape[1]
    if following.shape != observations.shape or (observation_dims and columns not in observation_dims):
        raise InputError(f"{path}: observations have the wrong shape {shapes}: it is another dataset's file.")
    if "timeouts" not in arrays or not np.isin([arrays[key] for key in FLAGS], (0, 1)).all():
        raise InputError(f"{path}: terminals and timeouts are missing or neither 0 nor 1: expected flags.")
    terminals, timeouts = (arrays[key].astype(bool) for key in FLAGS)

    seams = np.zeros(steps, bool)
    if "next_observations" in arrays:
        before, after = following[:-1], observations[1:]
        differ = (before != after) & ~(np.isnan(before) & np.isnan(after))  # NaN goes on as NaN
        seams[:-1] = differ.any(1)
        seams &= ~terminals & ~timeouts
    else:
        notes.append("it has no next_observations: an episode's last observation stands for what followed")
    if observation_dims and columns > observation_dims[0]:
        observations, following = observations[:, : observation_dims[0]], following[:, : observation_dims[0]]
        notes.append(f"only the first {observation_dims[0]} of {columns} observations are kept, as in the environment")

    flagged = terminals | timeouts
    if (max_episode_steps is not None or not exported) and seams.sum() > (~flagged).sum() // 2:
        raise InputError(f"{path}: next_observations are not the next rows' observations: rows are not in time order.")
    offsets = np.concatenate([[0], np.flatnonzero((flagged | seams)[:-1]) + 1, [steps]])
    lengths = np.diff(offsets)
    if max_episode_steps is not None and lengths.max() > max_episode_steps:
        raise InputError(
            f"{path}: terminals and timeouts leave an episode of {lengths.max()} steps from row "
            f"{offsets[lengths.argmax()]} on, but the environment's limit is {max_episode_steps}. Use a version 2 file."
        )
    partial = ~flagged[offsets[1:] - 1]
    if partial.any():
        notes.append(
            f"{partial.sum()} of {counted(len(partial), 'episode')} ({counted(lengths[partial].sum(), 'step')}) end "
            "without a flag: they are neither terminated nor truncated (--partial drop leaves them out)"
        )
    for start, stop in pairwise(offsets):
        yield Episode(
            np.concatenate([observations[start:stop], following[stop - 1 : stop]]),
            actions[start:stop],
            rewards[start:stop],
            terminated=bool(terminals[stop - 1]),
            truncated=bool(timeouts[stop - 1]),
        )


def read_header(path: Path) -> tuple[str | None, dict[str, list[str]]]:
    """The Gymnasium id that a file names, or None, and the names of its `observations` and `actions` entries."""
    with _opened(path) as file:
        environment_id = file.attrs.get("environment_id")
        names = {}
        for key in ("observations", "actions"):
            with contextlib.suppress(TypeError, ValueError, RecursionError, KeyError, IndexError):
                listed = json.loads(file[key].attrs[COLUMNS])
                if len(listed) == file[key].shape[1] and all(isinstance(name, str) for name in listed):
                    names[key] = list(listed)
    return environment_id if isinstance(environment_id, str) else None, names


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    if not path.is_file():
        raise InputError(f"{path} is not a file: name an HDF5 file.")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except InputError:
        raise
    except Exception as error:  # h5py raises many types for a damaged file
        raise InputError(f"{path} cannot be read as HDF5 ({one_line(error)}). Fetch or write it again.") from None


def _read_arrays(path: Path, missing: Missing) -> tuple[dict[str, np.ndarray], bool]:
    """The arrays of a file, and whether `write_d4rl` wrote it."""
    with _opened(path) as file:
        keys = ["observations", "actions", "rewards", "terminals"]
        keys += [key for key in ("timeouts", "next_observations") if key in file]
        return {key: _read_array(path, file, key, missing) for key in keys}, FINGERPRINT in file.attrs


def _read_array(path: Path, file: h5py.File, key: str, missing: Missing) -> np.ndarray:
    """The numbers at `key`, (N, 1) as (N,) if it is no matrix; they must be in the file itself."""
    item = file[key] if isinstance(file.get(key, getlink=True), h5py.HardLink) else None
    if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual or item.dtype.kind not in "fiub":
        raise InputError(f"{path} has no {key}: expected an array of numbers in the file itself.")
    if item.size is None or item.size * item.dtype.itemsize > DEFLATE * path.stat().st_size:
        raise InputError(f"{path}: {key} has shape {item.shape}, too much for the file's size. Fetch it again.")
    values: np.ndarray = item[()]
    if (missing == "error" or key in FLAGS) and not (finite := is_finite(values)).all():
        row = np.argwhere(~finite)[0][0] if values.ndim else 0
        raise InputError(f"{path}: {key} is not finite in float32 in row {row}. Fix it, or drop or end the episode.")
    return values[:, 0] if key in ("rewards", *FLAGS) and values.shape[1:] == (1,) else values


def write_d4rl(path: Path, store: EpisodeStore) -> None:
    """Write a store in D4RL's layout to the new file `path`, atomically.

    Rewards are float64: with float32 the returns-to-go would differ in the last bit. Raises InputError if the file
    exists, or if a partial episode could not be separated from the next one.
    """
    first = store.file[store.first_rows, store.columns["observation"]]
    unflagged = ~(store.terminated | store.truncated)[:-1]
    if (unflagged & (store.final_observations[:-1] == first[1:]).all(1)).any():
        raise InputError(
            f"{store.path} has a partial episode that ends as the next one begins, which D4RL's layout cannot hold. "
            "Export it as minari."
        )
    if path.exists():
        raise InputError(f"{path} exists: remove it, or name another file.")
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs[FINGERPRINT] = store.fingerprint
        if store.environment_id is not None:
            file.attrs["environment_id"] = store.environment_id
        for key, flags in zip(FLAGS, (store.terminated, store.truncated), strict=True):
            column = np.zeros(store.steps, bool)
            column[store.offsets[1:] - 1] = flags
            file[key] = column
        start, pending = 0, list[dict[str, Any]]()  # many episodes at a time: writing few rows is slow
        for stop, episode in zip(store.offsets[1:], store, strict=True):
            observations = {"observations": episode.observations[:-1], "next_observations": episode.observations[1:]}
            pending.append({**observations, "actions": episode.actions, "rewards": episode.rewards})
            if stop - start >= CHUNK or stop == store.steps:
                for key in pending[0]:
                    rows = np.concatenate([arrays[key] for arrays in pending])
                    file.require_dataset(key, (store.steps, *rows.shape[1:]), rows.dtype)[start:stop] = rows
                start, pending = stop, []
        for key in ("observations", "actions"):
            if names := store.entry_names(key):
                file[key].attrs[COLUMNS] = json.dumps(names)
