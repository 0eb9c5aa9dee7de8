"""D4RL's layout: reading files written by h5py, and writing files that round-trip bit for bit."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from d4rl_files import arrays_of, hopper_episodes, write
from random_episodes import rewards_of

from decision_rnn.data.episode import Episode
from decision_rnn.data.sources.d4rl import read_d4rl, write_d4rl
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

KINDS = [(1, True, False), (7, True, False), (40, False, True), (1, False, True), (25, False, False)]


@pytest.fixture
def hopper() -> list[Episode]:
    """Terminated, truncated, of one step, and a partial last episode."""
    return hopper_episodes(KINDS)


def assert_equal(read: list[Episode], expected: list[Episode]) -> None:
    for ours, theirs in zip(read, expected, strict=True):
        np.testing.assert_array_equal(ours.observations, theirs.observations)
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        np.testing.assert_array_equal(ours.rewards, theirs.rewards)
        assert (ours.terminated, ours.truncated) == (theirs.terminated, theirs.truncated)


def test_file_of_version_2_gives_its_episodes(hopper: list[Episode], tmp_path: Path) -> None:
    notes: list[str] = []
    assert_equal(list(read_d4rl(write(tmp_path / "f.hdf5", arrays_of(hopper)), notes, max_episode_steps=1000)), hopper)
    assert len(notes) == 1
    assert "1 of 5 episodes (25 steps)" in notes[0]


def test_float64_and_column_arrays_of_replay_files(hopper: list[Episode], tmp_path: Path) -> None:
    replay = {key: values.astype(np.float64) for key, values in arrays_of(hopper).items()}
    replay |= {key: replay[key][:, None] for key in ("rewards", "terminals", "timeouts")}
    file = write(tmp_path / "f.hdf5", replay)
    assert_equal(list(read_d4rl(file, [], max_episode_steps=1000)), hopper)


def test_partial_episode_ends_at_the_seam_of_two_files(hopper: list[Episode], tmp_path: Path) -> None:
    both = [*hopper, *hopper_episodes([(30, True, False), (9, False, False)], seed=1)]
    notes: list[str] = []
    assert_equal(list(read_d4rl(write(tmp_path / "f.hdf5", arrays_of(both)), notes, max_episode_steps=1000)), both)
    assert "2 of 7 episodes (34 steps)" in notes[0]


def test_without_next_observations_the_last_is_repeated(hopper: list[Episode], tmp_path: Path) -> None:
    arrays = arrays_of(hopper)
    del arrays["next_observations"]
    for read, episode in zip(read_d4rl(write(tmp_path / "f.hdf5", arrays), []), hopper, strict=True):
        np.testing.assert_array_equal(read.observations[:-1], episode.observations[:-1])
        np.testing.assert_array_equal(read.observations[-1], episode.observations[-2])


def test_extra_observation_columns_are_dropped(hopper: list[Episode], tmp_path: Path) -> None:
    notes: list[str] = []
    read = list(read_d4rl(write(tmp_path / "f.hdf5", arrays_of(hopper)), notes, observation_dims=(4, 11)))
    np.testing.assert_array_equal(read[1].observations, hopper[1].observations[:, :4])
    assert any("first 4 of 11" in note for note in notes)
    with pytest.raises(InputError, match=r"f\.hdf5: observations"):
        list(read_d4rl(tmp_path / "f.hdf5", [], observation_dims=(4, 12)))


@pytest.mark.parametrize("seed", range(4))
def test_random_stores_round_trip_bit_for_bit(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    kinds = [
        (int(random.integers(1, 41)), *map(bool, random.integers(2, size=2))) for _ in range(random.integers(1, 9))
    ]
    rewards = [random.normal(3, 10.0 ** random.integers(-6, 7), length) for length, *_ in kinds]
    episodes = [replace(e, rewards=r) for e, r in zip(hopper_episodes(kinds, seed), rewards, strict=True)]
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id="Hopper-v5", source={})
    write_d4rl(tmp_path / "f.hdf5", store)
    read = read_d4rl(tmp_path / "f.hdf5", [])
    again = EpisodeStore.write(tmp_path / "again", read, environment_id="Hopper-v5", source={})
    assert again.fingerprint == store.fingerprint
    np.testing.assert_array_equal(rewards_of(again), rewards_of(store))


def test_written_file_has_the_arrays_and_dtypes_of_d4rl(hopper: list[Episode], tmp_path: Path) -> None:
    store = EpisodeStore.write(tmp_path / "store", hopper, environment_id="Hopper-v5", source={})
    write_d4rl(tmp_path / "f.hdf5", store)
    with h5py.File(tmp_path / "f.hdf5") as file:
        for key, values in arrays_of(hopper).items():
            np.testing.assert_array_equal(file[key], values)
        assert file["observations"].dtype == np.float32
        assert file["terminals"].dtype == bool


def test_partial_episode_without_a_visible_end_is_refused(tmp_path: Path) -> None:
    first, second = hopper_episodes([(5, False, False), (6, True, False)])
    second.observations[0] = first.observations[-1]
    store = EpisodeStore.write(tmp_path / "store", [first, second], environment_id="Hopper-v5", source={})
    with pytest.raises(InputError, match="partial episode"):
        write_d4rl(tmp_path / "f.hdf5", store)
    assert not (tmp_path / "f.hdf5").exists()
