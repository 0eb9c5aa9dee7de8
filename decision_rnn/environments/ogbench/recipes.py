"""Recipes of OGBench's data, those of `data_gen_scripts` of its repository with the settings of `commands.sh`; its
package contains the environments and the oracles.

OGBench's own scripts are not seeded, so that no file made by them can be made twice.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ogbench import ARM, goal_episode, make
from decision_rnn.environments.playing import play_together
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.reuse import global_generator, seeded

Cell = tuple[int, int]
"""Row and column in a maze."""
MAZE_NOISE, ARM_NOISE = 0.5, 0.1
STITCH_DISTANCE = 4
AXES = np.array([1.0, 1.0, 1.0, 3.0, 10.0])
"""The noise of the five actions (position, yaw, gripper) of `noisy`, relative to the first."""
STACKING = {"cube-single": (0, 0), "cube-double": (0, 0.25), "cube-triple": (0.05, 0.35), "cube-quadruple": (0.1, 0.5)}
"""The range of the probability, drawn for every episode, that a cube is to be put onto another; others have 0.5."""


@dataclass(frozen=True, kw_only=True)
class OGBenchRecipe(Recipe):
    """Episodes of one of OGBench's oracles in its own environment.

    In mazes, an oracle that knows the way moves with noise: `navigate` from goal to goal, `stitch` to one goal four
    cells away. Arms move the objects of their task: `play` by plans made beforehand, with noise that is correlated in
    time; `noisy` decides at every step, with noise of a scale drawn for every episode and random actions.

    Attributes:
        task: One of `TASKS`.
        kind: How the oracle acts, as in OGBench's names.
        length: The number of steps of an episode.
    """

    chunk = 4
    task: str
    kind: str
    length: int = 1_000

    def player(self) -> Callable[[int], Episode]:
        oracle = MazeOracle(self) if self.task.startswith("pointmaze") else ArmOracle(self)

        def attempt() -> Episode:
            states, actions, environments = [oracle.reset()], [], [oracle.environment]
            for step in play_together(environments, states, lambda now, *_: [oracle.act(now[0])], self.length):
                oracle.observe(step.infos[0])
                states += step.observations
                actions += step.actions
            return goal_episode(np.array(states), np.array(actions))

        def play(index: int) -> Episode:
            with global_generator(seeded(index)):
                episode = attempt()
                while self.task == "scene" and out_of_sight(episode.observations[:-1, ARM : ARM + 3]):
                    episode = attempt()
            return episode

        return play


def out_of_sight(block: np.ndarray) -> bool:
    """Whether the scene's block, (steps, 3) entries of states, was ever too far right, or too far left but in the
    drawer, which its goals don't allow."""
    _, y, z = block.T
    return bool(((y >= 2.9) | ((y <= -3) & ((z < 0.6) | (z > 0.8)))).any())


