"""OGBench's environments, with their goals in the observation or with one goal."""

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.random import mtrand

from decision_rnn.data.episode import Episode
from decision_rnn.environments.ogbench import ORACLE, oracle_entries, spaces_of
from decision_rnn.environments.playing import EPISODES_AT_ONCE

IDLE: dict[str, list[Any]] = {}
"""Environments that were closed, by task: a new one takes a second, most of it to compile a model of the robot, and an
episode not half of that. A reset leaves nothing of what they were before."""
AT_ONCE = 10
"""The most with an arm that are stepped together, and the most of each task that are kept: one takes 160 MB."""
GOALS = 5
"""The number of goals, with starts of their own, that the benchmark evaluates on every task."""


def seeded(seed: int) -> np.random.BitGenerator:
    """A generator in the state that `np.random.seed(seed)` gives the global one."""
    bits = np.random.MT19937()
    np.random.RandomState(bits).seed(seed % 2**32)
    return bits


@contextlib.contextmanager
def drawing_from(bits: np.random.BitGenerator) -> Iterator[None]:
    """NumPy's global functions, by which OGBench draws, use this generator inside the block."""
    before = mtrand.get_bit_generator()
    mtrand.set_bit_generator(bits)
    try:
        yield
    finally:
        mtrand.set_bit_generator(before)


def make(task: str, **settings: Any) -> Any:
    """OGBench's environment of a task, with what follows its name (`SINGLE`, `ORACLE`), without a time limit."""
    importlib.import_module("ogbench")
    if task.endswith(ORACLE):
        task, settings = task.removesuffix(ORACLE), {"use_oracle_rep": True, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no screen
        return gymnasium.make(f"{task}-v0", disable_env_checker=True, **settings).unwrapped


def _with_own_class(environment: Any) -> Any:
    kind = type(environment)
    environment.__class__ = type(kind.__name__, (kind,), {})
    return environment


class SingleTaskEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of OGBench with one goal, whose episodes are determined by their seed and the actions.

    The reward of a step is minus the number of parts of the goal that do not hold before it. The episode ends with the
    step that begins where all hold, which is rewarded with 0.

    Args:
        task: One of `TASKS`, with the goal behind its name.
        render_mode: Gymnasium's; pictures need `rgb_array`.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        idle = IDLE.get(task) if render_mode is None else None
        super().__init__(idle.pop() if idle else _with_own_class(make(task, render_mode=render_mode)))
        if not task.startswith("pointmaze"):
            self.metadata = {**self.metadata, EPISODES_AT_ONCE: AT_ONCE}
        self.task = task
        self.bits: np.random.BitGenerator = np.random.MT19937()
        self.observation_space, self.action_space = spaces_of(task)
        # On the way to a goal's state OGBench takes random actions. Where there is an arm, their space is a new one at
        # every look, which no seed reaches: as an attribute of the class, it is the same one.
        type(self.env).action_space = self.action_space

    def close(self) -> None:
        environment, idle = vars(self).pop("env", None), IDLE.setdefault(self.task, [])
        if environment is None:  # it may be another's by now
            return
        if environment.render_mode is None and len(idle) < AT_ONCE:
            idle.append(environment)
        else:
            environment.close()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.env.action_space.seed(seed)
            self.bits = seeded(seed)
        with drawing_from(self.bits):
            state, info = self.env.reset(seed=seed, options=options)
        return state, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with drawing_from(self.bits):  # where a teleport leads
            state, reward, terminated, truncated, info = self.env.step(action)
        return state, float(reward), bool(terminated), truncated, info


class GoalEnvironment(SingleTaskEnvironment):
    """An environment of OGBench whose observation has the state and the state that is asked for or, with `ORACLE`, what
    is to be reached, both as it is and as it is asked for, and the state.

    `reset(seed=i)` begins goal 1 + i mod 5, so that episodes with consecutive seeds have all five goals of the
    benchmark alike. The reward is 1 where the goal is reached, which ends the episode.

    Args:
        task: One of `TASKS`, with `ORACLE` behind its name or nothing.
        render_mode: Gymnasium's; pictures need `rgb_array`.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        super().__init__(task, render_mode)
        self.entries = oracle_entries(task.removesuffix(ORACLE)) if task.endswith(ORACLE) else None
        self.goal: np.ndarray = np.zeros(0)  # until the first reset

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        chosen = {} if seed is None else {"task_id": 1 + seed % GOALS}
        state, info = super().reset(seed=seed, options={**chosen, **(options or {})})
        self.goal = info["goal"]
        return self._seen(state), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        state, reward, terminated, truncated, info = super().step(action)
        return self._seen(state), reward, terminated, truncated, info

    def _seen(self, state: np.ndarray) -> dict[str, np.ndarray]:
        if self.entries is None:
            return {"achieved_goal": state, "desired_goal": self.goal}
        return {"achieved_goal": state[self.entries], "desired_goal": self.goal, "observation": state}


def goal_episode(states: np.ndarray, actions: np.ndarray, entries: list[int] | None = None) -> Episode:
    """An episode of these states (steps + 1, n), without rewards. The goal in its observations is the last of them or,
    with `entries`, these of it, with the state apart: what it was made to reach is not in OGBench's files."""
    reached = states if entries is None else states[:, entries]
    parts = [reached, np.broadcast_to(reached[-1], reached.shape), *([] if entries is None else [states])]
    return Episode(np.concatenate(parts, axis=1), actions, np.zeros(len(actions)), False, True)
