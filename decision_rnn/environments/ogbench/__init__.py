"""Tasks of OGBench (Park et al., "OGBench: Benchmarking Offline Goal-Conditioned RL", 2025): its environments, with
goals in the observation or with a reward for one goal, and recipes that make its data again.

Recipes are those of `data_gen_scripts` of its repository with the settings of `commands.sh`, of which the package
contains the environments and the oracles. Theirs are not seeded, so that no file made by them can be made twice. They
cover the tasks whose oracles are scripted: point mazes, cubes, scene and puzzles.
"""

import importlib
import re
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class Task(NamedTuple):
    """How many numbers a state and an action of a task have, how many steps its episodes have at most, and of how many
    parts, such as cubes in their places, its goals consist."""

    states: int
    actions: int
    steps: int
    parts: int


TASKS = {
    "pointmaze-medium": Task(2, 2, 1000, 1),
    "pointmaze-large": Task(2, 2, 1000, 1),
    "pointmaze-giant": Task(2, 2, 1000, 1),
    "pointmaze-teleport": Task(2, 2, 1000, 1),
    "cube-single": Task(28, 5, 200, 1),
    "cube-double": Task(37, 5, 500, 2),
    "cube-triple": Task(46, 5, 1000, 3),
    "cube-quadruple": Task(55, 5, 1000, 4),
    "scene": Task(40, 5, 750, 5),
    "puzzle-3x3": Task(55, 5, 500, 9),
    "puzzle-4x4": Task(83, 5, 500, 16),
    "puzzle-4x5": Task(99, 5, 1000, 20),
    "puzzle-4x6": Task(115, 5, 1000, 24),
}
"""By name. Every task has five goals."""
SINGLE = r"-singletask(?:-task[1-5])?"
"""What follows the name where one of the goals is to be reached for a reward: the default one, or one by its number."""
ORACLE = "-oraclerep"
"""What follows the name where goals have only what is to be reached, not the whole state."""
ID = re.compile(rf"decision_rnn/ogbench-([\w-]+?)({SINGLE}|{ORACLE})?-v0")
ARM = 19
"""Where objects begin in the state of a task with an arm."""


def environment_id(task: str) -> str:
    """The Gymnasium id of a task of `TASKS`, with what follows its name (`SINGLE`, `ORACLE`)."""
    return f"decision_rnn/ogbench-{task}-v0"


def spaces_of(task: str) -> tuple[Dict | Box, Box]:
    """The observations and actions of a task: observations have the state as `achieved_goal` and that asked for as
    `desired_goal`, or of both only the entries that are to be reached, with the state as `observation`, or are the
    state alone in a single task."""
    task, single, _ = task.partition("-singletask")
    name = task.removesuffix(ORACLE)
    state = Box(-np.inf, np.inf, (TASKS[name].states,), np.float64)
    actions = Box(-1.0, 1.0, (TASKS[name].actions,), np.float32)
    if single:
        return state, actions
    if name == task:
        return Dict(achieved_goal=state, desired_goal=state), actions
    goal = Box(-np.inf, np.inf, (len(oracle_entries(name)),), np.float64)
    return Dict(achieved_goal=goal, desired_goal=goal, observation=state), actions


def oracle_entries(task: str) -> list[int]:
    """Which entries of a task's state are OGBench's oracle representation of a goal: the place in a maze, the places of
    cubes, which buttons are lit, and how far drawer and window are open."""
    family, parts = task.partition("-")[0], TASKS[task].parts
    if family == "pointmaze":
        return [0, 1]
    cubes, buttons = objects_of(family, parts)
    places = [ARM + 9 * cube + axis for cube in range(cubes) for axis in range(3)]
    lit = [ARM + 9 * cubes + 4 * button + 1 for button in range(buttons)]
    states = TASKS[task].states
    return [*places, *lit, *((states - 4, states - 2) if family == "scene" else ())]


def objects_of(family: str, parts: int) -> tuple[int, int]:
    """How many cubes and buttons there are in a task with an arm whose goals have so many parts."""
    return {"cube": (parts, 0), "scene": (1, 2), "puzzle": (0, parts)}[family]


def register(environment_id: str) -> None:
    """Register an environment if it is one of these tasks.

    Raises:
        ModuleNotFoundError: If it is one, and the package `ogbench` is not installed.
    """
    found = ID.fullmatch(environment_id)
    if found and found[1] in TASKS and environment_id not in gymnasium.registry:
        importlib.import_module("ogbench")
        kind = "GoalEnvironment" if found[2] in (None, ORACLE) else "SingleTaskEnvironment"
        gymnasium.register(
            environment_id,
            f"decision_rnn.environments.ogbench.environment:{kind}",
            kwargs={"task": f"{found[1]}{found[2] or ''}"},
            max_episode_steps=TASKS[found[1]].steps,
        )
