"""OGBench's environments with their goals in the observation, and episodes with such goals."""

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ogbench import ORACLE, import_ogbench, oracle_entries, task_spaces
from decision_rnn.environments.reuse import EPISODES_AT_ONCE, MAX_AT_ONCE, ReusedEnvironment, global_generator, seeded

GOALS = 5
"""The number of goals, with starts of their own, that the benchmark evaluates on every task."""


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
