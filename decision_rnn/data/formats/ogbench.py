"""OGBench's npz layout (Park et al. 2025): the states of all episodes end to end.

`observations` (rows, states), `actions` (rows, actions) and `terminals` (rows,), true at the last row of an episode,
whose action is not of it. `qpos`, `qvel` and, for buttons, `button_states` are of the simulation; OGBench computes
rewards from them.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.writing import npy_header
from decision_rnn.environments.ogbench import ID, ORACLE, TASKS
from decision_rnn.environments.ogbench.environment import goal_episode
from decision_rnn.environments.ogbench.rewards import simulated
from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import new_file

KEYS = ("observations", "actions", "terminals")
LEFT_OUT = "qvel is left out, and qpos too but for mazes without teleports: states do not hold all of them"
"""What is not in files that `write_ogbench` writes, for the user."""


def read_ogbench(file: Path, states: int, actions: int) -> Iterator[Episode]:
    """The episodes of a file with states and actions of so many numbers.

    Raises:
        InputError: Naming the file, if it cannot be read so.
    """
    try:
        with np.load(file, allow_pickle=False) as content:
            seen, taken, last = (content[key] for key in KEYS)
    except KeyError as error:
        raise InputError(f"{file} has no {str(error.args[0]).split()[0]}: it is no dataset of OGBench") from None
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} cannot be read as an npz file ({one_line(error)})") from None
    rows = len(seen) if seen.ndim else 0
    for key, array, shape in zip(KEYS, (seen, taken, last), ((rows, states), (rows, actions), (rows,)), strict=True):
        if array.shape != shape or array.dtype.kind not in "fiub":
            found = f"shape {array.shape} and type {array.dtype}"
            raise InputError(f"{file}: {key} has {found} where numbers of shape {shape} are needed")
    ends = np.flatnonzero(last) + 1
    if not len(ends) or ends[-1] != rows or np.diff(ends, prepend=0).min() < 2:
        raise InputError(f"{file}: terminals must be true at the last row of every episode, of at least two rows")
    begin = 0
    for end in ends.tolist():
        yield goal_episode(seen[begin:end].astype(np.float64), taken[begin : end - 1])
        begin = end


def write_ogbench(path: Path, store: EpisodeStore) -> None:
    """Write a store of one of `TASKS`, with goals or a single one, to the new file `path`, atomically.

    An episode's last action is zero. Rewards and goals are not in the layout. Raises InputError if the store is of
    another environment.
    """
    found = ID.fullmatch(store.environment_id or "")
    if not found or found[1] not in TASKS:
        raise InputError(
            f"{store.path} is of {store.environment_id or 'no environment'}, which is none of OGBench's tasks: export "
            "it as minari or d4rl"
        )
    task, size = found[1], TASKS[found[1]].states
    states = slice(-size, None) if found[2] == ORACLE else slice(size)
    first, rows = _columns(store[0], task, states), store.steps + store.num_episodes
    with new_file(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, example in first.items():  # one after the other: the file may be larger than the memory
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                file.write(npy_header(example.dtype.type, (rows, *example.shape[1:])))
                for episode in store:
                    file.write(_columns(episode, task, states)[key].tobytes())


def _columns(episode: Episode, task: str, columns: slice) -> dict[str, np.ndarray]:
    """The arrays of an episode of T steps, (T + 1, ...), by their names in the file; its state is in these columns."""
    states = episode.observations[:, columns]
    arrays = states, np.pad(episode.actions, ((0, 1), (0, 0))), np.arange(len(states)) == len(states) - 1
    key = "qpos" if task.startswith("pointmaze") else "button_states"
    known = simulated(task, states)[key]
    if (
        not known.size or task == "pointmaze-teleport"
    ):  # where a state is the place before a teleport, and qpos after it
        return dict(zip(KEYS, arrays, strict=True))
    return {**dict(zip(KEYS, arrays, strict=True)), key: known}
