"""The actors of the stand-ins, against torch and the environments stepped by hand."""

import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from decision_rnn.data.sources import standin
from decision_rnn.data.sources.standin import RECIPES, UNIFORM, Actor
from decision_rnn.environments.playing import play_episode

SMALL = replace(RECIPES["standin/hopper-mixed"], steps=3000)  # of several policies


@pytest.mark.parametrize("name", [name for name, _ in SMALL.policies])
def test_numpy_policy_equals_the_torch_actor(name: str) -> None:
    weights = load_file(SMALL.files()[name])
    linear = torch.nn.functional.linear
    observations = np.random.default_rng(0).normal(0, 2, (200, 11))
    x = torch.tensor(observations, dtype=torch.float32)
    for layer in ("hidden.0", "hidden.1"):
        x = torch.relu(linear(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"]))
    mean = linear(x, weights["mean.weight"], weights["mean.bias"])
    log_std = linear(x, weights["log_std.weight"], weights["log_std.bias"]).clamp(-20, 2)

    policy = Actor(SMALL.files()[name])
    ours = [policy.distribution(observation) for observation in observations]
    np.testing.assert_allclose([m for m, _ in ours], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([s for _, s in ours], log_std.exp(), rtol=1e-4, atol=1e-6)

    noise = torch.tensor(np.random.default_rng(1).standard_normal((200, 3), np.float32))
    for scale in (1.0, 0.5, 0.0):
        policy, generator = Actor(SMALL.files()[name], scale), np.random.default_rng(1)
        actions = np.stack([policy.sample(observation, generator) for observation in observations])
        np.testing.assert_allclose(actions, torch.tanh(mean + scale * log_std.exp() * noise), rtol=1e-4, atol=1e-5)
        assert actions.dtype == np.float32


def test_random_standin_draws_uniform_actions_in_its_environment() -> None:
    recipe = RECIPES["standin/halfcheetah-random"]
    episode = recipe.player()(0)
    assert episode.observations.shape == (1001, 17)
    assert episode.actions.shape == (1000, 6)
    assert episode.actions.dtype == np.float32
    deciles = np.histogram(episode.actions, 10, (-1, 1))[0] / episode.actions.size
    np.testing.assert_allclose(deciles, 0.1, atol=0.02)  # and none outside
    assert episode.truncated
    assert not episode.terminated


def test_replaying_an_episodes_seed_and_actions_reproduces_it() -> None:
    episode = SMALL.player()(3)
    actions = iter(episode.actions)
    again = play_episode(gymnasium.make("Hopper-v5"), lambda *_: next(actions), episode.seed)
    np.testing.assert_equal(vars(again), vars(episode))


def test_policies_are_played_in_the_shares_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    class Falling:
        def __init__(self, file: Path, noise: float) -> None:
            self.name = file.stem

        def sample(self, *_: object) -> np.ndarray:
            played.append(self.name)
            return np.zeros(3, np.float32)

    monkeypatch.setattr(standin, "Actor", Falling)
    monkeypatch.setattr(standin, "make_environment", lambda name: gymnasium.make(name, max_episode_steps=1))
    player = SMALL.player()
    for index in range(2000):
        player(index)
    shares = [played.count(name) / 2000 for name, _ in SMALL.policies]
    np.testing.assert_allclose(shares, [share for _, share in SMALL.policies], atol=0.03)


def test_description_depends_on_the_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = SMALL.describe()
    assert before == json.loads(json.dumps(before))
    for name, file in SMALL.files().items():
        (tmp_path / f"{name}.safetensors").write_bytes(file.read_bytes() + b" ")
    monkeypatch.setattr(standin, "BEHAVIOR", tmp_path)
    assert SMALL.describe() != before


def test_actors_are_those_of_the_recipes() -> None:
    used = {name for recipe in RECIPES.values() for name, _ in recipe.policies} - {UNIFORM}
    assert {path.stem for path in standin.BEHAVIOR.glob("*.safetensors")} == used
