"""Tasks of OGBench (Park et al., "OGBench: Benchmarking Offline Goal-Conditioned RL", 2025): its environments, with
goals in the observation, and recipes that make its data again.

They cover the tasks whose oracles are scripted: point mazes, cubes, scene and puzzles.
"""

import importlib
import re
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.reuse import EPISODES_AT_ONCE, MAX_AT_ONCE, ReusedEnvironment, global_generator, seeded


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
"""By name."""
GOALS = 5
"""The number of goals, with starts of their own, that the benchmark evaluates on every task."""
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
            "decision_rnn.environments.ogbench:OGBenchEnvironment",
            kwargs={"task": f"{match[1]}{match[2] or ''}"},
            max_episode_steps=TASKS[match[1]].steps,
        )


def make(task: str, **settings: Any) -> Any:
    """OGBench's environment of a task, with the suffix `ORACLE` or without, without a time limit."""
    import_ogbench()
    spec = gymnasium.spec(f"{task.removesuffix(ORACLE)}-v0")
    if task.endswith(ORACLE):
        settings["use_oracle_rep"] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no screen
        if not task.startswith("pointmaze"):
            # With an arm, OGBench makes a new action space at every access, so that no seed reaches the random actions
            # that it takes on the way to a goal's state.
            kind: Any = gymnasium.envs.registration.load_env_creator(str(spec.entry_point))
            entry_point: Any = type(kind.__name__, (kind,), {"action_space": task_spaces(task)[1]})
            spec = replace(spec, entry_point=entry_point)
        return gymnasium.make(spec, disable_env_checker=True, **settings).unwrapped


class OGBenchEnvironment(ReusedEnvironment):
    """An environment of OGBench whose episodes are determined by their seed and the actions.

    Observations have the state and the one to reach or, with `ORACLE`, the entries that are to be reached, as they are
    and as they should be, and the state. `reset(seed=i)` begins goal 1 + i mod 5, so that consecutive seeds have the
    five goals of the benchmark in turn. The reward is 1 where the goal is reached, which ends the episode.

    Args:
        task: One of `TASKS`, with the suffix `ORACLE` or without.
        render_mode: Gymnasium's; pictures need `rgb_array`.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        super().__init__(task, partial(make, task, render_mode=render_mode), render_mode)
        if not task.startswith("pointmaze"):
            self.metadata = {**self.metadata, EPISODES_AT_ONCE: MAX_AT_ONCE}
        self.entries = oracle_entries(task.removesuffix(ORACLE)) if task.endswith(ORACLE) else None
        self.generator: np.random.BitGenerator = np.random.MT19937()
        self.observation_space, self.action_space = task_spaces(task)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.env.action_space.seed(seed)
            self.generator = seeded(seed)
            options = {"task_id": 1 + seed % GOALS, **(options or {})}
        with global_generator(self.generator):
            state, info = self.env.reset(seed=seed, options=options)
        self.goal = info["goal"]
        return self._observation(state), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with global_generator(self.generator):  # where a teleport leads
            state, reward, terminated, truncated, info = self.env.step(action)
        return self._observation(state), float(reward), bool(terminated), truncated, info

    def _observation(self, state: np.ndarray) -> Any:
        if self.entries is None:
            return {"achieved_goal": state, "desired_goal": self.goal}
        return {"achieved_goal": state[self.entries], "desired_goal": self.goal, "observation": state}


def goal_episode(states: np.ndarray, actions: np.ndarray, entries: list[int] | None = None) -> Episode:
    """An episode of these states (steps + 1, n), without rewards. The goal in its observations is the last state or,
    with `entries`, these of it, with the state apart: OGBench's files do not have the goals that it was made to
    reach."""
    reached = states if entries is None else states[:, entries]
    columns = [reached, np.broadcast_to(reached[-1], reached.shape), *([] if entries is None else [states])]
    return Episode(np.concatenate(columns, axis=1), actions, np.zeros(len(actions)), False, True)
