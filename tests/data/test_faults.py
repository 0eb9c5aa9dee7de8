"""Faults of a sensor in training batches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import written

from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.environments.episode import Episode

RATE, STEPS, CONTEXT, ROWS = 0.05, 4, 30, 400
EPISODE = 50


@pytest.fixture
def store(tmp_path: Path) -> EpisodeStore:
    """Observations are unique, and none is 0."""
    values = np.arange(1, 10 * 51 + 1, dtype=np.float32).reshape(10, 51, 1) * [1, -1]
    zeros = np.zeros((EPISODE, 1), np.float32)
    return written(tmp_path / "store", [Episode(rows, zeros, zeros[:, 0], False, True) for rows in values])


@pytest.mark.parametrize("fault", ["freeze", "zero", "noise"])
def test_spells_of_observations_are_not_seen(store: EpisodeStore, fault: str) -> None:
    options = {"sensor_fault": fault, "sensor_fault_rate": RATE, "sensor_fault_steps": STEPS}
    plain, batch = (StepStream(store, CONTEXT, ROWS, 0, **each).sample() for each in ({}, options))
    for name, part in plain._asdict().items():
        assert name == "observation" or torch.equal(part, getattr(batch, name))
    true, seen = plain.observation.numpy(), batch.observation.numpy()
    failed = (seen != true).any(-1)
    assert not failed[:, 0].any()
    assert not failed[plain.timestep == 0].any()
    for row, t in np.argwhere(failed):
        if fault == "freeze":
            last = np.flatnonzero(~failed[row, :t])[-1]
            np.testing.assert_array_equal(seen[row, t], true[row, last])
        elif fault == "zero":
            assert not seen[row, t].any()
    if fault == "noise":
        assert seen[failed].std() == pytest.approx(1, abs=0.1)
    # Of pairs of steps within an episode: how often a fault begins, and how often it ends.
    before, after = (failed[:, part][plain.timestep.numpy()[:, 1:] > 0] for part in (np.s_[:-1], np.s_[1:]))
    assert after[~before].mean() == pytest.approx(RATE, rel=0.15)
    assert 1 - after[before].mean() == pytest.approx(1 / STEPS, rel=0.15)
