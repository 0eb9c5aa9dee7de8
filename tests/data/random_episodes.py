"""Episodes of noise, which the data tests share."""

import numpy as np

from decision_rnn.data.store.episode import Episode


def random_episode(generator: np.random.Generator, length: int, terminated: bool, truncated: bool) -> Episode:
    """An episode of noise with 4 observations and 2 actions."""
    return Episode(
        generator.normal(3, 2, (length + 1, 4)),
        generator.uniform(-1, 1, (length, 2)).astype(np.float32),
        generator.normal(1, 1, length),
        terminated,
        truncated,
    )
