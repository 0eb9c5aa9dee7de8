"""The random search that produced hopper's expert: how a point of its search space changes the policy."""

import numpy as np
import pytest
from search_behavior import COMPONENTS, FIRST, Search

from decision_rnn.data.standin.recipes import weights_path


@pytest.fixture(scope="module")
def search() -> Search:
    return Search(weights_path("hopper-seed0-0150k"), "Hopper-v5", 0.25)


def means(search: Search, observations: np.ndarray) -> np.ndarray:
    return np.array([search.policy.distribution(observation)[0] for observation in observations])


def test_search_component_shifts_one_action_and_the_zero_point_changes_nothing(search: Search) -> None:
    search.put(search.place)
    observations = np.concatenate([search.play(FIRST + i).observations[:-1] for i in range(5)])
    before = means(search, observations)
    for action, component in ((0, 0), (2, COMPONENTS - 1)):
        place = np.zeros_like(search.place)
        place[action, component] = 0.1
        search.put(place)
        moved = means(search, observations) - before
        others = [i for i in range(3) if i != action]
        np.testing.assert_allclose(moved[:, others], 0, atol=1e-6)
        np.testing.assert_allclose([moved[:, action].mean(), moved[:, action].std()], [0, 0.1], atol=1e-3)
    search.put(np.zeros_like(search.place))
    np.testing.assert_allclose(means(search, observations), before, atol=1e-6)


def test_search_bias_shifts_an_action_and_score_excludes_the_alive_reward(search: Search) -> None:
    place = np.zeros_like(search.place)
    place[:, -1] = [0.5, 0, 0]
    observation = np.zeros(11)
    search.put(np.zeros_like(place))
    before = search.policy.distribution(observation)[0]
    search.put(place)
    np.testing.assert_allclose(search.policy.distribution(observation)[0] - before, [0.5, 0, 0], atol=1e-6)
    rewards = search.play(3).rewards
    assert search.score(place, 3) == pytest.approx(float(rewards.sum()) - len(rewards), rel=1e-6)
