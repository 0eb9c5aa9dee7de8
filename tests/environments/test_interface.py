"""Environments whose interface is not Gymnasium's: the errors, and what still works."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import decision_rnn
from decision_rnn import Episode, InputError, play_episodes, record, write_store
from decision_rnn.environments.playing import make_group
from decision_rnn.environments.registry import known_spaces

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


class OldResetOfTwo(OldReset):
    """An observation of two entries is no pair of observation and info."""

    observation_space = Box(-9, 9, (2,))


class OldResetOfTuple(Whole):
    observation_space = gymnasium.spaces.Tuple([Box(-9, 9, (1,)), Box(-9, 9, (1,))])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), np.zeros(1, np.float32)


class NoReset(Whole):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return None


class NoSeed(Whole):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NeedsOptions(Whole):
    def reset(self, seed: Any, options: Any) -> Any:  # type: ignore[override]
        return super().reset()


class NoOptions(Whole):
    """Gymnasium's wrappers pass options on."""

    def reset(self, seed: Any = None) -> Any:  # type: ignore[override]
        return super().reset()


class OldStep(Whole):
    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class StepOfNothing(Whole):
    def step(self, action: Any) -> Any:
        return None


class StepOfWords(Whole):
    def step(self, action: Any) -> Any:
        return np.zeros(ENTRIES), "much", False, False, {}


class NoStep(Whole):
    def step(self, action: Any) -> Any:
        return gymnasium.Env.step(self, action)


class NoSpaces(Whole):
    observation_space = None


class Space:
    """A space of the package gym: alike, and none of Gymnasium's."""

    def __init__(self) -> None:
        self.shape, self.dtype, self.low, self.high = (ENTRIES,), np.dtype("f4"), np.zeros(ENTRIES), np.ones(ENTRIES)


class OtherSpaces(Whole):
    observation_space = Space()


RESETS = [OldReset, OldResetOfTwo, OldResetOfTuple, NoReset, NoSeed, NoOptions]
LACKING = [*RESETS, OldStep, StepOfNothing, StepOfWords, NoStep, NoSpaces, OtherSpaces]
lacking = pytest.mark.parametrize("kind", LACKING, ids=lambda kind: kind.__name__)


def go(observation: Any) -> int:
    return 1


@pytest.fixture(autouse=True)
def inside(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folders)
    names = [f"{kind.__name__}-v0" for kind in (Whole, *LACKING)]
    for name, kind in zip(names, (Whole, *LACKING), strict=True):
        gymnasium.register(name, kind)
        gymnasium.register(name.replace("-v0", "-v1"), kind, max_episode_steps=3)  # a wrapper that unpacks what it gets
    yield
    for name in names:
        del gymnasium.registry[name], gymnasium.registry[name.replace("-v0", "-v1")]


@lacking
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_recording_names_the_environment(kind: type[Whole], version: str) -> None:
    name = f"{kind.__name__}-{version}"
    for play in (
        lambda: record(go, name, "local/x", episodes=1, progress=False),
        lambda: record(go, gymnasium.make(name, disable_env_checker=True), "local/x", episodes=1, progress=False),
        lambda: list(play_episodes(name, go, 1)),
    ):
        with pytest.raises(InputError, match=kind.__name__):
            play()


def test_environment_that_no_id_made_is_named_by_its_class() -> None:
    for kind in (OldStep, NeedsOptions):  # whose options gymnasium.make passes
        with pytest.raises(InputError, match=kind.__name__):
            record(go, kind(), "local/x", episodes=1, progress=False)


@lacking
def test_training_and_evaluation_refuse_it_before_they_begin(
    kind: type[Whole], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entries = 2 if kind is OldResetOfTwo else ENTRIES
    episodes = [Episode(np.eye(9, entries), np.zeros(8, int), np.ones(8), True, False)]
    space = Box(-9, 9, (entries,)) if kind is not OldResetOfTuple else kind.observation_space
    if kind is OldResetOfTuple:
        episodes = [Episode((np.zeros((9, 1)), np.zeros((9, 1))), np.zeros(8, int), np.ones(8), True, False)]  # type: ignore[arg-type]
    name = f"{kind.__name__}-v0"
    write_store("local/x", episodes, name, observation_space=space, action_space=Discrete(2))
    options: dict[str, Any] = {"backbone": {"name": "mlp", "width": 8, "layers": 1}, "steps": 1, "progress": False}
    options |= {"training": {"context": 4, "batch_size": 2}, "condition": "none"}
    with pytest.raises(InputError, match=kind.__name__):
        decision_rnn.train("local/x", output=tmp_path / "run", **options)
    assert not (tmp_path / "run" / "config.yaml").exists()
    run = decision_rnn.train("local/x", output=tmp_path / "run", evaluation={"episodes": 0}, **options)
    with pytest.raises(InputError, match=kind.__name__):
        run.evaluate(episodes=2, processes=1, progress=False)


def test_command_exits_with_code_2(inline_cli: Callable[..., Any], tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "going.py").write_text("def go(observation):\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind in LACKING:
        words = [f"{kind.__name__}-v0", "--policy", "going.go", "--episodes", "1", "--output", "local/x"]
        done = inline_cli("record", *words)
        assert done.returncode == 2, done.stderr
        assert kind.__name__ in done.stderr.splitlines()[-1]


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


def test_unknown_spaces_are_none_for_data() -> None:
    assert known_spaces("NoSpaces-v0") is None
    assert known_spaces("Whole-v0") == (Whole.observation_space, Whole.action_space)


def test_vector_of_environments_is_not_recorded() -> None:
    with pytest.raises(InputError, match=r"SyncVectorEnv|Whole-v0"):
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
