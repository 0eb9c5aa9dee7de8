"""Minari datasets as Minari itself writes them."""

from pathlib import Path
from typing import Any

import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from decision_rnn.data.formats.minari import dataset_folder
from decision_rnn.data.store.episode import Episode


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
