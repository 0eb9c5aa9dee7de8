"""Spaces as rows of numbers, against `gymnasium.spaces.flatten`; as JSON; and the bounds of actions."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from decision_rnn.data.spec import DatasetSpec, spec_of_store
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.layouts import Layout
from decision_rnn.environments.registry import describe_alteration, known_spaces, settings_of
from decision_rnn.environments.spaces import described_spaces, read_spaces
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import read_record, to_json

NESTED = Dict(
    goal=Tuple([Discrete(3, start=1), Box(0, 255, (2, 2), np.uint8)]), at=Box(-1, 1, ()), flags=MultiBinary(3)
)
SPACES = [Discrete(4), MultiDiscrete([2, 3]), MultiDiscrete([[2, 3], [4, 5]]), Box(-1, 1, (2, 3)), NESTED]
ORIGIN = np.zeros((2, 2))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_rows_equal_those_of_gymnasium_and_stand_for_the_values(space: gymnasium.Space[Any]) -> None:
    space.seed(0)
    layout, values = Layout.of_space(space, "values"), [space.sample() for _ in range(5)]
    rows = layout.rows_of(values, "values")
    np.testing.assert_array_equal(rows, [gymnasium.spaces.flatten(space, value) for value in values])
    again = layout.values(rows)
    np.testing.assert_array_equal(layout.rows(again, "values"), rows)
    assert all(map(layout.holds_one, values))
    assert not layout.holds_one(again)
    assert Layout.from_json(layout.to_json()) == layout


def test_layout_of_a_vector_environment_takes_its_batched_values() -> None:
    envs = gymnasium.make_vec("CliffWalking-v1", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    rows = Layout.of_space(envs.single_observation_space, "observations").rows(observations, "observations")
    np.testing.assert_array_equal(rows, np.eye(48)[observations])


def test_layout_leaves_text_out() -> None:
    layout = Layout.of_space(Dict(mission=Text(5), heading=Discrete(2)), "observations")
    np.testing.assert_array_equal(layout.rows_of([{"mission": "go", "heading": 1}], "observation"), [[0, 1]])
    assert layout.names == ["heading, 0", "heading, 1"]


UNREADABLE = [
    Box(0, 255, (84, 84, 3), np.uint8),
    gymnasium.spaces.Sequence(Discrete(2)),
    gymnasium.spaces.OneOf([Discrete(2), Discrete(3)]),
    Dict(mission=Text(5)),
]


@pytest.mark.parametrize("space", UNREADABLE, ids=str)
def test_layout_of_spaces_that_agents_cannot_read_raises(space: gymnasium.Space[Any]) -> None:
    with pytest.raises(InputError, match=type(space).__name__):
        Layout.of_space(space, "observations")


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"at": 0.0, "flags": [0, 0, 0]}, "goal.0"),
        (np.zeros((9, 9)), "goal.0"),
        ({"at": 0.0, "flags": [0, 0, 0], "goal": (0, ORIGIN)}, r"goal\.0.* 1 to 3"),
        ({"at": 0.0, "flags": [0, 0], "goal": (1, ORIGIN)}, r"flags.*\(3,\).*\(2,\)"),
        ({"at": "here", "flags": [0, 0, 0], "goal": (1, ORIGIN)}, "at.*here"),
    ],
)
def test_value_of_another_space_raises_naming_the_part(value: Any, part: str) -> None:
    with pytest.raises(InputError, match=f"observation {part}"):
        Layout.of_space(NESTED, "observations").rows_of([value], "observation")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., EpisodeStore]:
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
        ((-0.58, 0.58), UNKNOWN, {}, [-0.58, -0.54, 0.58], [0.5, 0.54, 0.58]),
        ((0, 5.8e-6), UNKNOWN, {}, [0, 2e-7, 5.8e-6], [5.4e-6, 5.6e-6, 5.8e-6]),
        ((0, 58), UNKNOWN, {}, [0, 2, 58], [54, 56, 58]),
        ((0, 0.58), "Hopper-v5", ALTERED, [0, 0.02, 0.58], [0.54, 0.56, 0.58]),
    ],
)
def test_action_box_is_the_environments_or_that_of_the_data(
    write: Callable[..., EpisodeStore], data, environment_id, source, low, high
) -> None:
    store = write(*data, environment_id, **source)
    np.testing.assert_allclose(store.action_space.low, low, rtol=1e-6)
    np.testing.assert_allclose(store.action_space.high, high, rtol=1e-6)


def test_box_of_a_single_number_keeps_its_shape(tmp_path: Path) -> None:
    """An environment takes an action of its shape, which is none."""
    episode = Episode(np.zeros((11, 3)), np.zeros((10, 1)), np.ones(10), True, False)
    spaces = None, Box(-2, 2, ())
    store = EpisodeStore.write(tmp_path / "store", [episode], environment_id=UNKNOWN, source={}, spaces=spaces)
    assert store.action_space == Box(-2, 2, ())


def test_spec_round_trips_through_json(write: Callable[..., EpisodeStore]) -> None:
    spec = spec_of_store("local/x", write(-5, 5, "Hopper-v5", notes=["one"]))
    again = read_record(json.loads(json.dumps(asdict(spec))), DatasetSpec)
    assert again == spec
    assert again.action_space == Box(-1, 1, (3,))


def test_infinite_settings_are_known_from_metadata(
    write: Callable[..., EpisodeStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = EnvSpec("Tall-v0", "gymnasium.envs.mujoco.hopper_v5:HopperEnv", kwargs={"healthy_z_range": (0.7, np.inf)})
    monkeypatch.setitem(gymnasium.registry, "Tall-v0", spec)
    data = spec_of_store("local/x", write(-5, 5, UNKNOWN, environment_settings=settings_of(spec)))
    settings = to_json(data)["environment_settings"]
    json.dumps(settings, allow_nan=False)
    assert describe_alteration("Tall-v0", settings) is None
    assert describe_alteration("Tall-v0", settings | {"kwargs": {"healthy_z_range": [0.8, None]}})


def test_described_dict_keeps_the_order_of_its_entries() -> None:
    """Rows of numbers follow it."""
    space = Tuple([Dict(place=Box(-1, 1, (2,)), heading=Dict(sine=Box(-1, 1, (1,)), cosine=Box(-1, 1, (1,))))])
    read, actions = read_spaces(described_spaces(space, Discrete(2)))
    assert (read, actions) == (space, Discrete(2))
    assert list(read[0]) == ["place", "heading"]
    assert list(read[0]["heading"]) == ["sine", "cosine"]
