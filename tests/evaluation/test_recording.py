"""`record`: a dataset of the episodes of a policy or an agent."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec
from swing import CAR, LIMIT, SMALL, push

import decision_rnn
from decision_rnn import EnvironmentActor, InputError, record
from decision_rnn.data import writing
from decision_rnn.data.sources import SOURCES
from decision_rnn.environments import playing
from decision_rnn.evaluation.actor import ExportedPolicy
from decision_rnn.runs.checkpoint import TrainedAgent


@pytest.fixture(autouse=True)
def inside(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh working folder with data folders of its own, and shorter episodes of the mountain car."""
    monkeypatch.chdir(folders)
    monkeypatch.setattr(gymnasium.spec(CAR), "max_episode_steps", LIMIT)


def test_recorded_agent_has_the_returns_of_evaluate(pendulum: Callable[..., TrainedAgent]) -> None:
    trained, env = pendulum(), gymnasium.make("Pendulum-v1")
    options: dict[str, Any] = {"episodes": 2, "max_episode_steps": 30, "progress": False}
    store = record(trained, env, "local/agent", target_return=-300, **options).store
    (target,) = decision_rnn.evaluate(trained, -300, seed=0, processes=1, **options).targets
    np.testing.assert_allclose(store.episode_returns, target.returns, atol=1e-3)
    exported = ExportedPolicy(EnvironmentActor(trained), trained.config, trained.provenance, 1, 1.0, 1, 1)
    for name, policy in {"actor": EnvironmentActor(trained, -900), "exported": exported}.items():
        again = record(policy, env, f"local/{name}", target_return=-300, **options).store
        assert again.fingerprint == store.fingerprint


def test_random_actions_are_those_of_the_seeded_action_space() -> None:
    dataset = record("random", CAR, "local/random", episodes=2, seed=3, max_episode_steps=20, progress=False)
    space = gymnasium.make(CAR).action_space
    space.seed(3)
    np.testing.assert_array_equal(dataset.store.actions, [space.sample() for _ in range(40)])


def test_actions_sampled_by_torch_depend_on_the_seed_alone() -> None:
    options: dict[str, Any] = {"episodes": 1, "max_episode_steps": 20, "progress": False}
    before = torch.random.get_rng_state()
    actions = [
        record(lambda _: torch.rand(1).numpy(), CAR, f"local/sampled{i}", seed=seed, **options).store.actions
        for i, seed in enumerate((3, 3, 4))
    ]
    np.testing.assert_array_equal(actions[0], actions[1])
    assert (actions[0] != actions[2]).all()
    assert torch.equal(torch.random.get_rng_state(), before)


INVALID = [
    ({"steps": 1}, "episodes.*steps"),
    ({"name": "none"}, "'none'"),
    ({"target_return": 90}, "target_return"),
    ({"target_return": 90, "policy": "random"}, "target_return"),
]


@pytest.mark.parametrize(("changes", "name"), INVALID)
def test_invalid_arguments_are_named_and_nothing_is_written(changes: dict[str, Any], name: str) -> None:
    arguments = {"policy": push, "environment": CAR, "name": "local/none", "episodes": 1, "progress": False}
    with pytest.raises(InputError, match=name):
        record(**(arguments | changes))
    assert "local/none" not in SOURCES["local"].names()


def spin(observation: np.ndarray) -> np.ndarray:
    """A policy for Pendulum."""
    return observation[:1]


