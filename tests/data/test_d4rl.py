"""D4RL's layout: reading files written by h5py, and writing files that round-trip bit for bit."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from d4rl_files import arrays_of, hopper_episodes, write
from random_episodes import rewards_of

from decision_rnn.data.episode import Episode
from decision_rnn.data.formats import d4rl
from decision_rnn.data.formats.d4rl import D4RLFile, write_file
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


def test_d4rl_file_of_version_2_gives_its_episodes_and_notes_the_partial_tail(
    hopper: list[Episode], tmp_path: Path
) -> None:
    contents = D4RLFile(write(tmp_path / "f.hdf5", arrays_of(hopper)), 1000)
    assert_equal(list(contents.episodes()), hopper)
    assert (contents.steps, contents.observation_dim, contents.action_dim) == (74, 11, 3)
    assert len(contents.notes) == 1
    assert contents.notes[0].startswith("1 of 5 episodes (25 steps) break off with no flag")


def test_d4rl_file_accepts_float64_and_column_arrays_of_replay_files(hopper: list[Episode], tmp_path: Path) -> None:
    arrays = arrays_of(hopper)
    replay = {key: values.astype(np.float64) for key, values in arrays.items()}
    replay |= {key: replay[key][:, None] for key in ("rewards", "terminals", "timeouts")}
    assert_equal(list(D4RLFile(write(tmp_path / "f.hdf5", replay), 1000).episodes()), hopper)


def test_d4rl_file_ends_a_partial_episode_at_the_seam_of_two_files(hopper: list[Episode], tmp_path: Path) -> None:
    both = [*hopper, *hopper_episodes([(30, True, False), (9, False, False)], seed=1)]
    contents = D4RLFile(write(tmp_path / "f.hdf5", arrays_of(both)), 1000)
    assert_equal(list(contents.episodes()), both)
    assert "2 of 7 episodes (34 steps)" in contents.notes[0]


def test_d4rl_file_without_next_observations_repeats_the_last_observation(
    hopper: list[Episode], tmp_path: Path
) -> None:
    arrays = arrays_of(hopper)
    del arrays["next_observations"]
    contents = D4RLFile(write(tmp_path / "f.hdf5", arrays), 1000)
    for read, episode in zip(contents.episodes(), hopper, strict=True):
        np.testing.assert_array_equal(read.observations[:-1], episode.observations[:-1])
        np.testing.assert_array_equal(read.observations[-1], episode.observations[-2])
    assert "no next_observations" in contents.notes[1]


def test_d4rl_file_observed_argument_drops_extra_observation_columns(hopper: list[Episode], tmp_path: Path) -> None:
    contents = D4RLFile(write(tmp_path / "f.hdf5", arrays_of(hopper)), 1000, observed=4)
    read = list(contents.episodes())
    assert contents.observation_dim == 4
    np.testing.assert_array_equal(read[1].observations, hopper[1].observations[:, :4])
    assert "first 4 of 11 observations" in contents.notes[0]


@pytest.mark.parametrize("seed", range(8))
def test_random_stores_round_trip_through_d4rl_file_bit_for_bit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(d4rl, "CHUNK", 50)
    random = np.random.default_rng(seed)
    kinds = [
        (int(random.integers(1, 41)), *map(bool, random.integers(2, size=2))) for _ in range(random.integers(1, 9))
    ]
    rewards = [random.normal(3, 10.0 ** random.integers(-6, 7), length) for length, *_ in kinds]
    episodes = [replace(e, rewards=r) for e, r in zip(hopper_episodes(kinds, seed), rewards, strict=True)]
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id="Hopper-v5", source={})
    write_file(tmp_path / "f.hdf5", store)
    read = D4RLFile(tmp_path / "f.hdf5").episodes()
    again = EpisodeStore.write(tmp_path / "again", read, environment_id="Hopper-v5", source={})
    assert again.fingerprint == store.fingerprint
    np.testing.assert_array_equal(rewards_of(again), rewards_of(store))


def test_write_file_writes_the_arrays_and_dtypes_of_d4rl(hopper: list[Episode], tmp_path: Path) -> None:
    store = EpisodeStore.write(tmp_path / "store", hopper, environment_id="Hopper-v5", source={})
    write_file(tmp_path / "f.hdf5", store)
    with h5py.File(tmp_path / "f.hdf5") as file:
        for key, values in arrays_of(hopper).items():
            np.testing.assert_array_equal(file[key], values)
        assert file["observations"].dtype == np.float32
        assert file["terminals"].dtype == bool


def test_write_file_raises_if_a_partial_episode_has_no_visible_end_or_the_file_exists(tmp_path: Path) -> None:
    first, second = hopper_episodes([(5, False, False), (6, True, False)])
    second.observations[0] = first.observations[-1]
    store = EpisodeStore.write(tmp_path / "store", [first, second], environment_id="Hopper-v5", source={})
    with pytest.raises(InputError, match="export it as minari"):
        write_file(tmp_path / "f.hdf5", store)
    assert not (tmp_path / "f.hdf5").exists()
    second.observations[0] += 1
    store = EpisodeStore.write(tmp_path / "other", [first, second], environment_id="Hopper-v5", source={})
    (tmp_path / "f.hdf5").write_text("precious")
    with pytest.raises(InputError, match=r"f\.hdf5 exists"):
        write_file(tmp_path / "f.hdf5", store)
    assert (tmp_path / "f.hdf5").read_text() == "precious"
