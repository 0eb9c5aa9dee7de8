"""Environments whose sensor fails, against the environments themselves."""

import gymnasium
import numpy as np
import pytest

from decision_rnn import InputError, SensorFault, evaluate
from decision_rnn.environments.registry import make_environment


def play(environment: gymnasium.Env, steps: int, seed: int = 3) -> tuple[np.ndarray, list]:
    """Observations, the first one included, and all else that `step` returns, of random actions."""
    generator = np.random.default_rng(0)
    observation, _ = environment.reset(seed=seed)
    observations, outcomes = [observation], []
    for _ in range(steps):
        action = generator.uniform(-1, 1, environment.action_space.shape).astype(np.float32)
        observation, *outcome = environment.step(action)
        observations.append(observation)
        outcomes.append(outcome)
    return np.array(observations), outcomes


@pytest.mark.parametrize("fault", ["freeze", "zero", "noise"])
def test_observations_of_faults_are_not_seen_and_all_others_are(fault: str) -> None:
    true, outcomes = play(gymnasium.make("Pendulum-v1"), 12)
    observations, same = play(make_environment(f"decision_rnn/{fault}-2-of-5-Pendulum-v1"), 12)
    assert same == outcomes
    failed = [3, 4, 8, 9]
    np.testing.assert_array_equal(np.delete(observations, failed, 0), np.delete(true, failed, 0))
    if fault == "freeze":
        np.testing.assert_array_equal(observations[failed], true[[2, 2, 7, 7]])
    elif fault == "zero":
        assert not observations[failed].any()
    else:
        assert np.unique(observations[failed]).size == 12
        again, _ = play(make_environment("decision_rnn/noise-2-of-5-Pendulum-v1"), 12)
        np.testing.assert_array_equal(observations, again)
        long, _ = play(make_environment("decision_rnn/noise-999-of-1000-Pendulum-v1"), 200)
        assert abs(long[1:].mean()) < 0.2
        assert long[1:].std() == pytest.approx(1, abs=0.1)


def test_an_episode_begins_without_a_fault() -> None:
    environment = make_environment("decision_rnn/freeze-4-of-5-Pendulum-v1")
    play(environment, 3)
    assert environment.spec is not None
    assert environment.spec.max_episode_steps == 200
    np.testing.assert_array_equal(environment.reset(seed=5)[0], gymnasium.make("Pendulum-v1").reset(seed=5)[0])


@pytest.mark.parametrize(
    ("environment_id", "message"),
    [
        ("decision_rnn/freeze-5-of-5-Pendulum-v1", "5 of 5 steps"),
        ("decision_rnn/freeze-1-of-5-FrozenLake-v1", "Discrete"),
        ("decision_rnn/freeze-1-of-5-Absent-v0", "Absent"),
    ],
)
def test_faults_that_cannot_be_are_refused(environment_id: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_environment(environment_id)


def test_environments_of_ours_have_faults() -> None:
    environment = make_environment("decision_rnn/zero-1-of-2-TMaze-30-v0")
    assert isinstance(environment, SensorFault)
    assert not environment.reset(seed=0)[0][0]
    assert not environment.step(0)[0].any()


def test_agent_is_evaluated_with_faults() -> None:
    """The agent that ships stands upright for fewer steps when it sees nothing for half of the time."""
    plain = evaluate("pretrained/hopper-medium", ["auto"], episodes=2, progress=False)
    blind = evaluate(
        "pretrained/hopper-medium",
        ["auto"],
        episodes=2,
        progress=False,
        environment_id="decision_rnn/zero-25-of-50-Hopper-v5",
    )
    assert blind.targets[0].length_mean < plain.targets[0].length_mean
    assert "zero-25-of-50" in str(blind)