@pytest.mark.parametrize("max_episode_steps", [None, 12])
def test_episodes_that_have_no_end_are_cut_and_evaluated_as_long(
    max_episode_steps: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", EnvSpec("Endless-v0", PendulumEnv))
    monkeypatch.setattr(playing, "DEFAULT_MAX_STEPS", 30)
    limit = max_episode_steps or 30
    dataset = record(spin, "Endless-v0", "local/endless", episodes=2, max_episode_steps=max_episode_steps)
    ends = [(len(episode.rewards), episode.terminated, episode.truncated) for episode in dataset.store]
    assert ends == [(limit, False, True)] * 2
    run = decision_rnn.train(dataset, SMALL, steps=1, output="endless", progress=False, evaluation={"episodes": 1})
    result = decision_rnn.evaluate("endless", -100, episodes=2, processes=1, progress=False)
    assert (run.agent.provenance.longest_episode, result.targets[0].length_mean) == (limit, limit)
    assert any("2 of 2 episodes" in text and f"{limit} steps" in text for text in result.remarks)


class Faulty(gymnasium.Wrapper):
    """The mountain car, which calls `fault(observation, reward)` after step number `late`; it returns the two."""

    def __init__(self, late: int, fault: Any) -> None:
        super().__init__(gymnasium.make(CAR))
        self.late, self.fault, self.steps = late, fault, 0

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.steps += 1
        return *(self.fault(observation, reward) if self.steps == self.late else (observation, reward)), *rest


def interrupt(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def unplug(*_: Any) -> None:
    raise TimeoutError("the robot does not answer")


BREAKS: dict[str, Any] = {
    "interrupted": (interrupt, KeyboardInterrupt, None),
    "terminated": (lambda *_: os.kill(os.getpid(), signal.SIGTERM), KeyboardInterrupt, None),
    "unplugged": (unplug, TimeoutError, "the robot does not answer"),
    "not finite": (lambda o, r: (o, np.inf), InputError, "rewards"),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_finished_episodes_are_kept_when_it_breaks_off(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = record(push, CAR, "local/whole", episodes=3, progress=False).store
    fault, error, message = BREAKS[kind]
    with pytest.raises(error, match=message):
        record(push, Faulty(int(whole.offsets[2]) + 5, fault), "local/broken", episodes=9, progress=False)
    store = decision_rnn.open_dataset("local/broken").store
    np.testing.assert_array_equal(store.table, whole.table[: whole.offsets[2]])
    assert store.terminated.all()
    assert f"{store.path} has 2 finished episodes" in capsys.readouterr().err
    with pytest.raises(error):  # in the first episode: nothing is finished, nothing is written
        record(push, Faulty(5, fault), "local/nothing", episodes=9, progress=False)
    assert "local/nothing" not in SOURCES["local"].names()
    with pytest.raises(error, match=message):  # finished episodes do not replace a complete dataset
        record(push, Faulty(int(whole.offsets[2]) + 5, fault), "local/whole", episodes=9, overwrite=True)
    assert decision_rnn.open_dataset("local/whole").store.num_episodes == 3


def test_interrupt_while_an_episode_is_written_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = writing._rows

    def interrupted(*arguments: Any) -> Any:
        interrupt()
        interrupt()
        return rows(*arguments)

    monkeypatch.setattr(writing, "_rows", interrupted)
    monkeypatch.setattr(writing, "GROUP", 1)
    with pytest.raises(KeyboardInterrupt):
        record(push, CAR, "local/while-written", episodes=5, progress=False)
    assert decision_rnn.open_dataset("local/while-written").store.num_episodes == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def stacked(**options: Any) -> gymnasium.Env:
    framed = gymnasium.wrappers.FrameStackObservation(gymnasium.make("Pendulum-v1", g=1.6, **options), 3)
    halved = gymnasium.wrappers.TransformReward(framed, lambda reward: reward / 2)
    return gymnasium.wrappers.RescaleAction(gymnasium.wrappers.FlattenObservation(halved), -1, 1)


@pytest.mark.parametrize("by_id", [True, False])
def test_environment_of_a_registered_factory_is_evaluated(
    by_id: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Stacked-v0", EnvSpec("Stacked-v0", stacked))
    dataset = record(spin, "Stacked-v0" if by_id else gymnasium.make("Stacked-v0"), "local/made", episodes=2)
    assert capsys.readouterr().err == ""
    run = decision_rnn.train(dataset, SMALL, steps=1, output="made", progress=False, evaluation={"episodes": 1})
    result = decision_rnn.evaluate(run, -100, episodes=1, processes=1, progress=False)
    assert result.targets[0].length_mean == 200


WRAPPERS: dict[str, Any] = {
    "none": lambda env: env,
    "watched": gymnasium.wrappers.RecordEpisodeStatistics,
    "stack": lambda env: gymnasium.wrappers.FlattenObservation(gymnasium.wrappers.FrameStackObservation(env, 3)),
    "reward": gymnasium.wrappers.NormalizeReward,
    "action": gymnasium.wrappers.ClipAction,
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_environment_is_recorded_with_its_wrappers(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Agents are not evaluated, and so not trained, on the data of wrappers that change the environment."""
    wrap, changed = WRAPPERS[kind], kind not in ("none", "watched")
    dataset = record(spin, wrap(gymnasium.make("Pendulum-v1")), "local/wrapped", episodes=2, seed=5)
    pattern, lines = "local/wrapped.*Pendulum-v1.*additional_wrappers", capsys.readouterr().err.splitlines()
    assert [bool(re.search(pattern, line)) for line in lines] == [True] * changed
    if changed:
        with pytest.raises(InputError, match=r"Pendulum-v1.*additional_wrappers"):
            decision_rnn.train(dataset, steps=1, output="changed", progress=False)
    by_hand = wrap(gymnasium.make("Pendulum-v1"))
    for number, episode in enumerate(dataset.store):
        observation, _ = by_hand.reset(seed=5 + number)
        for t, action in enumerate(episode.actions):
            np.testing.assert_array_equal(episode.observations[t], observation.astype(np.float32))
            np.testing.assert_array_equal(action, spin(observation).astype(np.float32))
            observation, reward, terminated, truncated, _ = by_hand.step(action)
            assert episode.rewards[t] == reward
        assert (episode.terminated, episode.truncated) == (terminated, truncated) == (False, True)
    box, expected = dataset.spec.action_space, by_hand.action_space
    if kind == "action":  # without bounds: the range of the data
        expected = gymnasium.spaces.Box(dataset.store.actions.min(0), dataset.store.actions.max(0))
    np.testing.assert_allclose([box.low, box.high], [expected.low, expected.high])


class Dial(gymnasium.Env):
    """An environment that was never registered: the position is the sum of the pushes; episodes end at 1."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(0.0, 0.25, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 0, 1).astype(np.float32)
        return self.position, {}

    def step(self, action: Any) -> Any:
        self.position = self.position + np.float32(action)
        return self.position, 1.0, bool(self.position[0] >= 1), False, {}


def turn(observation: np.ndarray) -> np.ndarray:
    return 0.1 + 0 * observation


def test_unregistered_environment_gives_data_of_none(capsys: pytest.CaptureFixture[str]) -> None:
    store = record(turn, Dial(), "local/dial", episodes=2, seed=3).store
    (warning,) = capsys.readouterr().err.splitlines()
    assert re.search("local/dial.*Dial", warning)
    assert (store.environment_id, store.terminated.all(), store.truncated.any()) == (None, True, False)
    assert (store.final_observations >= 1).all()
    record(turn, Dial(), "local/more", episodes=2, progress=False)
    dataset = decision_rnn.merge_datasets("local/both", ["local/dial", "local/more"])
    run = decision_rnn.train(dataset, SMALL, steps=1, output="dial", progress=False)
    box = run.agent.provenance.action_space
    np.testing.assert_array_equal([box.low, box.high], [[0.0], [0.25]])
    assert (dataset.store.num_episodes, run.config.evaluation.episodes) == (4, 0)
