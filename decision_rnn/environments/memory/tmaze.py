"""The passive T-Maze (Bakker 2001) in the offline protocol of RATE (CognitiveAISystems/RATE, ICLR 2026).

A hint, up or down, is seen at the first step only; then comes a corridor, and at its end a junction. Turning to the
hinted side earns 1, the other side, or being too slow, nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from decision_rnn.environments.recipe import ScriptedRecipe

RIGHT, UP, LEFT, DOWN = range(4)
MOVES = {RIGHT: (1, 0), UP: (0, 1), LEFT: (-1, 0), DOWN: (0, -1)}


class TMaze(gymnasium.Env[np.ndarray, Any]):
    """A T-Maze whose episodes have at most `steps` steps.

    An observation is (y, hint, flag, noise): y is 0 in the corridor and at the junction, and 1 (up) or -1 (down) after
    the turn; the hint is 1 or -1 at the first step and 0 afterwards; the flag is 1 at the junction, otherwise 0; the
    noise is -1, 0 or 1 at random. The position in the corridor is not seen. The actions are right, up, left and down; a
    move into a wall changes nothing. An episode is terminated by a turn, and truncated when only the step of the turn
    and one more would have been left to the fastest: a corridor of length L allows L + 2 steps, and L + 1 are needed.

    Args:
        steps: The largest number of steps of an episode, at least 3.
        varied: Draw each episode's corridor, and with it the largest number of steps, from the lengths 1 to `steps` -
            2, as in the data; by default every corridor has the largest length, as in evaluation.
    """

    observation_space = Box(-1.0, 1.0, (4,), np.float32)
    action_space = Discrete(4)

    def __init__(self, steps: int, varied: bool = False) -> None:
        self.steps = steps
        self.varied = varied

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.corridor = int(self.np_random.integers(1, self.steps - 1)) if self.varied else self.steps - 2
        self.goal = int(self.np_random.choice([-1, 1]))
        self.x = self.y = self.time = 0
        return self._observation(self.goal), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        right, up = MOVES[int(action)]
        self.time += 1
        if up and self.x == self.corridor:
            self.y = up
        elif not up:
            self.x = min(max(self.x + right, 0), self.corridor)
        truncated = self.y == 0 and self.time == self.corridor + 2
        success = self.y == self.goal
        return self._observation(0), float(success), self.y != 0, truncated, {"success": success}

    def _observation(self, hint: int) -> np.ndarray:
        flag = self.x == self.corridor and self.y == 0
        return np.array([self.y, hint, flag, self.np_random.integers(-1, 2)], np.float32)


@dataclass(frozen=True, kw_only=True)
class TMazeRecipe(ScriptedRecipe):
    """RATE's thousand winning episodes of a T-Maze of at most `length` steps, and as many losing ones."""

    length: int
    episodes: int | None = 2_000

    def begin(self, index: int, generator: np.random.Generator) -> tuple[gymnasium.Env, Callable[[Any], Any]]:
        maze = TMaze(self.length, varied=True)

        def act(_: Any) -> int:
            if maze.x < maze.corridor:
                return RIGHT
            return UP if (maze.goal == 1) == (index % 2 == 0) else DOWN

        return maze, act
