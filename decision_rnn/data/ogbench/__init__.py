"""Tasks of OGBench (Park et al., "OGBench: Benchmarking Offline Goal-Conditioned RL", 2025): its environments with
goals in the observation, and recipes that make its data again.

Recipes are those of `data_gen_scripts` of its repository with the settings of `commands.sh`, of which the package
contains the environments and the oracles. Theirs are not seeded, so that no file made by them can be made twice. They
cover the tasks whose oracles are scripted: point mazes, cubes, scene and puzzles.
"""

import importlib
import re

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

TASKS: dict[str, tuple[int, int]] = {
    "pointmaze-medium": (2, 2),
    "pointmaze-large": (2, 2),
    "pointmaze-giant": (2, 2),
    "pointmaze-teleport": (2, 2),
    "cube-single": (28, 5),
    "cube-double": (37, 5),
    "cube-triple": (46, 5),
    "cube-quadruple": (55, 5),
    "scene": (40, 5),
    "puzzle-3x3": (55, 5),
    "puzzle-4x4": (83, 5),
    "puzzle-4x5": (99, 5),
    "puzzle-4x6": (115, 5),
}
"""By the name of a task, how many numbers a state and an action of it have."""
ID = re.compile(r"decision_rnn/ogbench-([\w-]+)-v0")


def environment_id(task: str) -> str:
    """The Gymnasium id of a task of `TASKS`."""
    return f"decision_rnn/ogbench-{task}-v0"


def spaces_of(task: str) -> tuple[Dict, Box]:
    """The observations of a task, which have the state as `achieved_goal` and that asked for as `desired_goal`, and its
    actions."""
    states, actions = TASKS[task]
    state = Box(-np.inf, np.inf, (states,), np.float64)
    return Dict(achieved_goal=state, desired_goal=state), Box(-1.0, 1.0, (actions,), np.float32)


def register(environment_id: str) -> None:
    """Register an environment if it is one of these tasks.

    Raises:
        ModuleNotFoundError: If it is one, and the package `ogbench` is not installed.
    """
    found = ID.fullmatch(environment_id)
    if found and found[1] in TASKS and environment_id not in gymnasium.registry:
        importlib.import_module("ogbench")
        entry, steps = "decision_rnn.data.ogbench.environment:GoalEnvironment", gymnasium.spec(f"{found[1]}-v0")
        kwargs = {"task": found[1]}
        gymnasium.register(environment_id, entry, kwargs=kwargs, max_episode_steps=steps.max_episode_steps)
