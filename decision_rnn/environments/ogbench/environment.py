"""OGBench's environments, with their goals in the observation or with one goal."""

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.random import mtrand

from decision_rnn.data.episode import Episode
from decision_rnn.environments.ogbench import ORACLE, oracle_entries, task_spaces
from decision_rnn.environments.registry import EPISODES_AT_ONCE

MAX_AT_ONCE = 10
"""The most environments with an arm that are stepped together, since one takes 160 MB."""
GOALS = 5
"""The number of goals, with starts of their own, that the benchmark evaluates on every task."""

_closed: dict[str, list[Any]] = {}
"""Environments to use again, by task: making one takes a second, since MuJoCo compiles its model, and an episode not
half of that."""


def seeded(seed: int) -> np.random.BitGenerator:
    """A generator in the state that `np.random.seed(seed)` gives the global one."""
    generator = np.random.MT19937()
    np.random.RandomState(generator).seed(seed % 2**32)
    return generator


@contextlib.contextmanager
def global_generator(generator: np.random.BitGenerator) -> Iterator[None]:
    """NumPy's global functions draw from this generator inside the block.

    OGBench's environments and oracles draw from them and take no generator of their own.
    """
    before = mtrand.get_bit_generator()
    mtrand.set_bit_generator(generator)
    try:
        yield
    finally:
        mtrand.set_bit_generator(before)


def make(task: str, **settings: Any) -> Any:
    """OGBench's environment of a task or a variant of it (`SINGLE`, `ORACLE`), without a time limit.

    Its `action_space` is an attribute. Where there is an arm, OGBench makes a new space at every access, so that no
    seed reaches the random actions that it takes on the way to a goal's state.
    """
    importlib.import_module("ogbench")
    name, oracle = task.removesuffix(ORACLE), task.endswith(ORACLE)
    spec = gymnasium.spec(f"{name}-v0")
    if not task.startswith("pointmaze"):
        kind: Any = gymnasium.envs.registration.load_env_creator(str(spec.entry_point))
        actions = task_spaces(task)[1]
        entry_point: Any = type(kind.__name__, (kind,), {"action_space": actions})
        spec = replace(spec, entry_point=entry_point)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no screen
        if oracle:
            settings["use_oracle_rep"] = True
        return gymnasium.make(spec, disable_env_checker=True, **settings).unwrapped


class SingleTaskEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of OGBench with one goal, whose episodes are determined by their seed and the actions.

    The reward of a step is minus the number of parts of the goal that do not hold before it. The episode ends with the
    step that begins where all hold, which is rewarded with 0.

    Args:
        task: One of `TASKS`, with the goal behind its name.
        render_mode: Gymnasium's; pictures need `rgb_array`.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        closed = _closed.get(task) if render_mode is None else None
        super().__init__(closed.pop() if closed else make(task, render_mode=render_mode))
        if not task.startswith("pointmaze"):
            self.metadata = {**self.metadata, EPISODES_AT_ONCE: MAX_AT_ONCE}
        self.task = task
        self.generator: np.random.BitGenerator = np.random.MT19937()
        self.observation_space, self.action_space = task_spaces(task)

    def close(self) -> None:
        environment, closed = vars(self).pop("env", None), _closed.setdefault(self.task, [])
        if environment is None:  # closed before
            return
        if environment.render_mode is None and len(closed) < MAX_AT_ONCE:
            closed.append(environment)
        else:
            environment.close()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.env.action_space.seed(seed)
            self.generator = seeded(seed)
        with global_generator(self.generator):
            state, info = self.env.reset(seed=seed, options=options)
        return state, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with global_generator(self.generator):  # where a teleport leads
            state, reward, terminated, truncated, info = self.env.step(action)
        return state, float(reward), bool(terminated), truncated, info


class GoalEnvironment(SingleTaskEnvironment):
    """An environment of OGBench whose observation has the state and the one to reach or, with `ORACLE`, the entries
    that are to be reached, as they are and as they should be, and the state.

    `reset(seed=i)` begins goal 1 + i mod 5, so that consecutive seeds have the five goals of the benchmark in turn. The
    reward is 1 where the goal is reached, which ends the episode.

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
        return self._observation(state), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        state, reward, terminated, truncated, info = super().step(action)
        return self._observation(state), reward, terminated, truncated, info

    def _observation(self, state: np.ndarray) -> dict[str, np.ndarray]:
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
