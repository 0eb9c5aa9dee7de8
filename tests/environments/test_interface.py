"""Environments of users: their errors, and what they need."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete

from decision_rnn import InputError, play_episodes, record
from decision_rnn.environments.playing import make_group

ENTRIES = 4


class Whole(gymnasium.Env):
    """Five steps of reward 1."""

    observation_space: Any = Box(-9, 9, (ENTRIES,))
    action_space: Any = Discrete(2)
    t = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.t = 0
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.full(self.observation_space.shape, self.t, np.float32), 1.0, self.t == 5, False, {}


def go(observation: Any) -> int:
    return 1


@pytest.fixture(autouse=True)
def inside(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    monkeypatch.setitem(gymnasium.registry, "Whole-v0", EnvSpec("Whole-v0", Whole))


def test_own_errors_of_an_environment_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Whole, "step", lambda self, action: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(play_episodes("Whole-v0", go, 1))


def test_vector_of_environments_is_not_recorded() -> None:
    with pytest.raises(InputError, match="SyncVectorEnv"):
        record(go, gymnasium.make_vec("Whole-v0", 2), "local/x", episodes=1, progress=False)  # type: ignore[arg-type]


def test_environments_of_a_group_stay_open_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[gymnasium.Env]()
    monkeypatch.setattr(Whole, "close", lambda self: closed.append(self))
    with make_group("Whole-v0", 3) as environments:
        assert len(environments) == 3
        assert not closed
    assert len(closed) == 3


def test_environments_without_bodies_need_no_mujoco(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if "mujoco" in name or "locomotion" in name]:
        monkeypatch.delitem(sys.modules, name)

    class Broken:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name == "mujoco":
                raise RuntimeError("MUJOCO_GL")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert len(list(play_episodes("Whole-v0", go, 2))) == 2
    with make_group("CartPole-v1", 2):
        pass
    with pytest.raises(InputError, match=r"Hopper-v5.*MUJOCO_GL"):
        list(play_episodes("Hopper-v5", lambda observation: np.zeros(3), 1))
