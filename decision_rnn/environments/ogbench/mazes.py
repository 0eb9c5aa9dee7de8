"""OGBench's data of point mazes: an oracle that knows the way moves towards goals,
`data_gen_scripts/generate_locomaze.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.environments.ogbench.environment import goal_episode, make
from decision_rnn.environments.ogbench.recipe import OGBenchRecipe
from decision_rnn.environments.playing import play_together

NOISE = 0.5
STITCH_DISTANCE = 4
"""How many cells away the goal of an episode of `stitch` is."""


@dataclass(frozen=True, kw_only=True)
class MazeRecipe(OGBenchRecipe):
    """An oracle that knows the way moves with noise: `navigate` from goal to goal, `stitch` to one goal four cells
    away."""

    def unseeded_player(self) -> Callable[[], Episode]:
        maze = make(self.task, terminate_at_goal=False)
        oracle = Oracle(maze)
        return lambda: self._play(maze, oracle)

    def _play(self, maze: Any, oracle: "Oracle") -> Episode:
        start = _any(oracle.cells)
        goal = _any(oracle.around(start)) if self.kind == "stitch" else _any(oracle.crossings)
        position, _ = maze.reset(options={"task_info": {"init_ij": start, "goal_ij": goal}})
        positions, actions = [position], []

        def act(*_: Any) -> list[np.ndarray]:
            return [np.clip(oracle.direction() + np.random.normal(0, NOISE, 2), -1, 1)]

        for step in play_together([maze], [position], act, self.length):
            if step.infos[0]["success"] and self.kind == "navigate":
                maze.set_goal(_any(oracle.crossings))
            positions.append(step.observations[0])
            actions.append(step.actions[0])
        return goal_episode(np.array(positions), np.array(actions))


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
        """The cells `STITCH_DISTANCE` cells away from one; itself, if there are none."""
        visited, ring = {start}, [start]
        for _ in range(STITCH_DISTANCE):
            neighbours = ((i + di, j + dj) for i, j in ring for di, dj in ((-1, 0), (0, -1), (1, 0), (0, 1)))
            ring = [cell for cell in dict.fromkeys(neighbours) if self.free[cell] and cell not in visited]
            visited.update(ring)
        return ring or [start]

    def direction(self) -> np.ndarray:
        """The direction of the next cell on the way to the goal, a unit vector (2,)."""
        position, goal = self.maze.get_xy(), self.maze.cur_goal_xy
        cells = self.maze.xy_to_ij(position), self.maze.xy_to_ij(goal)
        if cells not in self.ways:
            self.ways[cells], _ = self.maze.get_oracle_subgoal(position, goal)
        way: np.ndarray = self.ways[cells] - position
        return way / (np.linalg.norm(way) + 1e-6)


def _any(cells: list[tuple[int, int]]) -> tuple[int, int]:
    return cells[np.random.randint(len(cells))]
