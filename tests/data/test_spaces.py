"""Spaces of a dataset: their description, the bounds of actions, and the entries that a mask keeps."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from decision_rnn.data.episode import Episode
from decision_rnn.data.info import warn_of_actions
from decision_rnn.data.spaces import described_spaces, read_spaces
from decision_rnn.data.spec import DatasetSpec, observation_index, spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.registry import known_spaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.records import read_record

Write = Callable[..., EpisodeStore]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a store of one episode with actions between two numbers; the last entry of each action is constant."""

    def write(low: float, high: float, environment_id: str, **source: object) -> EpisodeStore:
        actions = np.linspace(low, high, 30).reshape(10, 3)
        actions[:, 2] = high
        episode = Episode(np.random.default_rng(0).normal(size=(11, 11)), actions, np.ones(10), True, False)
        spaces = known_spaces(environment_id, source.get("environment_settings")) or (None, None)
        path = tmp_path / "store"
        return EpisodeStore.write(path, [episode], environment_id=environment_id, source=source, spaces=spaces)

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
def test_action_box_is_the_environments_or_that_of_the_data(write: Write, data, environment_id, source, low, high):
    box = write(*data, environment_id, **source).action_space
    np.testing.assert_allclose(box.low, low, rtol=1e-6)
    np.testing.assert_allclose(box.high, high, rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "environment_id", "words"),
    [
        ((-0.9, 0.9), "Hopper-v5", ()),
        ((-0.9, 0.9), UNKNOWN, ("-1 to 1", "entry 2")),
        ((-5, 5), "Hopper-v5", ("-1 to 1", "100.0%")),
        ((0, 58), UNKNOWN, ("0 to 58", "range in the data")),
    ],
)
def test_warning_of_actions_names_the_box_and_what_is_clipped(write: Write, data, environment_id, words):
    warnings = list(warn_of_actions(write(*data, environment_id)))
    assert len(warnings) == bool(words)
    assert all(word in warnings[0] for word in words)


def test_box_of_a_single_number_keeps_its_shape(tmp_path: Path) -> None:
    """An environment takes an action of its shape, which is none."""
    episode = Episode(np.zeros((11, 3)), np.zeros((10, 1)), np.ones(10), True, False)
    spaces = None, Box(-2, 2, ())
    store = EpisodeStore.write(tmp_path / "store", [episode], environment_id=UNKNOWN, source={}, spaces=spaces)
    assert store.action_space == Box(-2, 2, ())


def test_spec_round_trips_through_json(write: Write) -> None:
    spec = spec_of_store("local/x", write(-5, 5, "Hopper-v5", notes=["one"]))
    again = read_record(json.loads(json.dumps(asdict(spec))), DatasetSpec)
    assert again == spec
    assert again.action_space == Box(-1, 1, (3,))


def test_described_dict_keeps_the_order_of_its_entries() -> None:
    """Rows of numbers follow it."""
    space = Tuple([Dict(place=Box(-1, 1, (2,)), heading=Dict(sine=Box(-1, 1, (1,)), cosine=Box(-1, 1, (1,))))])
    read, actions = read_spaces(described_spaces(space, Discrete(2)))
    assert read == space
    assert list(read[0]) == ["place", "heading"]
    assert list(read[0]["heading"]) == ["sine", "cosine"]
    assert actions == Discrete(2)


def test_observation_index_of_velocity_mask_is_the_positions() -> None:
    """Hopper's state has 6 positions, the first of which is not observed, and 6 velocities."""
    index = observation_index("velocity", "Hopper-v5")
    assert index is not None
    assert index.dtype == np.int64
    np.testing.assert_array_equal(index, [0, 1, 2, 3, 4])
    assert observation_index("none", "Pendulum-v1") is None
    with pytest.raises(InputError, match="Pendulum-v1"):
        observation_index("velocity", "Pendulum-v1")
