"""Episodes, files and checks that the data tests share."""

import json
import multiprocessing
import os
import pickle
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import torch
from minari.data_collector import EpisodeBuffer

from decision_rnn.data.sources.minari import dataset_folder
from decision_rnn.data.store import EpisodeStore, store_folder
from decision_rnn.data.stream import Batch
from decision_rnn.environments.episode import Episode

Ends = tuple[int, bool, bool]
"""Of an episode: its length, and whether it terminated and was truncated."""
KINDS: list[Ends] = [(7, True, False), (9, False, True), (4, False, False)]


def random_episode(generator: np.random.Generator, kind: Ends, sizes: tuple[int, int] = (4, 2)) -> Episode:
    """An episode of noise, in float32 but for its rewards."""
    length, *ends = kind
    observations = generator.normal(1, 2, (length + 1, sizes[0])).astype(np.float32)
    actions = generator.uniform(-1, 1, (length, sizes[1])).astype(np.float32)
    return Episode(observations, actions, generator.normal(3, 1, length), *ends)


def hopper_episodes(kinds: list[Ends] = KINDS, seed: int = 0) -> list[Episode]:
    """Episodes of noise in Hopper's shapes, with rewards that float32 holds."""
    generator = np.random.default_rng(seed)
    episodes = [random_episode(generator, kind, (11, 3)) for kind in kinds]
    for episode in episodes:
        episode.rewards[:] = episode.rewards.astype(np.float32)
    return episodes


def rewards_of(store: EpisodeStore) -> np.ndarray:
    """The rewards of a store's episodes end to end, (steps,) float64: its table has them rounded."""
    return np.concatenate([episode.rewards for episode in store])


def written(path: Path, episodes: list[Episode], environment_id: str | None = "Hopper-v5") -> EpisodeStore:
    """A store of these episodes."""
    return EpisodeStore.write(path, episodes, environment_id=environment_id, source={"notes": ["one"]})


def assert_equal(read: Any, expected: Any) -> None:
    """Assert that episodes are equal bit for bit."""
    for ours, theirs in zip(read, expected, strict=True):
        for key in ("observations", "actions", "rewards", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(ours, key), getattr(theirs, key), err_msg=key)


def assert_same(one: Batch, other: Batch) -> None:
    """Assert that two batches are equal bit for bit."""
    assert all(torch.equal(mine, right) for mine, right in zip(one, other, strict=True))


def arrays_of(episodes: list[Episode]) -> dict[str, Any]:
    """The arrays of a D4RL file, version 2: float32, flags bool, episodes end to end."""
    last = [np.arange(len(e.rewards)) == len(e.rewards) - 1 for e in episodes]
    return {
        "observations": np.concatenate([e.observations[:-1] for e in episodes]),
        "next_observations": np.concatenate([e.observations[1:] for e in episodes]),
        "actions": np.concatenate([e.actions for e in episodes]),
        "rewards": np.concatenate([e.rewards for e in episodes]).astype(np.float32),
        "terminals": np.concatenate([flags & e.terminated for flags, e in zip(last, episodes, strict=True)]),
        "timeouts": np.concatenate([flags & e.truncated for flags, e in zip(last, episodes, strict=True)]),
    }


def write_hdf5(path: Path, arrays: dict[str, Any]) -> Path:
    """Write arrays as D4RL does, compressed, with policy metadata that readers must ignore."""
    with h5py.File(path, "w") as file:
        for key, values in arrays.items():
            file.create_dataset(key, data=values, compression="gzip")
        file["metadata/policy/nonlinearity"] = "relu"
        file["infos/qpos"] = np.zeros((3, 6))
    return path


def hopper_file(path: Path, seed: int = 0) -> Path:
    """A D4RL file of three Hopper episodes, the last one partial."""
    return write_hdf5(path, arrays_of(hopper_episodes(seed=seed)))


def publish(dataset_id: str, episodes: list[Episode], environment: Any = "Hopper-v5", **metadata: Any) -> Path:
    """Have Minari itself write a dataset; returns its data folder."""
    buffers = []
    for episode in episodes:
        last = np.arange(len(episode.rewards)) == len(episode.rewards) - 1
        steps = {"observations": episode.observations, "actions": episode.actions, "rewards": episode.rewards}
        ends = {"terminations": last & episode.terminated, "truncations": last & episode.truncated}
        buffers.append(EpisodeBuffer(**{key: list(values) for key, values in (steps | ends).items()}))
    minari.create_dataset_from_buffers(dataset_id, buffers, env=environment, **metadata)
    return dataset_folder(dataset_id) / "data"


def edit(folder: Path, **changes: Any) -> None:
    """Change entries of the metadata in a Minari dataset's data folder."""
    file = folder / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def specification(environment_id: str = "Hopper-v5", **changes: Any) -> str:
    """The `env_spec` of a registered environment, with changes."""
    return json.dumps(json.loads(gymnasium.spec(environment_id).to_json()) | changes)


class Payload:
    """Creates the folder `mark` when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def pickled_objects(mark: Path) -> np.ndarray:
    """Three pickles as byte strings of variable length, as HDF5 stores Python objects."""
    objects = np.empty(3, h5py.vlen_dtype(np.uint8))
    for index in range(len(objects)):
        objects[index] = np.frombuffer(pickle.dumps(Payload(mark)), np.uint8)
    return objects


def assert_nothing_made(folder: Path) -> None:
    """No store in the cache, not even a part of one, and no mark of executed code in `folder`."""
    assert [path for path in store_folder("").rglob("*") if path.is_file()] == []
    assert not (folder / "mark").exists()


def forked(function: Callable[..., object], *arguments: object) -> ForkProcess:
    """A process that calls a function, and whose changes of modules do not reach this one."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process
