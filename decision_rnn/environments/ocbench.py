"""Tasks of OCBench (Park, "OCBench: A Controllable Robotic Manipulation Benchmark", 2026): its environments for a CPU.

They are its lite tasks, with ten actions a second, and bowling, which has no lite task.
"""

import importlib
import re
import warnings
from functools import partial

import gymnasium

from decision_rnn.environments.reuse import EPISODES_AT_ONCE, MAX_AT_ONCE, ReusedEnvironment

_TASKS_OF_LAYOUTS = {
    "block-lite-single": 1,
    "block-lite-double": 2,
    "block-lite-triple": 2,
    "block-lite-quadruple": 3,
    "chamber-lite-easy": 3,
    "chamber-lite-medium": 2,
    "chamber-lite-hard": 2,
    "switch-lite-3x3": 2,
    "switch-lite-4x4": 2,
    "switch-lite-5x5": 2,
    "hanoi-lite-single": 2,
    "hanoi-lite-double": 2,
    "hanoi-lite-triple": 2,
    "bowling": 1,
}
TASKS = [f"{layout}-task{number + 1}" for layout, count in _TASKS_OF_LAYOUTS.items() for number in range(count)]
"""Their names in OCBench's datasets, without the version."""
ID = re.compile(rf"decision_rnn/ocbench-({'|'.join(TASKS)})-v0")


def environment_id(task: str) -> str:
    """The Gymnasium id of a task of `TASKS`."""
    return f"decision_rnn/ocbench-{task}-v0"


def published_id(task: str) -> str:
    """OCBench's own id of the environment: block-cpu-lite-single-task1-v0 for block-lite-single-task1."""
    return f"{task.replace('-', '-cpu-', 1)}-v0"


def register(environment_id: str) -> None:
    """Register the environment if it is a task; ModuleNotFoundError without `ocbench`."""
    if match := ID.fullmatch(environment_id):
        importlib.import_module("ocbench")
        gymnasium.register(
            environment_id,
            "decision_rnn.environments.ocbench:OCBenchEnvironment",
            kwargs={"task": match[1]},
            max_episode_steps=gymnasium.spec(published_id(match[1])).max_episode_steps,
        )


def _make(task: str) -> gymnasium.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no screen
        return gymnasium.make(published_id(task), disable_env_checker=True).unwrapped


class OCBenchEnvironment(ReusedEnvironment):
    """An environment of OCBench. The reward is 1 where the task is solved, which ends the episode; in bowling 0.1 for
    every pin that falls.

    Args:
        task: One of `TASKS`.
        render_mode: `rgb_array`, or None.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        super().__init__(task, partial(_make, task), render_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10, EPISODES_AT_ONCE: MAX_AT_ONCE}
