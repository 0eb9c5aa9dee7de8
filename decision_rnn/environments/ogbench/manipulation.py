"""OGBench's manipulation data: an arm moves cubes, drawers, windows and buttons, one after the other, as scripts of the
package tell it, `data_gen_scripts/generate_manipspace.py`."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.data.episode import Episode
from decision_rnn.environments.ogbench import task_spaces
from decision_rnn.environments.ogbench.environment import goal_episode, make
from decision_rnn.environments.ogbench.recipe import OGBenchRecipe
from decision_rnn.environments.playing import play_together

NOISE = 0.1
PLAN: tuple[str, dict[str, Any]] = "plan", {"noise": NOISE, "noise_smoothing": 0.5}
MARKOV: tuple[str, dict[str, Any]] = "markov", {"min_norm": 0.4}
"""The oracles of `play` and of `noisy`, with their settings."""
AXES = np.array([1.0, 1.0, 1.0, 3.0, 10.0])
"""The noise of the five actions (position, yaw, gripper) of `noisy`, relative to the first."""
STACKING = {
    "cube-single": (0.0, 0.0),
    "cube-double": (0.0, 0.25),
    "cube-triple": (0.05, 0.35),
    "cube-quadruple": (0.1, 0.5),
}
"""The range of the probability, drawn for every episode, that a cube is to be put onto another; others have 0.5."""


@dataclass(frozen=True, kw_only=True)
class ManipulationRecipe(OGBenchRecipe):
    """An oracle that moves the objects of a task: `play` follows plans made beforehand, with noise that is correlated
    in time; `noisy` decides at every step, with noise of a scale drawn for every episode and random actions."""

    def unseeded_player(self) -> Callable[[], Episode]:
        environment = make(self.task, terminate_at_goal=False, mode="data_collection")
        oracles = self._oracles(environment)

        def play() -> Episode:
            while True:  # the scene's block may get out of sight, which its goals don't allow
                states, actions, positions = self._attempt(environment, oracles)
                if self.task != "scene" or _in_sight(positions[:, 14:17]):
                    return goal_episode(states, actions)

        return play

    def _oracles(self, environment: Any) -> dict[str, Any]:
        """An oracle for every kind of object, by its name in `info`."""
        family = self.task.partition("-")[0]
        objects = {"cube": ["cube"], "scene": ["cube", "button", "drawer", "window"], "puzzle": ["button"]}[family]
        style, settings = PLAN if self.kind == "play" else MARKOV
        if family == "puzzle":
            settings = {**settings, "gripper_always_closed": True}
        oracles = {}
        for name in objects:
            module = importlib.import_module(f"ogbench.manipspace.oracles.{style}.{name}_{style}")
            limit = {"max_step": 100} if (family, name, style) == ("scene", "cube", "markov") else {}
            oracle = getattr(module, f"{name.title()}{style.title()}Oracle")
            oracles[name] = oracle(env=environment, **settings, **limit)
        return oracles

    def _attempt(self, environment: Any, oracles: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States (steps + 1, n), actions (steps, 5) and the simulation's positions before each (steps, m)."""
        seed = np.random.randint(2**31)
        space = task_spaces(self.task)[1]
        space.seed(seed)
        if self.task == "scene":
            environment.mark_dirty()  # resets keep where drawer and window were to go, which the oracles look at
        state, info = environment.reset(seed=seed)
        stacking = np.random.uniform(*STACKING.get(self.task, (0.5, 0.5)))
        scale = np.random.uniform(0, NOISE)
        random_share = 0.0 if self.kind == "play" else 0.2 if self.task.startswith("puzzle") else 0.1
        oracle = oracles[info["privileged/target_task"]]
        oracle.reset(state, info)
        states, actions, positions = [state], [], []

        def act(current_states: list[np.ndarray], *_: Any) -> list[np.ndarray]:
            if np.random.rand() < random_share:
                action = space.sample()
            else:
                action = np.array(oracle.select_action(current_states[0], info))
                if self.kind == "noisy":
                    action = action + np.random.normal(0, scale * AXES)
            return [np.clip(action, -1, 1)]

        for step in play_together([environment], [state], act, self.length):
            info = step.infos[0]
            if oracle.done:
                target_state, target_info = environment.set_new_target(p_stack=stacking)
                oracle = oracles[target_info["privileged/target_task"]]
                oracle.reset(target_state, target_info)
            states.append(step.observations[0])
            actions.append(step.actions[0])
            positions.append(info["prev_qpos"])
        return np.array(states), np.array(actions), np.array(positions)


def _in_sight(block: np.ndarray) -> bool:
    """Whether the scene's block, at (steps, 3), was never too far right, nor too far left but in the drawer."""
    _, y, z = block.T
    return not ((y >= 0.29).any() or ((y <= -0.3) & ((z < 0.06) | (z > 0.08))).any())
