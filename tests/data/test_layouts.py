"""Rows of numbers from values of Gymnasium spaces, against `gymnasium.spaces.flatten`."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from decision_rnn.data.layouts import Layout
from decision_rnn.utils.errors import InputError

NESTED = Dict(
    goal=Tuple([Discrete(3, start=1), Box(0, 255, (2, 2), np.uint8)]), at=Box(-1, 1, ()), flags=MultiBinary(3)
)
SPACES = [
    Discrete(4),
    MultiDiscrete([2, 3]),
    MultiDiscrete([[2, 3], [4, 5]]),
    Box(-1, 1, (2, 3)),
    MultiBinary(2),
    NESTED,
]


def samples(space: gymnasium.Space[Any]) -> list[Any]:
    space.seed(0)
    return [space.sample() for _ in range(5)]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_layout_rows_equal_those_of_gymnasium_and_stand_for_the_values(space: gymnasium.Space[Any]) -> None:
    layout, values = Layout.of_space(space, "values"), samples(space)
    rows = layout.rows_of(values, "values")
    np.testing.assert_array_equal(rows, [gymnasium.spaces.flatten(space, value) for value in values])
    again = layout.values(rows)
    np.testing.assert_array_equal(layout.rows(again, "values"), rows)
    for value, row in zip(values, rows, strict=True):
        assert layout.holds_one(value)
        np.testing.assert_array_equal(layout.rows_of([value], "values")[0], row)
    assert not layout.holds_one(again)
    assert Layout.from_json(layout.to_json()) == layout


def test_layout_of_a_vector_environment_takes_its_batched_values() -> None:
    envs = gymnasium.make_vec("CliffWalking-v1", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    rows = Layout.of_space(envs.single_observation_space, "observations").rows(observations, "observations")
    np.testing.assert_array_equal(rows.argmax(1), observations)
    np.testing.assert_array_equal(rows.sum(1), 1)


def test_layout_leaves_text_out() -> None:
    space = Dict(mission=Text(5), heading=Discrete(2))
    layout = Layout.of_space(space, "observations")
    np.testing.assert_array_equal(layout.rows_of([{"mission": "go", "heading": 1}], "observation"), [[0, 1]])
    assert layout.names == ["heading, 0", "heading, 1"]


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 255, (84, 84, 3), np.uint8),
        gymnasium.spaces.Sequence(Discrete(2)),
        gymnasium.spaces.OneOf([Discrete(2), Discrete(3)]),
        Dict(mission=Text(5)),
    ],
    ids=str,
)
def test_layout_of_spaces_that_agents_cannot_read_raises(space: gymnasium.Space[Any]) -> None:
    with pytest.raises(InputError, match=type(space).__name__):
        Layout.of_space(space, "observations")


ORIGIN = np.zeros((2, 2))


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
