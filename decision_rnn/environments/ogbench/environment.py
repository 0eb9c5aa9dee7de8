"""OGBench's environments with their goals in the observation, and episodes with such goals."""

import contextlib
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.random import mtrand

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ogbench import ORACLE, import_ogbench, oracle_entries, task_spaces
from decision_rnn.environments.registry import EPISODES_AT_ONCE

MAX_AT_ONCE = 10
"""The most environments with an arm that are stepped together, since one takes 160 MB."""
GOALS = 5
"""The number of goals, with starts of their own, that the benchmark evaluates on every task."""

_closed: dict[str, list[Any]] = defaultdict(list)
"""Environments to use again, by task: making one takes a second, since MuJoCo compiles its model, and an episode not
half of that."""


def seeded(seed: int) -> np.random.BitGenerator:
    """A generator in the state that `np.random.seed(seed)` gives the global one."""
    generator = np.random.MT19937()
    np.random.RandomState(generator).seed(seed % 2**32)
    return generator


@contextlib.contextmanager
def global_generator(generator: np.random.BitGenerator) -> Iterator[None]:
    """NumPy's global functions, from which OGBench's environments and oracles draw, use this generator in the block."""
    before = mtrand.get_bit_generator()
    mtrand.set_bit_generator(generator)
    try:
        yield
    finally:
        mtrand.set_bit_generator(before)


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


class OGBenchEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of OGBench whose episodes are determined by their seed and the actions.

    Observations have the state and the one to reach or, with `ORACLE`, the entries that are to be reached, as they are
    and as they should be, and the state. `reset(seed=i)` begins goal 1 + i mod 5, so that consecutive seeds have the
    five goals of the benchmark in turn. The reward is 1 where the goal is reached, which ends the episode.

    Args:
        task: One of `TASKS`, with the suffix `ORACLE` or without.
        render_mode: Gymnasium's; pictures need `rgb_array`.
    """

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        reusable = _closed[task] if render_mode is None else []
        super().__init__(reusable.pop() if reusable else make(task, render_mode=render_mode))
        if not task.startswith("pointmaze"):
            self.metadata = {**self.metadata, EPISODES_AT_ONCE: MAX_AT_ONCE}
        self.task = task
        self.entries = oracle_entries(task.removesuffix(ORACLE)) if task.endswith(ORACLE) else None
        self.generator: np.random.BitGenerator = np.random.MT19937()
        self.observation_space, self.action_space = task_spaces(task)

    def close(self) -> None:
        environment = vars(self).pop("env", None)  # None where it has been closed before
        if environment is not None and environment.render_mode is None:
            _closed[self.task].append(environment)
        elif environment is not None:
            environment.close()

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
