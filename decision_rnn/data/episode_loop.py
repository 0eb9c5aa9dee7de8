"""The episode loop: everything here that plays episodes, to record, to score or to watch them, steps through it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

DEFAULT_MAX_STEPS = 10_000
"""Largest number of steps of an episode in an environment that is registered without a limit."""

Policy = Callable[[list[Any], np.ndarray, np.ndarray | None], Any]
"""Called with the observations of the environments that are still playing, the rewards of their previous actions (0 at
first), float64, and which of the previous call's rows they are, (rows,) int64, or None for all of them. Returns
their actions, one after the other."""


class Step(NamedTuple):
    """One step of the environments that were still playing.

    Attributes:
        rows: (playing,) int64, their numbers.
        actions: (playing, ...), their actions.
        observations: Their next observations; the last ones where `over`.
        rewards: (playing,) float64.
        terminated: (playing,) bool.
        truncated: (playing,) bool.
        cut: Whether episodes that are not over end here all the same, since they have reached the largest length.
    """

    rows: np.ndarray
    actions: Any
    observations: list[Any]
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    cut: bool

    @property
    def over(self) -> np.ndarray:
        """(playing,) bool, true where the environment has ended the episode."""
        return self.terminated | self.truncated


def play_together(
    environments: Sequence[gymnasium.Env],
    observations: Sequence[Any],
    policy: Policy,
    max_steps: int | None = None,
) -> Iterator[Step]:
    """Play one episode in each environment, all stepped together; an environment is left out once its episode is over.

    Args:
        environments: The environments, already reset. They are not closed.
        observations: What their resets returned.
        policy: Chooses the actions.
        max_steps: The largest length of an episode; None for no limit but the environments' own.
    """
    playing, rows, kept = list(environments), np.arange(len(environments)), None
    current, rewards, length = list(observations), np.zeros(len(environments)), 0
    while playing:
        actions = policy(current, rewards, kept)
        results = [environment.step(action) for environment, action in zip(playing, actions, strict=True)]
        following, earned, terminated, truncated, _ = zip(*results, strict=True)
        current, rewards, length = list(following), np.array(earned, np.float64).reshape(-1), length + 1
        step = Step(
            *(rows, actions, current, rewards, np.array(terminated, bool), np.array(truncated, bool)),
            cut=length == max_steps,
        )
        yield step
        if step.cut:
            return
        kept = None
        if step.over.any():
            kept = np.flatnonzero(~step.over)
            rows, rewards = rows[kept], rewards[kept]
            playing, current = [playing[row] for row in kept], [current[row] for row in kept]
