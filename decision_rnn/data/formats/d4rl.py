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

import h5py
import numpy as np

from decision_rnn.data.cache import reading
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats import check_arrays
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import counted

COLUMNS = "columns"
FLAGS = ("terminals", "timeouts")


def read_d4rl(
    path: Path, notes: list[str], max_episode_steps: int | None = None, observation_dims: Sequence[int] = ()
) -> Iterator[Episode]:
    """The episodes of a file in D4RL's layout, which is read into memory.

    An episode ends where `terminals | timeouts` is true, and where the next row does not continue it (as at the seam of
    a medium-expert file, where an array was cut). The last episode of a file is usually cut off too: it is neither
    terminated nor truncated. Without `next_observations` the observation after an episode's last action is unknown, and
    the last observation is repeated.

    Args:
        path: The HDF5 file.
        notes: Extended by sentences on which of these cases occurred.
        max_episode_steps: The environment's time limit, which no episode may exceed; None for a file of any task.
        observation_dims: The numbers of observation columns that the file may have, of which the first so many as the
            first number says are kept; any if empty.

    Raises:
        InputError: If the file is invalid; the message names the file and the key.
    """
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        keys = ("observations", "actions", "rewards", "terminals")
        optional = [key for key in ("timeouts", "next_observations") if key in file]
        arrays: dict[str, np.ndarray] = {key: file[key][()] for key in (*keys, *optional)}
        for key in ("rewards", *FLAGS):
            if key in arrays and arrays[key].shape[1:] == (1,):
                arrays[key] = arrays[key][:, 0]
        steps, columns, *_ = (*np.shape(arrays["observations"]), 0, 0)
    if "timeouts" not in arrays:
        arrays["timeouts"] = np.zeros(steps, bool)
        notes.append("it has no timeouts: episodes end only at its terminals")
    width = columns if columns in observation_dims or not observation_dims else observation_dims[0]
    rows, vectors = (steps, width), (steps,)
    shapes = {"observations": rows, "next_observations": rows, "actions": (steps, None), "rewards": vectors}
    check_arrays(path, arrays, {**shapes, "terminals": vectors, "timeouts": vectors})
    observations, terminals, timeouts = arrays["observations"], *(arrays[key].astype(bool) for key in FLAGS)
    following = arrays.get("next_observations", observations)

    flagged, seams = terminals | timeouts, np.zeros(steps, bool)
    if "next_observations" in arrays:
        before, after = following[:-1], observations[1:]
        differ = (before != after) & ~(np.isnan(before) & np.isnan(after))  # NaN goes on as NaN
        seams[:-1] = differ.any(1) & ~flagged[:-1]
    else:
        notes.append("it has no next_observations: an episode's last observation stands for what followed")
    if observation_dims and columns > observation_dims[0]:
        observations, following = observations[:, : observation_dims[0]], following[:, : observation_dims[0]]
        notes.append(f"only the first {observation_dims[0]} of {columns} observations are kept, as in the environment")

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
            arrays["actions"][start:stop],
            arrays["rewards"][start:stop],
            terminated=bool(terminals[stop - 1]),
            truncated=bool(timeouts[stop - 1]),
        )


def read_header(path: Path) -> tuple[str | None, dict[str, list[str]]]:
    """The Gymnasium id that a file names, or None, and the names of its `observations` and `actions` entries."""
    names = {}
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        environment_id = file.attrs.get("environment_id")
        for key in ("observations", "actions"):
            with contextlib.suppress(TypeError, ValueError, KeyError, IndexError):  # the attribute of another tool
                listed = json.loads(file[key].attrs[COLUMNS])
                if len(listed) == file[key].shape[1]:
                    names[key] = list(map(str, listed))
    return environment_id if isinstance(environment_id, str) else None, names


def write_d4rl(path: Path, store: EpisodeStore) -> None:
    """Write a store in D4RL's layout to the new file `path`, atomically.

    Rewards are float64: with float32 the returns-to-go would differ in the last bit. Raises InputError if a partial
    episode could not be separated from the next one.
    """
    first, last = store.observations[store.offsets[:-1]], store.offsets[1:] - 1
    unflagged = ~(store.terminated | store.truncated)[:-1]
    if (unflagged & (store.final_observations[:-1] == first[1:]).all(1)).any():
        raise InputError(
            f"{store.path} has a partial episode that ends as the next one begins, which D4RL's layout cannot hold. "
            "Export it as minari."
        )
    following = np.roll(store.observations, -1, axis=0)
    following[last] = store.final_observations
    with new_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["decision_rnn_fingerprint"] = store.fingerprint
        if store.environment_id is not None:
            file.attrs["environment_id"] = store.environment_id
        for key, flags in zip(FLAGS, (store.terminated, store.truncated), strict=True):
            file[key] = np.zeros(store.steps, bool)
            file[key][last] = flags
        file["observations"], file["next_observations"], file["actions"] = store.observations, following, store.actions
        file["rewards"] = np.concatenate([episode.rewards for episode in store])
        for key in ("observations", "actions"):
            if names := store.entry_names(key):
                file[key].attrs[COLUMNS] = json.dumps(names)
