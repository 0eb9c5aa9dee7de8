"""Episodes of noise, which the data tests share."""

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.data.store import EpisodeStore


def random_episode(generator: np.random.Generator, length: int, terminated: bool, truncated: bool) -> Episode:
    """An episode of noise with 4 observations and 2 actions."""
    return Episode(
        generator.normal(3, 2, (length + 1, 4)),
        generator.uniform(-1, 1, (length, 2)).astype(np.float32),
        generator.normal(1, 1, length),
        terminated,
        truncated,
    )


def rewards_of(store: EpisodeStore) -> np.ndarray:
    """The rewards of a store's episodes end to end, (steps,) float64: its table has them rounded."""
    return np.concatenate([episode.rewards for episode in store])
