"""`scripts/run_in_ogbench.py` observes in OGBench's environment what agents observe in this package's."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn.environments.registry import make_environment


class RandomPolicy:
    """Random actions, and the observations before them."""

    def __init__(self, size: int, action_size: int) -> None:
        self.size, self.action_size = size, action_size

    def reset(self) -> None:
        self.random = np.random.default_rng(0)
        self.observations: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []

    def act(self, observation: np.ndarray, reward: float) -> np.ndarray:
        self.observations.append(observation)
        self.actions.append(self.random.uniform(-1, 1, self.action_size).astype(np.float32))
        return self.actions[-1]


@pytest.mark.parametrize(
    ("dataset", "task"),
    [
        ("pointmaze-medium-navigate-v0", "pointmaze-medium"),
        ("pointmaze-medium-navigate-oraclerep-v0", "pointmaze-medium-oraclerep"),
        ("cube-double-play-oraclerep-v0", "cube-double-oraclerep"),
    ],
)
def test_observations_are_those_of_the_package(dataset: str, task: str) -> None:
    ogbench = pytest.importorskip("ogbench")
    import run_in_ogbench

    with make_environment(f"decision_rnn/ogbench-{task}-v0") as environment:
        space, actions = environment.observation_space, environment.action_space
        policy: Any = RandomPolicy(gymnasium.spaces.flatdim(space), gymnasium.spaces.flatdim(actions))
        success = run_in_ogbench.play(policy, ogbench.make_env_and_datasets(dataset, env_only=True), 3)
        observation, _ = environment.reset(seed=3)
        for seen, action in zip(policy.observations, policy.actions, strict=True):
            np.testing.assert_allclose(seen, gymnasium.spaces.flatten(space, observation), rtol=1e-6, atol=1e-6)
            observation, _, terminated, _, info = environment.step(action)
        assert success == terminated == info["success"]
