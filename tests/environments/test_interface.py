"""Environments whose interface is not Gymnasium's: the errors, and what still works."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import decision_rnn
from decision_rnn import Episode, InputError, play_episodes, record, write_store
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


class OldReset(Whole):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset()[0]


class NoSeed(Whole):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class OldStep(Whole):
    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


LACKING = [OldReset, NoSeed, OldStep]


def go(observation: Any) -> int:
    return 1


@pytest.fixture(autouse=True)
def inside(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folders)
    names = [f"{kind.__name__}-v0" for kind in (Whole, *LACKING)]
    for name, kind in zip(names, (Whole, *LACKING), strict=True):
        gymnasium.register(name, kind)
    yield
    for name in names:
        del gymnasium.registry[name]


@pytest.mark.parametrize("kind", LACKING, ids=lambda kind: kind.__name__)
def test_training_and_evaluation_refuse_it_before_they_begin(kind: type[Whole], tmp_path: Path) -> None:
    episodes = [Episode(np.eye(9, ENTRIES), np.zeros(8, int), np.ones(8), True, False)]
    space = Box(-9, 9, (ENTRIES,))
    write_store("local/x", episodes, f"{kind.__name__}-v0", observation_space=space, action_space=Discrete(2))
    options: dict[str, Any] = {"backbone": {"name": "mlp", "width": 8, "layers": 1}, "steps": 1, "progress": False}
    options |= {"training": {"context": 4, "batch_size": 2}, "condition": "none"}
    with pytest.raises(InputError, match=kind.__name__):
        decision_rnn.train("local/x", output=tmp_path / "run", **options)
    assert not (tmp_path / "run" / "config.yaml").exists()
    run = decision_rnn.train("local/x", output=tmp_path / "run", evaluation={"episodes": 0}, **options)
    with pytest.raises(InputError, match=kind.__name__):
        run.evaluate(episodes=2, processes=1, progress=False)


def test_own_errors_of_an_environment_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Whole, "step", lambda self, action: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(play_episodes("Whole-v0", go, 1))
    with pytest.raises(InputError, match=r"Whole-v0.*ZeroDivisionError"):
        decision_rnn.train(
            [Episode(np.zeros((31, ENTRIES)), np.zeros(30, int), np.ones(30), True, False)],
            environment_id="Whole-v0",
            output="run",
            progress=False,
        )


class Loose(Whole):
    """Values that are not those of the documentation, and yet clear."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return [super().reset()[0].astype(object), None]

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, _ = super().step(action)
        ends = np.array([terminated]), np.array(truncated)
        return observation.astype(object), np.array([[reward]], object), *ends, None

    def close(self) -> None:
        raise RuntimeError("no simulator")


def test_clear_values_are_taken_and_a_failing_close_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    gymnasium.register("Loose-v0", Loose)
    try:
        dataset = record(go, "Loose-v0", "local/loose", episodes=2, progress=True)
        expected = record(go, "Whole-v0", "local/whole", episodes=2, progress=False)
        np.testing.assert_array_equal(dataset.store.table, expected.store.table)
        assert "no simulator" in capsys.readouterr().err
        group = make_group("Loose-v0", 3)
        assert group.reset([0, 1, 2])[2].tolist() == [0] * ENTRIES
        *_, infos = group.step(np.arange(3), [0, 1, 0])
        assert infos == [{}, {}, {}]
        group.close()
    finally:
        del gymnasium.registry["Loose-v0"]


def test_vector_of_environments_is_not_recorded() -> None:
    with pytest.raises(InputError, match="SyncVectorEnv"):
        record(go, gymnasium.make_vec("Whole-v0", 2), "local/x", episodes=1, progress=False)  # type: ignore[arg-type]


def test_environments_without_bodies_need_no_mujoco(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if "mujoco" in name or "locomotion" in name]:
        monkeypatch.delitem(sys.modules, name)

    class Broken:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name == "mujoco":
                raise RuntimeError("MUJOCO_GL")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert len(list(play_episodes("Whole-v0", go, 2))) == 2
    make_group("CartPole-v1", 2).close()
    with pytest.raises(InputError, match=r"Hopper-v5.*MUJOCO_GL"):
        list(play_episodes("Hopper-v5", lambda observation: np.zeros(3), 1))
