"""Dark Key-to-Door, learnt in context, as in Algorithm Distillation (Laskin et al. 2022).

A key and a door are somewhere in a room of 9 x 9 places, and neither is seen. An agent finds them by trying, and finds
them at once in later episodes if it remembers: an episode of this environment is a whole history of inner episodes in
one room. The data are scripted as in corl-team/ad-eps: an agent that knows the places, and whose noise decays over the
history from random actions to none (Zisman et al. 2023).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import permutations
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete

from decision_rnn.environments.recipe import ScriptedRecipe

SIZE = 9
STEPS = 50
"""Steps of an inner episode."""
EPISODES = 400
"""Inner episodes of a history in evaluation: four times as many as in the longest of the data."""
TRAINING_TASKS = 500
STAY, UP, RIGHT, DOWN, LEFT = range(5)
MOVES = {STAY: (0, 0), UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}

Place = tuple[int, int]
"""Row and column."""


@cache
def tasks() -> tuple[tuple[Place, Place], ...]:
    """The places of key and door in every task, which are two places: the first 500 are for training, the 5,980 others
    for evaluation. Their order is that of their hashes, the same on every machine."""
    places = [(row, column) for row in range(SIZE) for column in range(SIZE)]
    return tuple(sorted(permutations(places, 2), key=lambda task: sha256(repr(task).encode()).digest()))


class DarkKeyToDoor(gymnasium.Env[np.ndarray, Any]):
    """A history of inner episodes of 50 steps in one room; each begins at a random place.

    An observation is the row and the column of the agent, whether its last step was rewarded, and whether an inner
    episode has just begun. The actions are to stay, up, right, down and left. In an inner episode, reaching the key
    earns 1, and then reaching the door another 1. The rewards of the environment are divided by the number of inner
    episodes, so that the return of a history is the mean return of its inner episodes, from 0 to 2.

    The step that ends an inner episode returns the first observation of the next, and its info has the
    `episode_return` of the one that has ended. The last one ends the history: truncated.

    Args:
        episodes: Inner episodes of a history.
        task: The places of key and door; by default every reset draws them from the tasks that are not in the data.
    """

    observation_space = MultiDiscrete([SIZE, SIZE, 2, 2])
    action_space = Discrete(5)

    def __init__(self, episodes: int = EPISODES, task: tuple[Place, Place] | None = None) -> None:
        self.episodes = episodes
        self.task = task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(TRAINING_TASKS, len(tasks())))
        self.key, self.door = self.task or tasks()[drawn]
        self.time = 0
        self._begin()
        return self._observation(0), {}

    def _begin(self) -> None:
        """Begin an inner episode."""
        row, column = self.np_random.integers(SIZE, size=2).tolist()
        self.place = (row, column)
        self.earned = 0

    @property
    def goal(self) -> Place | None:
        """The place to go to next; None once the door is open."""
        return (self.key, self.door, None)[self.earned]

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        (row, column), (down, right) = self.place, MOVES[int(action)]
        self.place = (min(max(row + down, 0), SIZE - 1), min(max(column + right, 0), SIZE - 1))
        self.time += 1
        rewarded = self.place == self.goal
        self.earned += rewarded
        info = {}
        if self.time % STEPS == 0:
            info["episode_return"] = self.earned
            self._begin()
        return self._observation(rewarded), rewarded / self.episodes, False, self.time == STEPS * self.episodes, info

    def _observation(self, rewarded: int) -> np.ndarray:
        return np.array([*self.place, rewarded, self.time % STEPS == 0], np.int64)


def approach(room: DarkKeyToDoor) -> int:
    """The scripted action: to the row of the key and then to its column, then so to the door, and stay there."""
    (row, column), (goal_row, goal_column) = room.place, room.goal or room.place
    if row != goal_row:
        return DOWN if goal_row > row else UP
    if column != goal_column:
        return RIGHT if goal_column > column else LEFT
    return STAY  # perhaps on the key, where an inner episode has begun: it is taken by any step that ends there


@dataclass(frozen=True, kw_only=True)
class DarkKeyToDoorRecipe(ScriptedRecipe):
    """A history for each training task, of 50 to 100 inner episodes: the noise of the expert's actions decays over nine
    tenths of it, from random ones to none."""

    chunk = 2
    episodes: int | None = TRAINING_TASKS

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[Any], Any]]:
        room = DarkKeyToDoor(int(generator.integers(50, 101)), tasks()[index])
        decay = 0.9 * STEPS * room.episodes

        def act(_: Any) -> int:
            return int(generator.integers(5)) if generator.random() < 1 - room.time / decay else approach(room)

        return room, act
