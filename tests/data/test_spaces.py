"""The box of a dataset's actions: the environment's, or else the range of the data."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box

from decision_rnn.data.episode import Episode
from decision_rnn.data.spaces import describe_actions, spaces_of
from decision_rnn.data.spec import described_spaces
from decision_rnn.data.store import EpisodeStore

Write = Callable[..., EpisodeStore]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a store of one episode with actions between two numbers; the last entry of each action is constant."""

    def write(low: float, high: float, environment_id: str, **source: object) -> EpisodeStore:
        actions = np.linspace(low, high, 30).reshape(10, 3)
        actions[:, 2] = high
        episode = Episode(np.random.default_rng(0).normal(size=(11, 11)), actions, np.ones(10), True, False)
        return EpisodeStore.write(tmp_path / "store", [episode], environment_id=environment_id, source=source)

    return write


UNKNOWN = "factory/Plant-v0"
ALTERED = {"environment_settings": {"kwargs": {"frame_skip": 1}, "max_episode_steps": 1000}}


@pytest.mark.parametrize(
    ("data", "environment_id", "source", "low", "high"),
    [
        ((-5, 5), "Hopper-v5", {}, [-1] * 3, [1] * 3),  # MuJoCo clips controls to their range
        ((-0.2, 0.2), "Hopper-v5", {}, [-1] * 3, [1] * 3),
        ((-0.9, 1.005), UNKNOWN, {}, [-1, -1, 1.005], [1, 1, 1.005]),  # the third never changes
        ((0, 58), UNKNOWN, {}, [0, 2, 58], [54, 56, 58]),
        ((-0.4, 0.4), "Hopper-v5", ALTERED, [-1, -1, 0.4], [1, 1, 0.4]),
    ],
)
def test_action_box_is_the_environments_or_the_range_of_the_data(write: Write, data, environment_id, source, low, high):
    box = spaces_of(write(*data, environment_id, **source))[1]
    np.testing.assert_allclose(box.low, low, rtol=1e-6)
    np.testing.assert_allclose(box.high, high, rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "environment_id", "source", "words"),
    [
        ((-0.9, 0.9), "Hopper-v5", {}, None),
        (
            (-0.9, 0.9),
            UNKNOWN,
            {},
            "scaled to -1 to 1, since all in the data are that small; entry 2 has a single value and is held",
        ),
        ((-5, 5), "Hopper-v5", {}, "-1 to 1, the box of Hopper-v5; in 100.0% of the steps an action is outside it"),
        (
            (0, 58),
            UNKNOWN,
            {},
            "0 to 58, their range in the data, since the box of factory/Plant-v0",
        ),
        ((-2, 2), "Hopper-v5", ALTERED, "their range in the data, since the box of Hopper-v5 cannot be asked here"),
    ],
)
def test_describe_box_says_where_it_comes_from_and_how_much_is_clipped(
    write: Write, data, environment_id, source, words
):
    store = write(*data, environment_id, **source)
    described = describe_actions(store, spaces_of(store)[1])
    assert described is None if words is None else words in described


def test_box_of_a_single_number_keeps_its_shape(tmp_path: Path) -> None:
    """An environment takes an action of its shape, which is none."""
    episode = Episode(np.zeros((11, 3)), np.zeros((10, 1)), np.ones(10), True, False)
    scalar = described_spaces(None, Box(-2, 2, ()))
    store = EpisodeStore.write(tmp_path / "store", [episode], environment_id=UNKNOWN, source={"spaces": scalar})
    assert spaces_of(store)[1] == Box(-2, 2, ())
