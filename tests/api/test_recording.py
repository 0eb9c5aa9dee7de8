"""`record`: a dataset of the episodes of a policy or an agent."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import MultiBinary
from gymnasium.wrappers import RecordEpisodeStatistics, TransformReward
from swing import CAR, LIMIT, SMALL, push

import decision_rnn
from decision_rnn import Episode, InputError, Run, record
from decision_rnn.data import writing
from decision_rnn.data.sources import SOURCES
from decision_rnn.deploy import Policy
from decision_rnn.environments import playing


def test_record_has_the_same_episodes_as_a_manual_loop(inside: Path) -> None:
    store = record(push, CAR, "local/by-hand", episodes=2, seed=5, progress=False).store
    env = gymnasium.make(CAR)
    for number, episode in enumerate(store):
        observation, _ = env.reset(seed=5 + number)
        for t, action in enumerate(episode.actions):
            np.testing.assert_array_equal(episode.observations[t], observation)
            np.testing.assert_array_equal(action, push(observation))
            observation, reward, terminated, truncated, _ = env.step(push(observation))
            assert episode.rewards[t] == reward
        np.testing.assert_array_equal(episode.observations[-1], observation)
        assert (episode.terminated, episode.truncated) == (terminated, truncated) == (True, False)


def test_record_of_a_run_has_the_returns_of_evaluate_and_can_be_trained_on(run: Run, inside: Path) -> None:
    dataset = record(run, gymnasium.make(CAR), "local/of-agent", steps=LIMIT + 1, target_return=50, progress=False)
    assert dataset.store.episode_lengths.tolist() == [LIMIT, LIMIT]  # whole
    (target,) = run.evaluate(50, episodes=2, seed=0, processes=1, progress=False).targets
    np.testing.assert_allclose(dataset.store.episode_returns, target.returns, atol=1e-3)
    again = decision_rnn.train(dataset, run.config.backbone, steps=2, output="again", progress=False)
    assert again.agent.provenance.fingerprint == dataset.store.fingerprint


def test_train_refuses_data_of_wrappers_that_change_the_environment(inside: Path) -> None:
    halved = TransformReward(gymnasium.make(CAR), lambda reward: reward / 2)
    dataset = record(push, halved, "local/halved", episodes=2, progress=False)
    with pytest.raises(InputError, match=f"{CAR}.*additional_wrappers.*TransformReward"):
        decision_rnn.train(dataset, steps=1, output="halved", progress=False)
    watched = RecordEpisodeStatistics(gymnasium.make(CAR))
    dataset = record(push, watched, "local/watched", episodes=2, progress=False)
    decision_rnn.train(dataset, steps=1, output="watched", progress=False)


def test_random_actions_are_those_of_the_seeded_action_space(inside: Path) -> None:
    dataset = record("random", CAR, "local/random", episodes=2, seed=3, max_episode_steps=20, progress=False)
    space = gymnasium.make(CAR).action_space
    space.seed(3)
    np.testing.assert_array_equal(dataset.store.actions, [space.sample() for _ in range(40)])


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"episodes": None}, "episodes.*steps"),
        ({"steps": 1}, "episodes.*steps"),
        ({"episodes": 0}, r"episodes\b.*0"),
        ({"seed": -1}, r"seed\b.*-1"),
        ({"max_episode_steps": 0}, r"max_episode_steps\b.*0"),
        ({"name": "none"}, "'none'"),
        ({"name": "local/swing"}, "local/swing exists"),
        ({"environment": "MountainCarContinous-v0"}, r"MountainCarContinuous-v0\?"),
        ({"environment": 3}, "int"),
        ({"policy": 3}, "int"),
        ({"policy": object.__new__(Policy)}, "Policy"),
        ({"policy": "nowhere"}, "nowhere"),
        ({"target_return": 3}, "target_return"),
    ],
)
def test_invalid_arguments_are_named_and_nothing_is_written(changes: dict[str, Any], name: str, inside: Path) -> None:
    arguments = {"policy": push, "environment": CAR, "name": "local/none", "episodes": 1, "progress": False}
    with pytest.raises(InputError, match=name):
        record(**(arguments | changes))
    assert "local/none" not in SOURCES["local"].names()


def test_actions_of_other_spaces_are_refused_before_playing(inside: Path) -> None:
    environment = PendulumEnv()
    environment.action_space = MultiBinary(3)
    with pytest.raises(InputError, match="agents act in a Box, Discrete or MultiDiscrete space"):
        record(lambda observation: pytest.fail("it plays"), environment, "local/none", episodes=1, progress=False)
    assert "local/none" not in SOURCES["local"].names()


def spin(observation: np.ndarray) -> np.ndarray:
    """A policy for Pendulum; takes one observation or a batch."""
    return observation[..., :1]


def cut_by_hand(seed: int, resets: int, steps: int) -> list[np.ndarray]:
    """The observations of consecutive episodes of Pendulum that are left after so many steps."""
    env, episodes = PendulumEnv(), []
    observation, _ = env.reset(seed=seed)
    for _ in range(resets):
        observations = [observation]
        for _ in range(steps):
            observations.append(env.step(spin(observations[-1]))[0])
        episodes.append(np.stack(observations))
        observation, _ = env.reset()
    return episodes


@pytest.mark.parametrize("given", [None, 12])
def test_record_cuts_episodes_that_have_no_end(
    given: int | None, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", EnvSpec("Endless-v0", PendulumEnv))
    monkeypatch.setattr(playing, "DEFAULT_MAX_STEPS", 30)
    limit = given or 30
    store = record(spin, "Endless-v0", f"local/c-{limit}", episodes=2, max_episode_steps=given).store
    assert ("after 30 steps (max_episode_steps)" in capsys.readouterr().err) == (given is None)
    for seed, episode in enumerate(store):
        np.testing.assert_array_equal(episode.observations, cut_by_hand(seed, 1, limit)[0])
        assert (episode.terminated, episode.truncated) == (False, True)


class Faulty(gymnasium.Wrapper):
    """The mountain car, which calls `fault(step, observation, reward)` after every step; it returns the two."""

    def __init__(self, fault: Any) -> None:
        super().__init__(gymnasium.make(CAR))
        self.fault, self.steps = fault, 0

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.steps += 1
        return *self.fault(self.steps, observation, reward), *rest


def at_step(number: int, act: Any) -> Any:
    return lambda step, observation, reward: act(observation, reward) if step == number else (observation, reward)


def interrupt(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def unplug(*_: Any) -> None:
    raise TimeoutError("the robot does not answer")


def terminate(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


BREAKS: dict[str, Any] = {
    "interrupted": (interrupt, KeyboardInterrupt, "2 finished episodes"),
    "terminated": (terminate, KeyboardInterrupt, "2 finished episodes"),
    "unplugged": (unplug, TimeoutError, "the robot does not answer"),
    "observation": (lambda o, r: (np.array([0, np.nan]), r), InputError, "observations.*2 finished episodes"),
    "reward": (lambda o, r: (o, np.inf), InputError, "rewards.*2 finished episodes"),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_record_keeps_the_finished_episodes_when_it_breaks_off(
    kind: str, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = record(push, CAR, f"local/whole-{kind}", episodes=3, progress=False).store
    act, error, message = BREAKS[kind]
    late = int(whole.offsets[2]) + 5  # in the third episode
    with pytest.raises(error, match=message):
        record(push, Faulty(at_step(late, act)), f"local/broken-{kind}", episodes=9)
    kept = decision_rnn.open_dataset(f"local/broken-{kind}").store
    np.testing.assert_array_equal(kept.table, whole.table[: whole.offsets[2]])
    assert kept.terminated.all()
    assert kind != "unplugged" or f"({kept.steps} steps) written to {kept.path}" in capsys.readouterr().err
    with pytest.raises(error):  # in the first episode: nothing is finished, nothing is written
        record(push, Faulty(at_step(5, act)), f"local/nothing-{kind}", episodes=9, progress=False)
    assert f"local/nothing-{kind}" not in SOURCES["local"].names()


def test_action_that_is_not_finite_is_named_and_not_taken(inside: Path) -> None:
    calls = iter(range(200))
    steps: list[Any] = []
    environment = Faulty(lambda step, *given: steps.append(step) or given)
    with pytest.raises(InputError, match=r"the policy.*nan.*1 finished episode"):
        record(lambda o: push(o) * (1.0 if next(calls) < 120 else np.nan), environment, "local/nan-action", episodes=9)
    assert len(steps) == 120
    assert decision_rnn.open_dataset("local/nan-action").store.num_episodes == 1


def test_interrupt_while_an_episode_is_written_waits_until_it_is(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = writing._rows

    def interrupted(episode: Episode) -> np.ndarray:
        interrupt()
        interrupt()
        return rows(episode)

    monkeypatch.setattr(writing, "_rows", interrupted)
    with pytest.raises(KeyboardInterrupt, match="1 finished episode"):
        record(push, CAR, "local/while-written", episodes=5, progress=False)
    assert decision_rnn.open_dataset("local/while-written").store.num_episodes == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_record_with_append_goes_on_with_the_next_seed(inside: Path) -> None:
    whole = record(push, CAR, "local/at-once", episodes=3, seed=7, progress=False).store
    record(push, Faulty(at_step(0, unplug)), "local/piecewise", episodes=2, seed=7, progress=False)
    with pytest.raises(TimeoutError):
        broken = Faulty(at_step(int(whole.episode_lengths[2]) + 5, unplug))
        record(push, broken, "local/piecewise", episodes=2, seed=7, progress=False, append=True)
    assert decision_rnn.open_dataset("local/piecewise").store.fingerprint == whole.fingerprint
    with pytest.raises(InputError, match=r"local/piecewise.*Pendulum-v1.*MountainCarContinuous-v0"):
        record(lambda observation: np.zeros(1), "Pendulum-v1", "local/piecewise", episodes=1, append=True)


def test_endless_environment_is_evaluated_as_long_as_the_data(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", EnvSpec("Endless-v0", PendulumEnv))
    record(spin, "Endless-v0", "local/endless", episodes=1, max_episode_steps=40, progress=False)
    dataset = record(spin, "Endless-v0", "local/endless", episodes=1, max_episode_steps=23, append=True, progress=False)
    run = decision_rnn.train(dataset, SMALL, steps=1, output="endless", progress=False)
    assert run.agent.provenance.longest_episode == 40
    result = decision_rnn.evaluate("endless", -100, episodes=2, processes=1, progress=False)
    assert result.targets[0].length_mean == 40
    assert any("2 of 2 episodes" in text and "40 steps" in text for text in result.remarks)
    result = decision_rnn.evaluate("endless", -100, episodes=2, max_episode_steps=7, processes=1, progress=False)
    assert result.targets[0].length_mean == 7


def moon(**options: Any) -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1", g=1.6, **options)


def stacked(**options: Any) -> gymnasium.Env:
    framed = gymnasium.wrappers.FrameStackObservation(gymnasium.make("Pendulum-v1", **options), 3)
    halved = gymnasium.wrappers.TransformReward(framed, lambda reward: reward / 2)
    return gymnasium.wrappers.RescaleAction(gymnasium.wrappers.FlattenObservation(halved), -1, 1)


@pytest.mark.parametrize("factory", [moon, stacked])
@pytest.mark.parametrize("kind", ["id", "object"])
def test_environment_of_a_registered_factory_is_evaluated(
    factory: Any, kind: str, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"Made{factory.__name__.title()}-v0"
    monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, factory))
    environment = name if kind == "id" else gymnasium.make(name)
    dataset = record(spin, environment, f"local/{factory.__name__}-{kind}", episodes=2)
    assert capsys.readouterr().err == ""  # neither another environment nor without a time limit
    store = dataset.store
    assert store.episode_lengths.tolist() == [200, 200]
    run = decision_rnn.train(dataset, SMALL, steps=1, output="made", progress=False)
    result = decision_rnn.evaluate(run, -100, episodes=1, processes=1, progress=False)
    assert result.targets[0].length_mean == 200


WRAPPERS = {
    "FlattenObservation": lambda env: gymnasium.wrappers.FlattenObservation(env),
    "stack": lambda env: gymnasium.wrappers.FlattenObservation(gymnasium.wrappers.FrameStackObservation(env, 3)),
    "NormalizeObservation": lambda env: gymnasium.wrappers.NormalizeObservation(env),
    "NormalizeReward": lambda env: gymnasium.wrappers.NormalizeReward(env),
    "ClipAction": lambda env: gymnasium.wrappers.ClipAction(env),
    "RescaleAction": lambda env: gymnasium.wrappers.RescaleAction(env, -0.5, 0.5),
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_wrapped_environment_is_recorded_with_its_wrappers(
    kind: str, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrap = WRAPPERS[kind]
    dataset = record(spin, wrap(gymnasium.make("Pendulum-v1")), f"local/wrapped-{kind}", episodes=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(f"local/wrapped-{kind}.*Pendulum-v1.*additional_wrappers", line)
    by_hand = wrap(gymnasium.make("Pendulum-v1"))
    for seed, episode in enumerate(dataset.store):
        observation, _ = by_hand.reset(seed=seed)
        for t, action in enumerate(episode.actions):
            np.testing.assert_array_equal(episode.observations[t], observation.astype(np.float32))
            observation, reward, *_ = by_hand.step(action)
            assert episode.rewards[t] == reward
    run = decision_rnn.train(dataset, SMALL, steps=1, output="made", progress=False, evaluation={"episodes": 0})
    box = run.agent.provenance.action_space
    expected = by_hand.action_space
    if kind == "ClipAction":  # without bounds: the range of the data
        actions = dataset.store.actions
        expected = gymnasium.spaces.Box(actions.min(0), actions.max(0))
    np.testing.assert_allclose([box.low, box.high], [expected.low, expected.high])


def test_record_of_stacked_frames_ravels_them(inside: Path) -> None:
    framed = gymnasium.wrappers.FrameStackObservation(gymnasium.make("Pendulum-v1"), 3)
    store = record(lambda observation: spin(observation[-1]), framed, "local/framed", episodes=1).store
    frames = store.observations.reshape(-1, 3, 3)
    np.testing.assert_array_equal(frames[1:, 1], frames[:-1, 2])


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


def push_dial(observation: np.ndarray) -> np.ndarray:
    return 0.1 + 0 * observation


@pytest.mark.parametrize(
    "make",
    [Dial, lambda: gymnasium.wrappers.TimeLimit(Dial(), 12)],
    ids=["alone", "limited"],
)
def test_unregistered_environment_gives_data_of_no_environment(
    make: Any, inside: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    limited, environment = "limited" in request.node.name, make()
    name = f"local/{request.node.callspec.id}-dial"
    dataset = record(push_dial, environment, name, episodes=2, seed=3)
    first, *others = capsys.readouterr().err.splitlines()
    assert re.search(f"Dial.*{name}", first)
    assert ["has no time limit" in line for line in others] == [True] * (not limited)
    store = dataset.store
    assert store.environment_id is None
    dial = Dial()
    by_hand, _ = dial.reset(seed=3)
    episode = next(iter(store))
    for t, action in enumerate(episode.actions):
        np.testing.assert_array_equal(episode.observations[t], by_hand)
        by_hand, *_ = dial.step(action)
    assert (episode.terminated, episode.truncated) == (not limited, limited)
    assert len(episode.actions) == 12 if limited else by_hand[0] >= 1
    assert record(push_dial, environment, name, episodes=2, progress=False, append=True).store.num_episodes == 4
    run = decision_rnn.train(dataset, SMALL, steps=1, output="dial", progress=False)
    box = run.agent.provenance.action_space
    np.testing.assert_array_equal([box.low, box.high], [[0.0], [0.25]])
    assert run.config.evaluation.episodes == 0
