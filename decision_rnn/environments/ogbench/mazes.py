"""OGBench's data of point mazes: an oracle that knows the way moves towards goals,
`data_gen_scripts/generate_locomaze.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.environments.ogbench.environment import goal_episode, make

NOISE = 0.5
DEFAULT_GOAL_DISCOUNT = 4
"""How many cells away the goal of an episode of `stitch` is."""


@dataclass(frozen=True)
class MazeRecipe:
    """How the episodes of a dataset are made: an oracle that knows the way moves towards goals, with noise.

    Attributes:
        task: `pointmaze-medium` or another size.
        kind: `navigate`, from goal to goal, or `stitch`, to one goal four cells away.
    """

    task: str
    kind: str
    version = 1  # incremented when it would make other episodes

    @property
    def episodes(self) -> int:
        """Their number."""
        return 5_000 if self.kind == "stitch" else 500 if self.task == "pointmaze-giant" else 1_000

    @property
    def steps(self) -> int:
        """The number of steps of each."""
        return 200 if self.kind == "stitch" else 2_000 if self.task == "pointmaze-giant" else 1_000

    def player(self) -> Callable[[], Episode]:
        """A function that plays an episode, drawing from NumPy's global generator."""
        maze = make(self.task, terminate_at_goal=False)
        oracle = Oracle(maze)
        return lambda: self._play(maze, oracle)

    def _play(self, maze: Any, oracle: "Oracle") -> Episode:
        start = _any(oracle.cells)
        goal = _any(oracle.around(start)) if self.kind == "stitch" else _any(oracle.crossings)
        place, _ = maze.reset(options={"task_info": {"init_ij": start, "goal_ij": goal}})
        places, actions = [place], []
        for _ in range(self.steps):
            action = np.clip(oracle.direction() + np.random.normal(0, NOISE, 2), -1, 1)
            place, _, _, _, info = maze.step(action)
            if info["success"] and self.kind == "navigate":
                maze.set_goal(_any(oracle.crossings))
            places.append(place)
            actions.append(action)
        return goal_episode(np.array(places), np.array(actions))


class Oracle:
    """The way through a maze, cell by cell, and the cells that episodes begin and end in."""

    def __init__(self, maze: Any) -> None:
        self.maze = maze
        self.free = maze.maze_map == 0
        self.cells = [(int(i), int(j)) for i, j in np.argwhere(self.free)]
        self.crossings = [cell for cell in self.cells if not self._in_hallway(*cell)]
        self.ways: dict[tuple[Any, Any], np.ndarray] = {}

    def _in_hallway(self, i: int, j: int) -> bool:
        """Whether a cell is free on two opposite sides alone."""
        vertical, horizontal = self.free[[i - 1, i + 1], j], self.free[i, [j - 1, j + 1]]
        return (all(vertical) and not any(horizontal)) or (all(horizontal) and not any(vertical))

    def around(self, start: tuple[int, int]) -> list[tuple[int, int]]:
        """The cells `DEFAULT_GOAL_DISCOUNT` cells away from one; itself, if there are none."""
        seen, ring = {start}, [start]
        for _ in range(DEFAULT_GOAL_DISCOUNT):
            reached = ((i + di, j + dj) for i, j in ring for di, dj in ((-1, 0), (0, -1), (1, 0), (0, 1)))
            ring = [cell for cell in dict.fromkeys(reached) if self.free[cell] and cell not in seen]
            seen.update(ring)
        return ring or [start]

    def direction(self) -> np.ndarray:
        """The direction of the next cell on the way to the goal, a unit vector (2,)."""
        here, goal = self.maze.get_xy(), self.maze.cur_goal_xy
        cells = self.maze.xy_to_ij(here), self.maze.xy_to_ij(goal)
        if cells not in self.ways:
            self.ways[cells], _ = self.maze.get_oracle_subgoal(here, goal)
        way: np.ndarray = self.ways[cells] - here
        return way / (np.linalg.norm(way) + 1e-6)


def _any(cells: list[tuple[int, int]]) -> tuple[int, int]:
    return cells[np.random.randint(len(cells))]
