"""OGBench's point mazes (Park et al., "OGBench: Benchmarking Offline Goal-Conditioned RL", 2025): its environments with
their goals in the observation, and its data, made again by its published recipe.

The recipe is that of `data_gen_scripts/generate_locomaze.py` with the settings of `commands.sh`, of which the package
contains the environments and the oracle. Theirs is not seeded, so that no file made by it can be made twice.
"""

import contextlib
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.data.store.episode import Episode
from decision_rnn.messages import bar

MAZES = ("medium", "large", "giant", "teleport")
KINDS = ("navigate", "stitch")
TASKS = 5
MAX_STEPS = 1000
"""The largest number of steps of an episode of the evaluation."""
NOISE = 0.5
NEAR = 4
"""How many cells away the goal of an episode of `stitch` is."""
ID = re.compile(rf"decision_rnn/ogbench-pointmaze-({'|'.join(MAZES)})-v0")
PLACE = Box(-np.inf, np.inf, (2,), np.float64)
OBSERVATIONS = Dict(achieved_goal=PLACE, desired_goal=PLACE)
ACTIONS = Box(-1.0, 1.0, (2,), np.float32)


def environment_id(maze: str) -> str:
    """The Gymnasium id of a maze of `MAZES`."""
    return f"decision_rnn/ogbench-pointmaze-{maze}-v0"


def register(environment_id: str) -> None:
    """Register an environment if it is one of these mazes.

    Raises:
        ModuleNotFoundError: If it is one, and the package `ogbench` is not installed.
    """
    maze = ID.fullmatch(environment_id)
    if maze and environment_id not in gymnasium.registry:
        importlib.import_module("ogbench.locomaze")
        entry = "decision_rnn.data.ogbench:GoalMaze"
        gymnasium.register(environment_id, entry, kwargs={"maze": maze[1]}, max_episode_steps=MAX_STEPS)


@contextlib.contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Seeds NumPy's global generator, which the mazes draw from, inside the block; None leaves it alone."""
    if seed is None:
        yield
        return
    before = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(before)


class GoalMaze(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One of OGBench's point mazes, whose observation has the place of the agent and that of the goal, each (2,).

    `reset(seed=i)` begins task 1 + i mod 5, so that episodes with consecutive seeds have all five tasks of the
    benchmark alike. The reward is 1 where the goal is reached, which ends the episode.

    Args:
        maze: One of `MAZES`.
    """

    def __init__(self, maze: str) -> None:
        super().__init__(gymnasium.make(f"pointmaze-{maze}-v0", disable_env_checker=True).unwrapped)
        self.observation_space, self.action_space = OBSERVATIONS, ACTIONS
        self.goal = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        chosen = {} if seed is None else {"task_id": 1 + seed % TASKS}
        with _seeded(seed):
            if seed is not None:
                self.env.action_space.seed(seed)
            place, info = self.env.reset(seed=seed, options={**chosen, **(options or {})})
        self.goal = info["goal"]
        return self._seen(place), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        place, reward, terminated, truncated, info = self.env.step(action)
        return self._seen(place), float(reward), terminated, truncated, info

    def _seen(self, place: np.ndarray) -> dict[str, np.ndarray]:
        return {"achieved_goal": place, "desired_goal": self.goal}


@dataclass(frozen=True)
class MazeRecipe:
    """How the episodes of a dataset are made: an oracle that knows the way moves towards goals, with noise.

    Attributes:
        maze: One of `MAZES`.
        kind: `navigate`, from goal to goal, or `stitch`, to one goal four cells away.
    """

    maze: str
    kind: str

    @property
    def episodes(self) -> int:
        """Their number."""
        return 5_000 if self.kind == "stitch" else 500 if self.maze == "giant" else 1_000

    @property
    def steps(self) -> int:
        """The number of steps of each."""
        return 200 if self.kind == "stitch" else 2_000 if self.maze == "giant" else 1_000

    def collect(self, progress: bool = True) -> Iterator[Episode]:
        """Yield all episodes in order, each determined by its index."""
        importlib.import_module("ogbench.locomaze")
        settings = {"terminate_at_goal": False, "disable_env_checker": True}
        maze: Any = gymnasium.make(f"pointmaze-{self.maze}-v0", **settings).unwrapped
        oracle = Oracle(maze)
        for index in bar(range(self.episodes), "collecting", unit=" episodes", show=progress):
            with _seeded(index):
                episode = self.play(maze, oracle)
            yield episode

    def play(self, maze: Any, oracle: "Oracle") -> Episode:
        """One episode. The goal in its observations is where it ends: the data's own is not in OGBench's files."""
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


def goal_episode(places: np.ndarray, actions: np.ndarray) -> Episode:
    """An episode that was at `places` (steps + 1, 2), without rewards; its goal is the last of them."""
    rows = np.concatenate([places, np.broadcast_to(places[-1], places.shape)], axis=1)
    return Episode(rows, actions, np.zeros(len(actions)), False, True)


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
        """The cells `NEAR` cells away from one; itself, if there are none."""
        seen, ring = {start}, [start]
        for _ in range(NEAR):
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
