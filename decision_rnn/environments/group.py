"""Environments that are stepped together."""

import contextlib
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
        results = [env.reset(seed=seed) for env, seed in zip(self.environments, seeds, strict=True)]
        return [observation for observation, _ in results]

    def step(
        self, rows: np.ndarray, actions: Any
    ) -> tuple[Sequence[Any], np.ndarray, np.ndarray, np.ndarray, Sequence[dict[str, Any]]]:
        """One step of the environments with these numbers: observations, rewards (rows,) float64, whether the episodes
        are terminated and truncated, each (rows,) bool, and infos."""
        results = [self.environments[row].step(action) for row, action in zip(rows, actions, strict=True)]
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
        # Each reward may be an array of one number.
        numbers = np.array(rewards, np.float64).reshape(len(rows))
        ends = [np.array(flags, bool).reshape(len(rows)) for flags in (terminated, truncated)]
        return observations, numbers, ends[0], ends[1], infos

    def close(self) -> None:
        """Close the environments, all of them even if that of one fails."""
        with contextlib.ExitStack() as stack:
            for environment in self.environments:
                stack.callback(environment.close)
