import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from safetensors.torch import load_file

from decision_rnn.data.episode import Episode
from decision_rnn.data.standin import recipes
from decision_rnn.data.standin.collection import Collector, Policy, collect
from decision_rnn.data.standin.recipes import RECIPES, weights_path
from decision_rnn.utils.errors import EnvironmentFailure

SMALL = replace(RECIPES["standin/hopper-mixed"], steps=3000)  # of several policies


def assert_same(one: Episode, other: Episode) -> None:
    np.testing.assert_array_equal(one.observations, other.observations)
    np.testing.assert_array_equal(one.actions, other.actions)
    np.testing.assert_array_equal(one.rewards, other.rewards)
    assert (one.terminated, one.truncated, one.seed) == (other.terminated, other.truncated, other.seed)


@pytest.mark.parametrize("name", [name for name, _ in SMALL.policies])
def test_numpy_policy_equals_the_torch_actor(name: str) -> None:
    weights = load_file(weights_path(name))
    linear = torch.nn.functional.linear
    observations = np.random.default_rng(0).normal(0, 2, (200, 11))
    x = torch.tensor(observations, dtype=torch.float32)
    for layer in ("hidden.0", "hidden.1"):
        x = torch.relu(linear(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"]))
    mean = linear(x, weights["mean.weight"], weights["mean.bias"])
    log_std = linear(x, weights["log_std.weight"], weights["log_std.bias"]).clamp(-20, 2)

    policy = Policy(weights_path(name))
    ours = [policy.distribution(observation) for observation in observations]
    np.testing.assert_allclose([m for m, _ in ours], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([s for _, s in ours], log_std.exp(), rtol=1e-4, atol=1e-6)

    noise = torch.tensor(np.random.default_rng(1).standard_normal((200, 3), np.float32))
    for scale in (1.0, 0.5, 0.0):
        policy, generator = Policy(weights_path(name), scale), np.random.default_rng(1)
        actions = np.stack([policy.sample(observation, generator) for observation in observations])
        np.testing.assert_allclose(actions, torch.tanh(mean + scale * log_std.exp() * noise), rtol=1e-4, atol=1e-5)
        assert actions.dtype == np.float32


def test_random_standin_draws_uniform_actions_in_its_environment() -> None:
    recipe = RECIPES["standin/halfcheetah-random"]
    episode = Collector(recipe).play(0)
    assert episode.observations.shape == (1001, 17)
    assert episode.actions.shape == (1000, 6)
    assert episode.actions.dtype == np.float32
    deciles = np.histogram(episode.actions, 10, (-1, 1))[0] / episode.actions.size
    np.testing.assert_allclose(deciles, 0.1, atol=0.02)  # and none outside
    assert episode.truncated
    assert not episode.terminated


def test_replaying_an_episodes_seed_and_actions_reproduces_it() -> None:
    episode = Collector(SMALL).play(3)
    environment = gymnasium.make("Hopper-v5")
    observation, _ = environment.reset(seed=episode.seed)
    np.testing.assert_array_equal(observation, episode.observations[0])
    for t, action in enumerate(episode.actions):
        observation, reward, terminated, truncated, _ = environment.step(action)
        np.testing.assert_array_equal(observation, episode.observations[t + 1])
        assert reward == episode.rewards[t]
        last = t == len(episode.actions) - 1
        assert (terminated, truncated) == ((episode.terminated, episode.truncated) if last else (False, False))


def test_collect_gives_the_same_episodes_for_any_number_of_processes(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    played = [tmp_path_factory.mktemp("played") for _ in range(2)]
    monkeypatch.chdir(tmp_path)
    environment = dict(os.environ)
    one = list(collect(SMALL, played[0], progress=False, processes=1))
    two = list(collect(SMALL, played[1], processes=2))
    files = {file: file.stat().st_mtime_ns for file in played[0].iterdir()}
    kept = list(collect(SMALL, played[0], processes=1))
    assert files.items() <= {file: file.stat().st_mtime_ns for file in played[0].iterdir()}.items()
    for a, b, c in zip(one, two, kept, strict=True):
        assert_same(a, b)
        assert_same(a, c)
        assert [array.dtype for array in vars(a).values() if isinstance(array, np.ndarray)] == [
            array.dtype for array in vars(c).values() if isinstance(array, np.ndarray)
        ]
    collector = Collector(SMALL)
    for index, episode in enumerate(one):
        assert_same(episode, collector.play(index))
    assert sum(len(e.rewards) for e in one) >= SMALL.steps > sum(len(e.rewards) for e in one[:-1])
    assert one[-1].terminated or one[-1].truncated
    assert list(tmp_path.iterdir()) == []  # no MUJOCO_LOG.TXT
    assert dict(os.environ) == environment
    assert capfd.readouterr().err == ""  # no progress bar if stderr is not a terminal


def test_collector_plays_policies_in_the_shares_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []
    collector = Collector(SMALL)
    for number, policy in enumerate(collector.policies):

        def fall(*_: object, number: int = number) -> np.ndarray:
            played.append(number)
            return np.zeros(3, np.float32)

        monkeypatch.setattr(policy, "sample", fall)
    monkeypatch.setattr(collector, "environment", OneStep())
    for index in range(2000):
        collector.play(index)
    shares = np.bincount(played) / 2000
    np.testing.assert_allclose(shares, [share for _, share in SMALL.policies], atol=0.03)


class OneStep(gymnasium.Env):
    """An environment whose episodes end after one step."""

    observation_space = Box(-np.inf, np.inf, (11,))
    action_space = Box(-1, 1, (3,))

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, object]]:
        return np.zeros(11), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        return np.zeros(11), 0.0, True, False, {}


def test_recipe_fingerprint_depends_on_every_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed = [
        replace(SMALL, seed=1),
        replace(SMALL, steps=3001),
        replace(SMALL, noise=0.5),
        replace(SMALL, environment_id="Hopper-v4"),
        replace(SMALL, policies=SMALL.policies[:2]),
        replace(SMALL, policies=((SMALL.policies[0][0], 0.5), *SMALL.policies[1:])),
    ]
    fingerprints = {recipe.fingerprint for recipe in [SMALL, *changed]}
    assert len(fingerprints) == 7
    assert replace(SMALL).fingerprint in fingerprints
    for name, _ in SMALL.policies:
        (tmp_path / f"{name}.safetensors").write_bytes(weights_path(name).read_bytes() + b" ")
    monkeypatch.setattr(recipes, "BEHAVIOR", tmp_path)
    assert SMALL.fingerprint not in fingerprints
    monkeypatch.undo()
    monkeypatch.setattr(recipes, "COLLECTOR", recipes.COLLECTOR + 1)
    assert SMALL.fingerprint not in fingerprints


def test_collect_raises_if_a_worker_process_fails_or_dies(tmp_path: Path) -> None:
    unplayable = replace(SMALL, policies=(("no-such-weights", 1.0),))
    with pytest.raises(FileNotFoundError, match="no-such-weights"):
        list(collect(unplayable, tmp_path, processes=1))
    episodes = collect(replace(SMALL, steps=10**9), tmp_path, processes=1)
    next(episodes)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(EnvironmentFailure, match="a process that collects episodes has died"):
        list(episodes)
