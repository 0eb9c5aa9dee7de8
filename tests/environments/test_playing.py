"""The loop that plays episodes, against environments stepped by hand."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.wrappers import TimeLimit

from decision_rnn import play_episodes
from decision_rnn.environments import playing
from decision_rnn.environments.playing import DEFAULT_MAX_STEPS, play, play_episode, play_together, step_limit, take
from decision_rnn.utils.errors import InputError

CARTPOLE = "CartPole-v1"


class Counter(gymnasium.Env):
    """Ends after as many steps as its seed; returns the same array at every step."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.end, self.array = seed, np.zeros(1, np.float32)
        return self.array, {}

    def step(self, action: np.ndarray) -> Any:
        self.array += 1
        return self.array, float(action[0]), bool(self.array[0] == self.end), False, {}


def test_episodes_together_are_those_played_alone() -> None:
    """With the policy of a batch, whose rows leave it when their episodes end."""
    environments = [gymnasium.make(CARTPOLE) for _ in range(4)]
    observations = [environment.reset(seed=seed)[0] for seed, environment in enumerate(environments)]
    actions: list[list[int]] = [[] for _ in environments]
    states, rows = np.arange(4), np.arange(4)

    def policy(current: list[np.ndarray], rewards: np.ndarray, remaining: np.ndarray | None) -> np.ndarray:
        nonlocal states
        states = states if remaining is None else states[remaining]
        np.testing.assert_array_equal(states, rows)
        return np.where((rows % 2 == 0) | (np.array(current)[:, 2] > 0), 1, 0)

    for step in play_together(environments, observations, policy):
        for row, action in zip(step.rows, step.actions, strict=True):
            actions[row].append(int(action))
        rows = step.rows[~step.over]
    assert len({len(taken) for taken in actions}) > 1
    for seed, taken in enumerate(actions):
        environment = gymnasium.make(CARTPOLE)
        environment.reset(seed=seed)
        ends = [environment.step(action)[2] for action in taken]
        assert ends == [False] * (len(taken) - 1) + [True]


def test_all_environments_are_closed_if_one_fails_to(monkeypatch: pytest.MonkeyPatch) -> None:
    environments, closed = [Counter() for _ in range(3)], []
    for environment in environments:
        monkeypatch.setattr(environment, "close", lambda environment=environment: closed.append(environment))
    monkeypatch.setattr(environments[1], "close", lambda: 1 / 0)
    remaining = iter(environments)
    monkeypatch.setattr(playing, "make_environment", lambda environment_id: next(remaining))
    with pytest.raises(ZeroDivisionError), playing.make_group(CARTPOLE, 3):
        pass
    assert {*map(id, closed)} == {id(environments[0]), id(environments[2])}


def test_environments_are_closed_if_one_of_a_group_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made, closed = [gymnasium.make(CARTPOLE), gymnasium.make(CARTPOLE)], list[int]()
    for index, environment in enumerate(made):
        monkeypatch.setattr(environment, "close", lambda index=index: closed.append(index))
    remaining = iter(made)
    monkeypatch.setattr(playing, "make_environment", lambda environment_id: next(remaining))
    with pytest.raises((RuntimeError, StopIteration)), playing.make_group(CARTPOLE, 3):
        pass
    assert sorted(closed) == [0, 1]


def test_episode_is_that_of_the_environment_stepped_by_hand() -> None:
    def policy(observation: np.ndarray) -> np.ndarray:
        return -observation[2:]

    environment = gymnasium.make("Pendulum-v1")
    for number, episode in enumerate(play_episodes("Pendulum-v1", policy, episodes=2, seed=5)):
        observation, _ = environment.reset(seed=5 + number)
        for step in range(len(episode.rewards)):
            np.testing.assert_array_equal(episode.observations[step], observation)
            observation, reward, terminated, truncated, _ = environment.step(policy(observation))
            assert reward == episode.rewards[step]
        np.testing.assert_array_equal(episode.observations[-1], observation)
        assert (episode.terminated, episode.truncated, episode.seed) == (terminated, truncated, 5 + number)


def test_policy_gets_the_previous_reward_and_the_beginning() -> None:
    calls: list[Any] = []

    def act(observation: np.ndarray, reward: float, begins: bool) -> np.ndarray:
        calls.append((float(observation[0]), reward, begins))
        return observation / 10

    first, second = take(play(Counter(), act, seed=2), 2, None, "playing")
    assert first.observations.tolist() == [[0], [1], [2]]  # although the environment changes its array in place
    assert (first.terminated, first.truncated, len(second.rewards)) == (True, False, 3)
    assert calls[0] == calls[2] == (0, 0, True)
    assert [begins for *_, begins in calls] == [True, False, True, False, False]
    np.testing.assert_allclose([reward for _, reward, _ in calls], [0, 0, 0, 0, 0.1])


@pytest.mark.parametrize(("count", "steps", "played"), [(3, None, 3), (None, 5, 2), (None, 6, 3), (None, 1, 1)])
def test_take_ends_with_the_count_or_whole_episodes(count: int | None, steps: int | None, played: int) -> None:
    episodes = play(Counter(), lambda *_: np.ones(1), seed=2)  # of 2, 3, 4 steps
    assert len(list(take(episodes, count, steps, "playing"))) == played
    assert next(episodes).seed == 2 + played  # no more was played than is taken


def test_episode_is_cut_after_the_step_limit() -> None:
    limited, endless = gymnasium.make("Pendulum-v1"), PendulumEnv()
    assert [step_limit(limited), step_limit(limited, 3), step_limit(limited, None, 50)] == [None, 3, None]
    assert [step_limit(endless), step_limit(endless, 3), step_limit(endless, None, 50)] == [DEFAULT_MAX_STEPS, 3, 50]
    assert step_limit(TimeLimit(PendulumEnv(), 7)) is None  # made by no id
    episode = next(play(endless, lambda *_: np.zeros(1), max_steps=4))
    assert (len(episode.rewards), episode.terminated, episode.truncated) == (4, False, True)


@pytest.mark.parametrize("action", [np.zeros(2), 0.5, (np.ones(1), None), [np.nan]])
def test_faulty_action_is_refused_and_not_taken(action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "step", lambda *_: pytest.fail("it steps"))
    with pytest.raises(InputError, match=r"shape \(1,\)"):
        play_episode(Counter(), lambda *_: action, seed=3)


@pytest.mark.parametrize(("step", "name"), [(([np.inf], 1.0), "observations"), (([1.0], np.nan), "rewards")])
def test_number_that_is_not_finite_is_refused(step: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "step", lambda *_: (np.array(step[0]), step[1], True, False, {}))
    with pytest.raises(InputError, match=name):
        play_episode(Counter(), lambda *_: np.ones(1), seed=3)
