"""Tasks of OGBench (Park et al., "OGBench: Benchmarking Offline Goal-Conditioned RL", 2025): its environments, with
goals in the observation, and recipes that make its data again.

They cover the tasks whose oracles are scripted: point mazes, cubes, scene and puzzles.
"""

import importlib
import re
import warnings
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class Task(NamedTuple):
    """A task of OGBench: the sizes of a state and an action, the largest number of steps of an episode, and the numbers
    of objects that its goals place."""

    states: int
    actions: int
    steps: int
    cubes: int = 0
    buttons: int = 0
    sliders: int = 0


TASKS = {
    "pointmaze-medium": Task(2, 2, 1000),
    "pointmaze-large": Task(2, 2, 1000),
    "pointmaze-giant": Task(2, 2, 1000),
    "pointmaze-teleport": Task(2, 2, 1000),
    "cube-single": Task(28, 5, 200, cubes=1),
    "cube-double": Task(37, 5, 500, cubes=2),
    "cube-triple": Task(46, 5, 1000, cubes=3),
    "cube-quadruple": Task(55, 5, 1000, cubes=4),
    "scene": Task(40, 5, 750, cubes=1, buttons=2, sliders=2),
    "puzzle-3x3": Task(55, 5, 500, buttons=9),
    "puzzle-4x4": Task(83, 5, 500, buttons=16),
    "puzzle-4x5": Task(99, 5, 1000, buttons=20),
    "puzzle-4x6": Task(115, 5, 1000, buttons=24),
}
"""By name. Every task has five goals."""
ORACLE = "-oraclerep"
"""Name suffix of the variants whose goals have only what is to be reached, not the whole state."""
ID = re.compile(rf"decision_rnn/ogbench-({'|'.join(TASKS)})({ORACLE})?-v0")
ARM = 19
"""Where objects begin in the state of a task with an arm: 9 entries a cube, 4 a button, then 2 a slider."""


def environment_id(task: str) -> str:
    """The Gymnasium id of a task of `TASKS`, with the suffix `ORACLE` or without."""
    return f"decision_rnn/ogbench-{task}-v0"


def task_spaces(task: str) -> tuple[Dict, Box]:
    """The observation and action space of a task, with the suffix `ORACLE` or without.

    Observations have the state as `achieved_goal` and the one to reach as `desired_goal`; with `ORACLE` only the
    entries of both that are to be reached, and the state as `observation`.
    """
    name = task.removesuffix(ORACLE)
    state = Box(-np.inf, np.inf, (TASKS[name].states,), np.float64)
    actions = Box(-1.0, 1.0, (TASKS[name].actions,), np.float32)
    if name == task:
        return Dict(achieved_goal=state, desired_goal=state), actions
    goal = Box(-np.inf, np.inf, (len(oracle_entries(name)),), np.float64)
    return Dict(achieved_goal=goal, desired_goal=goal, observation=state), actions


def oracle_entries(name: str) -> list[int]:
    """The entries of a task's state that are OGBench's oracle representation of a goal: the position in a maze, the
    positions of cubes, which buttons are lit, and how far drawer and window are open."""
    if name.startswith("pointmaze"):
        return [0, 1]
    task = TASKS[name]
    positions = [ARM + 9 * cube + axis for cube in range(task.cubes) for axis in range(3)]
    lit = [ARM + 9 * task.cubes + 4 * button + 1 for button in range(task.buttons)]
    return positions + lit + [task.states - 2 * slider for slider in range(task.sliders, 0, -1)]


def import_ogbench() -> None:
    """Import `ogbench` without its warning that there is no screen; it registers its environments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("ogbench")


def register(environment_id: str) -> None:
    """Register the environment if it is a task; ModuleNotFoundError without `ogbench`."""
    if match := ID.fullmatch(environment_id):
        import_ogbench()
        gymnasium.register(
            environment_id,
            "decision_rnn.environments.ogbench.environment:OGBenchEnvironment",
            kwargs={"task": f"{match[1]}{match[2] or ''}"},
            max_episode_steps=TASKS[match[1]].steps,
        )
