"""Environments that are stepped together."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.utils.errors import one_line
from decision_rnn.utils.messages import warn


def environment_name(environment: Any) -> str:
    """The id of an environment, or the name of its class if it has no id."""
    spec = getattr(environment, "spec", None)
    return getattr(spec, "id", None) or type(getattr(environment, "unwrapped", environment)).__name__


@contextlib.contextmanager
def closing(environment: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The environment, closed when the block ends; an error of `close` is only a warning, since the work is done."""
    try:
        yield environment
    finally:
        try:
            environment.close()
        except Exception as error:  # the environment's code can raise anything
            warn(
                f"warning: {environment_name(environment)} cannot be closed ({type(error).__name__}: {one_line(error)})"
            )


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
        return observations, numbers, ends[0], ends[1], [info or {} for info in infos]

    def close(self) -> None:
        """Close the environments."""
        for environment in self.environments:
            with closing(environment):
                pass
