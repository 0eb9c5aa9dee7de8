"""Constant columns, Unix times and equal returns, which make agents act badly though every number is valid."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_files import random_episode, written
from gymnasium.spaces import Box, Dict

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.info import format_info, warn_of_observations, warn_of_returns
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore

Make = Callable[..., EpisodeStore]
PLACE = Box(-np.inf, np.inf, (1,))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a store of Pendulum-shaped episodes whose observation columns and rewards are replaced."""

    def store(columns: dict[int, Callable[..., np.ndarray]], reward: float | None = None, scale: float = 1.0):
        generator, episodes = np.random.default_rng(0), []
        for number in range(5):
            episodes.append(random_episode(generator, (20, False, True), (3, 1)))
            for column, values in columns.items():
                episodes[-1].observations[:, column] = values(np.arange(21.0) + 100 * number)
            episodes[-1].rewards[:] = scale * episodes[-1].rewards if reward is None else reward
        return written(tmp_path / f"odd-{scale}-{reward}", episodes, "Pendulum-v1")

    return store


def test_ordinary_data_have_no_warnings(make: Make) -> None:
    store = make({0: lambda time: 1e6 + time, 1: lambda time: 1e-5 * np.sin(time), 2: lambda time: time})
    assert [*warn_of_observations(store), *warn_of_returns(store)] == []
    assert list(warn_of_returns(make({}, scale=1e-9))) == []


def test_constant_column_unix_time_and_equal_returns(make: Make) -> None:
    store = make({1: lambda time: np.full_like(time, 0.5), 2: lambda time: 1.76e9 + 0.02 * time}, reward=-1.0)
    dataset = Dataset("local/odd", store, spec_of_store("local/odd", store))
    lines = [line for line in format_info(dataset).splitlines() if "warning" in line]
    for line, words in zip(lines, ("entries 1, 2 of", "-20"), strict=True):
        assert words in line
    store.observation_space = Dict(arm=Box(-1, 1, (2,)), clock=Box(0, np.inf, (1,)))
    (both,) = warn_of_observations(store)
    assert "1 (arm, 1), 2 (clock)" in both


def test_equal_returns_of_data_with_goals_need_relabeling(make: Make) -> None:
    store = make({}, reward=-1e-9)
    store.observation_space = Dict(achieved_goal=PLACE, desired_goal=PLACE, observation=PLACE)
    assert "goal_relabeling hindsight" in next(warn_of_returns(store))
    store.observation_space = Dict(achieved_goal=PLACE, observation=PLACE)
    assert "--condition none" in next(warn_of_returns(store))
