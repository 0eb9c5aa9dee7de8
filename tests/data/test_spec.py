"""`DatasetSpec` as a plain record, and the observation entries that a mask keeps."""

import json
from dataclasses import asdict, fields

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from decision_rnn.data.catalog import names, open_dataset
from decision_rnn.data.spec import DatasetSpec, described_spaces, observation_index, read_space
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.records import read_record


@pytest.mark.usefixtures("folders")
def test_every_dataset_spec_round_trips_through_json() -> None:
    keys = {field.name for field in fields(DatasetSpec)}
    for name in names():
        spec = open_dataset(name).spec
        described = asdict(spec)
        assert set(described) == keys
        assert read_record(json.loads(json.dumps(described)), DatasetSpec) == spec


def test_space_that_is_read_has_the_entries_of_dicts_in_the_order_of_those_that_were_described() -> None:
    """Rows of numbers follow it."""
    space = Tuple([Dict(place=Box(-1, 1, (2,)), heading=Dict(sine=Box(-1, 1, (1,)), cosine=Box(-1, 1, (1,))))])
    described = described_spaces(space, Discrete(2))
    read = read_space(described["observation"])
    assert read == space
    assert list(read[0]) == ["place", "heading"]
    assert list(read[0]["heading"]) == ["sine", "cosine"]
    assert read_space(described["action"]) == Discrete(2)


def test_observation_index_of_velocity_mask_is_the_positions() -> None:
    """Hopper's state has 6 positions, the first of which is not observed, and 6 velocities."""
    index = observation_index("velocity", "Hopper-v5")
    assert index is not None
    assert index.dtype == np.int64
    np.testing.assert_array_equal(index, [0, 1, 2, 3, 4])
    assert observation_index("none", "Pendulum-v1") is None
    with pytest.raises(InputError, match="Pendulum-v1 are is known only for Hopper"):
        observation_index("velocity", "Pendulum-v1")