class MazeOracle:
    """The way through a point maze, cell by cell, walked with noise as by `generate_locomaze.py`."""

    def __init__(self, recipe: OGBenchRecipe) -> None:
        self.environment, self.kind = make(recipe.task, terminate_at_goal=False), recipe.kind
        self.free = self.environment.maze_map == 0
        self.cells: list[Cell] = [(int(i), int(j)) for i, j in np.argwhere(self.free)]
        hallways = [True, True, False, False], [False, False, True, True]  # free above and below, or left and right
        sides = {(i, j): self.free[[i - 1, i + 1, i, i], [j, j, j - 1, j + 1]].tolist() for i, j in self.cells}
        self.crossings = [cell for cell in self.cells if sides[cell] not in hallways]
        self.subgoals: dict[tuple[Cell, Cell], np.ndarray] = {}

    def reset(self) -> np.ndarray:
        """The first state of an episode."""
        start = _any(self.cells)
        goal = _any(self.around(start) if self.kind == "stitch" else self.crossings)
        return self.environment.reset(options={"task_info": {"init_ij": start, "goal_ij": goal}})[0]

    def around(self, start: Cell) -> list[Cell]:
        """The cells `STITCH_DISTANCE` cells away from one; itself, if there are none."""
        visited, ring = {start}, [start]
        for _ in range(STITCH_DISTANCE):
            neighbours = ((i + di, j + dj) for i, j in ring for di, dj in ((-1, 0), (0, -1), (1, 0), (0, 1)))
            ring = [cell for cell in dict.fromkeys(neighbours) if self.free[cell] and cell not in visited]
            visited.update(ring)
        return ring or [start]

    def act(self, _: np.ndarray) -> np.ndarray:
        """An action (2,): the direction of the next cell on the way to the goal, with noise."""
        position, goal = self.environment.get_xy(), self.environment.cur_goal_xy
        cells = self.environment.xy_to_ij(position), self.environment.xy_to_ij(goal)
        if cells not in self.subgoals:
            self.subgoals[cells], _ = self.environment.get_oracle_subgoal(position, goal)
        way = self.subgoals[cells] - position
        return np.clip(way / (np.linalg.norm(way) + 1e-6) + np.random.normal(0, MAZE_NOISE, 2), -1, 1)

    def observe(self, info: dict[str, Any]) -> None:
        """Choose the next goal where one is reached."""
        if info["success"] and self.kind == "navigate":
            self.environment.set_goal(_any(self.crossings))


def _any(cells: list[Cell]) -> Cell:
    return cells[np.random.randint(len(cells))]


class ArmOracle:
    """OGBench's oracles for every kind of object of a task with an arm, as called by `generate_manipspace.py`."""

    def __init__(self, recipe: OGBenchRecipe) -> None:
        self.task, self.noisy = recipe.task, recipe.kind == "noisy"
        family = self.task.partition("-")[0]
        self.random_share = 0.0 if not self.noisy else 0.2 if family == "puzzle" else 0.1
        self.environment = make(self.task, terminate_at_goal=False, mode="data_collection")
        style = "markov" if self.noisy else "plan"
        settings: dict[str, Any] = {"min_norm": 0.4} if self.noisy else {"noise": ARM_NOISE, "noise_smoothing": 0.5}
        if family == "puzzle":
            settings["gripper_always_closed"] = True
        self.oracles = {}
        for name in {"cube": ["cube"], "puzzle": ["button"]}.get(family, ["cube", "button", "drawer", "window"]):
            module = importlib.import_module(f"ogbench.manipspace.oracles.{style}.{name}_{style}")
            limit = {"max_step": 100} if (family, name, style) == ("scene", "cube", "markov") else {}
            oracle = getattr(module, f"{name.title()}{style.title()}Oracle")
            self.oracles[name] = oracle(env=self.environment, **settings, **limit)

    def reset(self) -> np.ndarray:
        """The first state of an episode."""
        seed = np.random.randint(2**31)
        self.environment.action_space.seed(seed)
        if self.task == "scene":
            self.environment.mark_dirty()  # resets keep where drawer and window were to go, which the oracles look at
        state, self.info = self.environment.reset(seed=seed)
        self.stacking = np.random.uniform(*STACKING.get(self.task, (0.5, 0.5)))
        self.scale = np.random.uniform(0, ARM_NOISE)
        self._begin(state, self.info)
        return state

    def _begin(self, state: np.ndarray, info: dict[str, Any]) -> None:
        """Begin to move the object that `info` names."""
        self.oracle = self.oracles[info["privileged/target_task"]]
        self.oracle.reset(state, info)

    def act(self, state: np.ndarray) -> np.ndarray:
        """An action (5,)."""
        if np.random.rand() < self.random_share:
            return self.environment.action_space.sample()
        action = np.array(self.oracle.select_action(state, self.info))
        return np.clip(action + np.random.normal(0, self.scale * AXES) if self.noisy else action, -1, 1)

    def observe(self, info: dict[str, Any]) -> None:
        """Choose the next object where one is in its place."""
        self.info = info
        if self.oracle.done:
            self._begin(*self.environment.set_new_target(p_stack=self.stacking))
