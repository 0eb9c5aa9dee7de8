"""Files in D4RL's layout, written by h5py as D4RL's wiki describes them."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from decision_rnn.data.episode import Episode


def arrays_of(episodes: list[Episode]) -> dict[str, Any]:
    """The arrays of a version 2 file: float32, flags bool, episodes end to end."""
    last = [np.arange(len(e.rewards)) == len(e.rewards) - 1 for e in episodes]
    return {
        "observations": np.concatenate([e.observations[:-1] for e in episodes]).astype(np.float32),
        "next_observations": np.concatenate([e.observations[1:] for e in episodes]).astype(np.float32),
        "actions": np.concatenate([e.actions for e in episodes]).astype(np.float32),
        "rewards": np.concatenate([e.rewards for e in episodes]).astype(np.float32),
        "terminals": np.concatenate([flags & e.terminated for flags, e in zip(last, episodes, strict=True)]),
        "timeouts": np.concatenate([flags & e.truncated for flags, e in zip(last, episodes, strict=True)]),
    }


def write(path: Path, arrays: dict[str, Any]) -> Path:
    """Write arrays as D4RL does, compressed, with policy metadata that readers must ignore."""
    with h5py.File(path, "w") as file:
        for key, values in arrays.items():
            file.create_dataset(key, data=values, compression="gzip")
        file["metadata/policy/nonlinearity"] = "relu"
        file["infos/qpos"] = np.zeros((3, 6))
    return path


def hopper_episodes(kinds: list[tuple[int, bool, bool]], seed: int = 0) -> list[Episode]:
    """Episodes of float32 noise in Hopper's shapes, one per (length, terminated, truncated)."""
    generator = np.random.default_rng(seed)
    return [
        Episode(
            generator.normal(0, 1, (length + 1, 11)).astype(np.float32),
            generator.uniform(-1, 1, (length, 3)).astype(np.float32),
            generator.normal(3, 1, length).astype(np.float32),
            terminated,
            truncated,
        )
        for length, terminated, truncated in kinds
    ]


def make_file(path: Path, seed: int = 0) -> Path:
    """A file of three Hopper episodes, the last one partial."""
    return write(path, arrays_of(hopper_episodes([(7, True, False), (9, False, True), (4, False, False)], seed)))
