"""Training batches, against the episodes laid end to end, and how their first steps are drawn."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from data_files import assert_same, written

from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.environments.episode import Episode
from decision_rnn.utils.errors import InputError


@pytest.fixture
def store(episodes: list[Episode], tmp_path: Path) -> EpisodeStore:
    return written(tmp_path / "store", episodes)


def starts_of(batch: Batch, store: EpisodeStore) -> list[int]:
    """The first step of each slice, identified by its observation, which is unique."""
    return [int(np.flatnonzero((store.observations == first.numpy()).all(1))[0]) for first in batch.observation[:, 0]]


@pytest.mark.parametrize("context", [1, 10, 60, 85])
def test_stream_batches_are_slices_of_the_episodes(store: EpisodeStore, episodes: list[Episode], context: int) -> None:
    """Against the episodes laid end to end step by step."""
    steps: dict[str, list] = {name: [] for name in Batch._fields}
    for e in episodes:
        for t, action in enumerate(e.actions):
            steps["observation"].append(e.observations[t].astype(np.float32))
            steps["action"].append(action)
            steps["previous_action"].append(e.actions[t - 1] if t > 0 else np.zeros(2, np.float32))
            steps["reward"].append(np.float32(e.rewards[t]))
            steps["return_to_go"].append([e.rewards[t:].sum()])
            steps["timestep"].append(t)
            steps["reset"].append(t == 0)
            steps["subgoal"].append(np.zeros(0, np.float32))  # without goals
    stream = StepStream(store, context, batch_size=64, seed=0)
    dtypes = {"timestep": torch.int64, "reset": torch.bool}
    for _ in range(20):
        batch = stream.sample()
        parts = batch._asdict()
        assert {name: part.dtype for name, part in parts.items()} == dict.fromkeys(parts, torch.float32) | dtypes
        for row, start in enumerate(starts_of(batch, store)):
            for name, part in parts.items():
                expected = np.array(steps[name][start : start + context])
                assert part[row].shape == expected.shape
                tolerance = 1e-5 if name == "return_to_go" else 0
                np.testing.assert_allclose(part[row], expected, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("segment_start", ["anywhere", "episode"])
def test_first_steps_are_uniform(store: EpisodeStore, segment_start: str) -> None:
    """Over all, or over the beginnings of episodes; none where a segment would leave the store."""
    expected = np.ones(85 - 10 + 1)
    if segment_start == "episode":
        expected *= np.isin(np.arange(len(expected)), store.offsets)
    expected /= expected.sum()
    stream = StepStream(store, 10, 500, 0, segment_start=segment_start)
    counts = np.bincount(np.concatenate([starts_of(stream.sample(), store) for _ in range(40)]), minlength=76)
    assert not counts[expected == 0].any()
    assert scipy.stats.chisquare(counts[expected > 0], 20_000 * expected[expected > 0]).pvalue > 1e-3


def test_stream_of_tbptt_segments_continues_rows_and_marks_new_slices_by_reset(store: EpisodeStore) -> None:
    context, slices, last = 10, 4, 85 - 10
    stream = StepStream(store, context, batch_size=64, seed=0, tbptt_segments=slices)
    before, new, could = np.full(64, last), 0, 0
    for _ in range(100):
        batch = stream.sample()
        starts, reset = np.array(starts_of(batch, store)), batch.reset.numpy()
        begins = (batch.timestep == 0).numpy()
        np.testing.assert_array_equal(reset[:, 1:], begins[:, 1:])
        assert reset[begins[:, 0], 0].all()
        np.testing.assert_array_equal(starts[~reset[:, 0]], before[~reset[:, 0]] + context)
        within = (before + context <= last) & ~begins[:, 0]
        new, could = new + (reset[:, 0] & within).sum(), could + within.sum()
        before = starts
    assert could > 2000
    assert abs(new / could - 1 / slices) < 0.04  # four standard deviations


def test_rows_that_go_on_from_slice_to_slice_restart_with_an_episode(store: EpisodeStore) -> None:
    stream = StepStream(store, 5, 64, 0, tbptt_segments=3, segment_start="episode")
    before, restarted = np.array(starts_of(stream.sample(), store)), 0
    for _ in range(30):
        starts = np.array(starts_of(stream.sample(), store))
        elsewhere = starts != before + 5
        assert np.isin(starts[elsewhere], store.offsets).all()
        before, restarted = starts, restarted + elsewhere.sum()
    assert 400 < restarted < 1200  # of 1,920, a third and those at the store's end


def test_rows_that_go_on_read_every_first_step_equally(store: EpisodeStore) -> None:
    """As in segments that do not go on, also near the ends of a short log."""
    stream = StepStream(store, 10, 400, 0, tbptt_segments=8)
    for _ in range(60):  # until the rows no longer are where they began
        stream.sample()
    # Batches so far apart that hardly a row still goes on from the one before.
    batches = [[stream.sample() for _ in range(30)][-1] for _ in range(40)]
    counts = np.bincount(np.concatenate([starts_of(batch, store) for batch in batches]), minlength=76)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_rows_that_begin_with_an_episode_read_every_episode(tmp_path: Path) -> None:
    zeros = np.zeros((30, 2), np.float32)
    log = [Episode(np.full((31, 4), i, np.float32), zeros, zeros[:, 0], False, True) for i in range(20)]
    store = written(tmp_path / "log", log)
    stream = StepStream(store, 10, 200, 0, tbptt_segments=50, segment_start="episode")
    for _ in range(300):
        stream.sample()
    read = torch.stack([stream.sample().observation[..., 0] for _ in range(600)])
    shares = np.bincount(read.flatten().long(), minlength=20) / read.numel() * 20
    np.testing.assert_allclose(shares, 1, atol=0.1)


@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize("segment_start", ["anywhere", "episode"])
def test_restored_stream_continues_with_the_same_batches(
    store: EpisodeStore, tmp_path: Path, slices: int, segment_start: str
) -> None:
    stream = StepStream(store, context=10, batch_size=8, seed=0, tbptt_segments=slices, segment_start=segment_start)
    stream.sample()
    torch.save(stream.state_dict(), tmp_path / "state.pt")
    following = [stream.sample() for _ in range(5)]
    restored = StepStream(store, context=10, batch_size=8, seed=99, tbptt_segments=slices, segment_start=segment_start)
    assert not torch.equal(restored.sample().observation, following[0].observation)  # of another seed
    restored.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for expected in following:
        assert_same(expected, restored.sample())


def test_changing_a_batch_does_not_change_the_next(store: EpisodeStore) -> None:
    stream = StepStream(store, context=85, batch_size=1, seed=0)  # every batch is the whole store
    before = stream.sample().observation.clone()
    stream.sample().observation.zero_()
    assert torch.equal(stream.sample().observation, before)
    with pytest.raises(InputError, match="85 steps"):
        StepStream(store, context=86, batch_size=2, seed=0)
