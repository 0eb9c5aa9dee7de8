"""OCBench's environments, and the recipe of data by its oracles."""

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.environments.episode import Episode
from decision_rnn.environments.ocbench import published_id
from decision_rnn.environments.playing import play_episode
from decision_rnn.environments.recipe import Recipe
from decision_rnn.environments.registry import make_environment
from decision_rnn.environments.reuse import EPISODES_AT_ONCE, MAX_AT_ONCE, ReusedEnvironment, global_generator, seeded


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


@dataclass(frozen=True, kw_only=True)
class OCBenchRecipe(Recipe):
    """Episodes of OCBench's oracle with its own settings, to the end that the environment sets: it makes mistakes on
    purpose, and moves along curves and at speeds that it draws.

    Attributes:
        task: One of `TASKS`.
        noise: The largest standard deviation of the noise in the arm's actions, drawn for every episode. The oracle
            corrects what the noise does, so that agents learn to recover from their own errors, as in Laskey et al.,
            "DART: Noise Injection for Robust Imitation Learning" (2017).
    """

    task: str
    noise: float = 0.03

    def player(self) -> Callable[[int], Episode]:
        environment: Any = make_environment(self.environment_id)
        family = self.task.partition("-")[0]
        module = importlib.import_module(f"ocbench.oracles.controllers.{family}")
        oracle = getattr(module, f"{family.title()}Controller")(environment)
        noise = np.zeros(environment.action_space.shape)  # the last entry is the gripper

        def act(observation: np.ndarray, _: float, begins: bool) -> np.ndarray:
            info = environment.unwrapped.compute_ob_info()
            if begins:
                oracle.reset(observation, info)
                noise[:-1] = np.random.uniform(0, self.noise)
            return np.clip(oracle.select_action(observation, info) + np.random.normal(0, noise), -1, 1)

        def play(index: int) -> Episode:
            with global_generator(seeded(index)):
                return play_episode(environment, act, seed=index)

        return play
