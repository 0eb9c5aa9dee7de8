"""Minari datasets as Minari itself writes them."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from decision_rnn.data.episode import Episode
from decision_rnn.data.sources.minari import dataset_folder


def boxes(observation_dim: int, action_dim: int) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """The spaces of vectors."""
    return tuple(gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32) for size in (observation_dim, action_dim))


def publish(dataset_id: str, episodes: list[Episode], environment: Any = "Hopper-v5", **metadata: Any) -> Path:
    """Have Minari itself write a dataset; returns its data folder."""
    buffers = []
    for episode in episodes:
        ends = np.zeros((2, len(episode.rewards)), bool)
        ends[:, -1] = episode.terminated, episode.truncated
        buffers.append(
            EpisodeBuffer(
                observations=list(episode.observations),
                actions=list(episode.actions),
                rewards=list(episode.rewards),
                terminations=list(ends[0]),
                truncations=list(ends[1]),
            )
        )
    minari.create_dataset_from_buffers(dataset_id, buffers, env=environment, **metadata)
    return dataset_folder(dataset_id) / "data"


def edit(folder: Path, **changes: Any) -> None:
    """Change entries of the metadata in a dataset's data folder."""
    file = folder / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def specification(environment_id: str = "Hopper-v5", **changes: Any) -> str:
    """The `env_spec` of a registered environment, with changes."""
    return json.dumps(json.loads(gymnasium.spec(environment_id).to_json()) | changes)


def play(environment_id: str, count: int = 3, seed: int = 0) -> list[Episode]:
    """Short random episodes, truncated after 15 steps."""
    environment = gymnasium.make(environment_id)
    environment.action_space.seed(seed)
    episodes = []
    for index in range(seed, seed + count):
        observations, actions, rewards = [environment.reset(seed=index)[0]], [], []
        terminated = False
        while not terminated and len(rewards) < 15:
            actions.append(environment.action_space.sample())
            observation, reward, terminated, _, _ = environment.step(actions[-1])
            observations.append(observation)
            rewards.append(float(reward))
        arrays = np.stack(observations), np.stack(actions), np.array(rewards)
        episodes.append(Episode(*arrays, terminated, not terminated, index))
    return episodes
