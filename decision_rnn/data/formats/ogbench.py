"""OGBench's npz layout (Park et al. 2025): the states of all episodes end to end.

`observations` (rows, states), `actions` (rows, actions) and `terminals` (rows,), true at the last row of an episode,
whose action is not of it. `qpos`, `qvel` and, for buttons, `button_states` are of the simulation; OGBench computes
rewards from them.
"""

import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from decision_rnn.data.cache import reading
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats import check_arrays
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.writing import write_header
from decision_rnn.environments.ogbench import ID, ORACLE, TASKS
from decision_rnn.environments.ogbench.environment import goal_episode
from decision_rnn.environments.ogbench.rewards import simulated
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import new_file

KEYS = ("observations", "actions", "terminals")
LEFT_OUT = "qvel is left out, and qpos too but for mazes without teleports: states do not hold all of them"
"""What is not in files that `write_ogbench` writes, for the user."""


def read_ogbench(file: Path, states: int, actions: int) -> Iterator[Episode]:
    """The episodes of a file with states and actions of so many numbers.

    Raises:
        InputError: Naming the file, if it cannot be read so.
    """
    with reading(file, "OGBench's npz"), np.load(file, allow_pickle=False) as content:
        arrays = {key: content[key] for key in KEYS}
        rows = len(arrays["terminals"])
    shapes = ((rows, states), (rows, actions), (rows,))
    check_arrays(file, arrays, dict(zip(KEYS, shapes, strict=True)))
    for begin, end in pairwise([0, *(np.flatnonzero(arrays["terminals"]) + 1).tolist()]):
        yield goal_episode(arrays["observations"][begin:end].astype(np.float64), arrays["actions"][begin : end - 1])


def write_ogbench(path: Path, store: EpisodeStore) -> None:
    """Write a store of one of `TASKS`, with goals or a single one, to the new file `path`, atomically.

    An episode's last action is zero. Rewards and goals are not in the layout. Raises InputError if the store is of
    another environment.
    """
    match = ID.fullmatch(store.environment_id or "")
    if not match or match[1] not in TASKS:
        raise InputError(
            f"{store.path} is of {store.environment_id or 'no environment'}, which is none of OGBench's tasks. Export "
            "it as minari or d4rl."
        )
    task, size = match[1], TASKS[match[1]].states
    states = slice(-size, None) if match[2] == ORACLE else slice(size)
    with new_file(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, example in _columns(store[0], task, states).items():  # the file may be larger than the memory
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                write_header(file, example.dtype.type, (store.steps + len(store), *example.shape[1:]))
                for episode in store:
                    file.write(_columns(episode, task, states)[key].tobytes())


def _columns(episode: Episode, task: str, columns: slice) -> dict[str, np.ndarray]:
    """The arrays of an episode of T steps, (T + 1, ...), by their names in the file; its state is in these columns."""
    states = episode.observations[:, columns]
    values = states, np.pad(episode.actions, ((0, 1), (0, 0))), np.arange(len(states)) == len(states) - 1
    arrays = dict(zip(KEYS, values, strict=True))
    key = "qpos" if task.startswith("pointmaze") else "button_states"
    simulation = simulated(task, states)[key]
    # Of a teleport, the state is the place before it, and qpos the one after it.
    return {**arrays, key: simulation} if simulation.size and task != "pointmaze-teleport" else arrays
