"""Constant columns, Unix times and equal returns, which make agents act badly though every number is valid."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.episode import Episode
from decision_rnn.data.info import format_info, warn_of_observations, warn_of_returns
from decision_rnn.data.spec import spec_of_store
from decision_rnn.data.store import EpisodeStore

Make = Callable[..., EpisodeStore]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a store of Pendulum-shaped episodes whose observation columns and rewards are replaced."""

    def store(
        columns: dict[int, Callable[[np.ndarray], np.ndarray]], reward: float | None = None, scale: float = 1.0
    ) -> EpisodeStore:
        generator = np.random.default_rng(0)

        def episode(number: int) -> Episode:
            time = np.arange(21.0) + 100 * number
            observations = generator.normal(size=(21, 3))
            for column, values in columns.items():
                observations[:, column] = values(time)
            rewards = scale * generator.normal(size=20) if reward is None else np.full(20, reward)
            return Episode(observations, generator.uniform(-1, 1, (20, 1)), rewards, False, True)

        episodes = [episode(number) for number in range(5)]
        return EpisodeStore.write(tmp_path / f"odd-{scale}-{reward}", episodes, environment_id="Pendulum-v1", source={})

    return store


def test_ordinary_data_have_no_warnings(make: Make) -> None:
    store = make({0: lambda time: 1e6 + time, 1: lambda time: 1e-5 * np.sin(time), 2: lambda time: time})
    assert [*warn_of_observations(store), *warn_of_returns(store)] == []


def test_constant_column_unix_time_and_equal_returns(make: Make) -> None:
    store = make({1: lambda time: np.full_like(time, 0.5), 2: lambda time: 1.76e9 + 0.02 * time}, reward=-1.0)
    dataset = Dataset("local/odd", store, spec_of_store("local/odd", store))
    lines = [line for line in format_info(dataset).splitlines() if "warning" in line]
    assert [line.split()[0] for line in lines] == ["warning"] * 3
    assert "entry 1 of" in lines[0]
    assert "entry 2 of" in lines[1]
    assert "-20" in lines[2]
    assert list(warn_of_observations(store, np.array([0, 1]))) == [lines[0].split(maxsplit=1)[1]]


def test_equal_returns_of_data_with_goals_need_relabeling(make: Make) -> None:
    store, place = make({}, reward=-1.0), Box(-np.inf, np.inf, (1,))
    store.observation_space = Dict(achieved_goal=place, desired_goal=place, observation=place)
    assert "goal_relabeling hindsight" in next(warn_of_returns(store))
    store.observation_space = Dict(achieved_goal=place, observation=place)
    assert "--condition none" in next(warn_of_returns(store))


def test_returns_of_a_small_scale_are_not_taken_to_be_equal(make: Make) -> None:
    assert list(warn_of_returns(make({}, scale=1e-9))) == []
    assert len(list(warn_of_returns(make({}, reward=1e-9)))) == 1


def test_odd_entries_of_a_dict_are_named_by_their_keys(make: Make) -> None:
    store = make({1: np.zeros_like, 2: lambda time: 1.76e9 + 0.02 * time})
    space = Dict(arm=Box(-1, 1, (2,)), clock=Box(0, np.inf, (1,)))
    store.observation_space = space
    constant, lost = warn_of_observations(store)
    assert constant.startswith("entry 1 (arm, 1)")
    assert lost.startswith("entry 2 (clock)")


def test_many_constant_columns_are_shortened(make: Make) -> None:
    columns = dict.fromkeys(range(3), np.zeros_like)
    (sentence,) = warn_of_observations(make(columns))
    assert sentence.startswith("each of the entries 0, 1, 2")
