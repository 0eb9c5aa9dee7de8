"""A car that swings itself up a hill: an environment, a policy that solves it, a small backbone."""

import numpy as np

CAR = "MountainCarContinuous-v0"
SMALL = {"name": "mingru", "width": 16, "layers": 1}


def push(observation: np.ndarray) -> np.ndarray:
    """The way the car already rolls, of one car or of many."""
    return np.where(observation[..., 1:] > 0, 1.0, -1.0)
