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

from decision_rnn.environments.registry import environment_family


class Task(NamedTuple):
    """A task of OGBench: the sizes of a state and an action, the largest number of steps of an episode, and the number
    of parts of which its goals consist, such as cubes in their places."""

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
"""Name suffix of the variants with a reward for one goal: the default one, or one by its number."""
ORACLE = "-oraclerep"
"""Name suffix of the variants whose goals have only what is to be reached, not the whole state."""
ID = re.compile(rf"decision_rnn/ogbench-({'|'.join(TASKS)})({SINGLE}|{ORACLE})?-v0")
ARM = 19
"""Where objects begin in the state of a task with an arm."""


def environment_id(task: str) -> str:
    """The Gymnasium id of a task of `TASKS`, with the suffix of a variant (`SINGLE`, `ORACLE`) or without."""
    return f"decision_rnn/ogbench-{task}-v0"


def task_spaces(task: str) -> tuple[Dict | Box, Box]:
    """The observation and action space of a task or a variant of it.

    Observations have the state as `achieved_goal` and the one to reach as `desired_goal`; with `ORACLE` only the
    entries of both that are to be reached, and the state as `observation`; with `SINGLE` they are the state alone.
    """
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
    """The entries of a task's state that are OGBench's oracle representation of a goal: the position in a maze, the
    positions of cubes, which buttons are lit, and how far drawer and window are open."""
    family, parts = task.partition("-")[0], TASKS[task].parts
    if family == "pointmaze":
        return [0, 1]
    cubes, buttons = object_counts(family, parts)
    positions = [ARM + 9 * cube + axis for cube in range(cubes) for axis in range(3)]
    lit = [ARM + 9 * cubes + 4 * button + 1 for button in range(buttons)]
    states = TASKS[task].states
    return [*positions, *lit, *((states - 4, states - 2) if family == "scene" else ())]


def object_counts(family: str, parts: int) -> tuple[int, int]:
    """The numbers of cubes and buttons of a task with an arm whose goals have that many parts."""
    return {"cube": (parts, 0), "scene": (1, 2), "puzzle": (0, parts)}[family]


@environment_family(ID.pattern)
def register_task(match: re.Match[str]) -> None:
    """Register a task or a variant of it; ModuleNotFoundError if the package `ogbench` is not installed."""
    importlib.import_module("ogbench")
    kind = "GoalEnvironment" if match[2] in (None, ORACLE) else "SingleTaskEnvironment"
    gymnasium.register(
        match[0],
        f"decision_rnn.environments.ogbench.environment:{kind}",
        kwargs={"task": f"{match[1]}{match[2] or ''}"},
        max_episode_steps=TASKS[match[1]].steps,
    )
