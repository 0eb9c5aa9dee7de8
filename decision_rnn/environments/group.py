"""Environments that are stepped together."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np


class Group:
    """Environments with the same spaces that are stepped together, one after another.

    Attributes:
        environment: One of them.
    """

    def __init__(self, environments: Sequence[gymnasium.Env]) -> None:
        self.environments, self.environment = environments, environments[0]

    def reset(self, seeds: Sequence[int | None]) -> Any:
        """The first observations of an episode in each environment."""
        return [env.reset(seed=seed)[0] for env, seed in zip(self.environments, seeds, strict=True)]

    def step(
        self, rows: np.ndarray, actions: Any
    ) -> tuple[Sequence[Any], np.ndarray, np.ndarray, np.ndarray, Sequence[dict[str, Any]]]:
        """One step of the environments with these numbers: observations, rewards (rows,) float64, whether the episodes
        are terminated and truncated, each (rows,) bool, and infos."""
        results = [self.environments[row].step(action) for row, action in zip(rows, actions, strict=True)]
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
        numbers = np.array(rewards, np.float64).reshape(len(rows))  # each may be an array of one number
        return observations, numbers, np.array(terminated, bool), np.array(truncated, bool), infos

    def close(self) -> None:
        """Close the environments."""
        for environment in self.environments:
            environment.close()
