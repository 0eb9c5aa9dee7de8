"""Batched physics of Hopper, HalfCheetah and Walker2d, beside Gymnasium's environments, each stepped by itself."""

import gymnasium
import numpy as np
import pytest

from decision_rnn.environments import playing
from decision_rnn.environments.locomotion import Bodies, is_locomotion
from decision_rnn.environments.registry import make_environment

IDS = [f"{name}-v{version}" for name in ("Hopper", "HalfCheetah", "Walker2d") for version in (4, 5)]


@pytest.mark.parametrize("environment_id", IDS)
def test_bodies_move_as_gymnasiums_bit_for_bit(environment_id):
    seeds, steps = [3, 50, 2**31], 1000
    environments = [make_environment(environment_id) for _ in seeds]
    bodies = Bodies(make_environment(environment_id), len(seeds))
    observations = bodies.reset(seeds)
    for environment, seed, row in zip(environments, seeds, observations, strict=True):
        np.testing.assert_array_equal(row, environment.reset(seed=seed)[0], strict=True)
    generator, rows = np.random.default_rng(0), np.arange(len(seeds))
    while len(rows) and bodies.lengths.max() < steps:
        scale = generator.random() ** 2  # small actions keep a body up for longer
        actions = (scale * generator.uniform(-1.5, 1.5, (len(rows), *environments[0].action_space.shape))).astype("f")
        results = bodies.step(rows, actions)
        over = results[2] | results[3]
        for i, row in enumerate(rows):
            expected = environments[row].step(actions[i])
            for value, right in zip([part[i] for part in results], expected, strict=True):
                if isinstance(right, dict):
                    assert value == right
                else:
                    np.testing.assert_array_equal(value, right)
        rows = rows[~over]
    assert "Cheetah" not in environment_id or bodies.lengths.min() == steps


def test_only_default_locomotion_environments_are_replaced():
    assert all(is_locomotion(make_environment(name)) for name in IDS)
    assert not is_locomotion(make_environment("CartPole-v1"))
    assert not is_locomotion(make_environment("Swimmer-v5"))
    assert not is_locomotion(make_environment("Hopper-v5", render_mode="rgb_array"))
    assert not is_locomotion(gymnasium.wrappers.ClipAction(make_environment("Hopper-v5")))
    assert not is_locomotion(gymnasium.wrappers.TimeLimit(make_environment("Hopper-v5"), 200))
    assert not is_locomotion(make_environment("Hopper-v5").unwrapped)  # has no time limit


def test_environments_are_closed_if_one_of_a_group_cannot_be_made(monkeypatch):
    made = [gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")]
    closed = []
    for index, environment in enumerate(made):
        monkeypatch.setattr(environment, "close", lambda index=index: closed.append(index))
    remaining = iter(made)
    monkeypatch.setattr(playing, "make_environment", lambda environment_id: next(remaining))
    with pytest.raises((RuntimeError, StopIteration)):
        playing.make_group("CartPole-v1", 3)
    assert sorted(closed) == [0, 1]
