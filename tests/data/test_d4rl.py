"""D4RL: its layout read and written bit for bit, local files, downloads, and malformed files."""

import errno
import hashlib
import os
import pickle
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest
from data_files import (
    Payload,
    arrays_of,
    assert_equal,
    assert_nothing_made,
    hopper_episodes,
    hopper_file,
    pickled_objects,
    random_episode,
    rewards_of,
    write_hdf5,
    written,
)
from file_server import FileServer, serving
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.formats import open_log
from decision_rnn.data.logs import LogOptions
from decision_rnn.data.sources import d4rl
from decision_rnn.data.sources.d4rl import D4RLSource, read_d4rl, write_d4rl
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.episode import Episode
from decision_rnn.environments.tasks import TASKS
from decision_rnn.utils.errors import InputError

ENDS = [(1, True, False), (7, True, False), (40, False, True), (1, False, True), (25, False, False)]
NAME, FILE = "d4rl/hopper-medium-v2", "hopper_medium-v2.hdf5"


@pytest.fixture
def hopper() -> list[Episode]:
    """Terminated, truncated, of one step, and a partial last episode."""
    return hopper_episodes(ENDS)


def test_file_gives_its_episodes_also_partial_ones(hopper: list[Episode], tmp_path: Path) -> None:
    both = [*hopper, *hopper_episodes([(30, True, False), (9, False, False)], seed=1)]
    for episodes in (hopper, both):
        file = write_hdf5(tmp_path / "f.hdf5", arrays_of(episodes))
        assert_equal(read_d4rl(file, TASKS["hopper"]), episodes)


def test_contact_forces_of_ant_are_dropped(tmp_path: Path) -> None:
    episode = random_episode(np.random.default_rng(0), (5, True, False), (111, 8))
    file = write_hdf5(tmp_path / "f.hdf5", arrays_of([episode]))
    (read,) = read_d4rl(file, TASKS["ant"])
    np.testing.assert_array_equal(read.observations, episode.observations[:, :27])
    with pytest.raises(InputError, match=r"f\.hdf5: observations"):
        read_d4rl(file, TASKS["hopper"])


@pytest.mark.parametrize("seed", range(4))
def test_random_stores_round_trip_bit_for_bit(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    episodes = []
    for _ in range(random.integers(1, 9)):
        kind = (int(random.integers(1, 41)), *map(bool, random.integers(2, size=2)))
        episodes.append(random_episode(random, kind))
        episodes[-1].rewards[:] *= 10.0 ** random.integers(-6, 7)
    store = written(tmp_path / "store", episodes)
    for each, name in ((store, "whole"), (store.select(np.arange(len(store)) % 2 == 0), "part")):
        write_d4rl(tmp_path / f"{name}.hdf5", each)
        again = written(tmp_path / name, list(open_log(tmp_path / f"{name}.hdf5", LogOptions()).episodes))
        np.testing.assert_array_equal(again.table, each.table)
        np.testing.assert_array_equal(rewards_of(again), rewards_of(each))


def test_written_file_has_the_arrays_and_dtypes_of_d4rl(hopper: list[Episode], tmp_path: Path) -> None:
    write_d4rl(tmp_path / "f.hdf5", written(tmp_path / "store", hopper))
    with h5py.File(tmp_path / "f.hdf5") as file:
        for key, values in arrays_of(hopper).items():
            np.testing.assert_array_equal(file[key], values)
        assert (file["observations"].dtype, file["terminals"].dtype) == (np.float32, bool)


def test_choices_are_written_as_their_numbers_and_parts_are_refused(tmp_path: Path) -> None:
    choices, pairs = np.array([2, 1, 3, 3]), np.array([[0, 1], [2, 0], [1, 1], [2, 1]])
    for spaces, actions in (((Discrete(6), Discrete(3, start=1)), choices), ((None, MultiDiscrete([3, 2])), pairs)):
        observations = np.arange(5) if spaces[0] else np.zeros((5, 2))
        episode = Episode(observations, actions, np.ones(4), True, False)
        name = type(spaces[1]).__name__
        store = EpisodeStore.write(tmp_path / name, [episode], environment_id=None, source={}, spaces=spaces)
        write_d4rl(tmp_path / f"{name}.hdf5", store)
        with h5py.File(tmp_path / f"{name}.hdf5") as file:
            np.testing.assert_array_equal(file["actions"], actions)
            np.testing.assert_array_equal(file["next_observations"], observations[1:])
        read = open_log(tmp_path / f"{name}.hdf5", LogOptions()).episodes
        again = EpisodeStore.write(tmp_path / f"{name} again", read, environment_id=None, source={}, spaces=spaces)
        np.testing.assert_array_equal(again.table, store.table)
    parts = {"arm": np.zeros((5, 2)), "goal": np.ones((5, 1))}
    space = Dict(arm=Box(-9, 9, (2,)), goal=Box(-9, 9, (1,)))
    episode = Episode(parts, np.zeros((4, 1)), np.ones(4), True, False)  # type: ignore[arg-type]
    store = EpisodeStore.write(tmp_path / "parts", [episode], environment_id=None, source={}, spaces=(space, None))
    with pytest.raises(InputError, match=r"observations of .*parts are Dict\(.*minari"):
        write_d4rl(tmp_path / "parts.hdf5", store)


def test_partial_episode_without_a_visible_end_is_refused(tmp_path: Path) -> None:
    first, second = hopper_episodes([(5, False, False), (6, True, False)])
    second.observations[0] = first.observations[-1]
    with pytest.raises(InputError, match="partial episode"):
        write_d4rl(tmp_path / "f.hdf5", written(tmp_path / "store", [first, second]))
    assert not (tmp_path / "f.hdf5").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # gymnasium recommends v5
@pytest.mark.parametrize("task", sorted(TASKS))
def test_version_4_environments_have_the_shapes_of_the_data(task: str) -> None:
    known = TASKS[task]
    environment = gymnasium.make(f"{known.environment}-v4")
    assert environment.observation_space.shape == (known.observation_dim,)
    assert environment.action_space == Box(-1.0, 1.0, (known.action_dim,)) == known.spaces()[1]


@pytest.mark.usefixtures("data")
def test_file_given_by_path_is_converted_once(folders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = hopper_file(folders / "mine.hdf5")
    dataset = open_dataset(NAME, path=file)
    store, spec = dataset.store, dataset.spec
    assert (store.num_episodes, store.steps, spec.environment_id) == (3, 20, "Hopper-v4")
    assert (spec.reference_min, spec.reference_max) == (-20.272305, 3234.3)  # D4RL's infos.py
    assert (spec.return_scale, spec.target_returns) == (1000.0, (3600.0, 1800.0))
    error = capfd.readouterr().err
    assert "SHA-256" in error
    made = (store.path / "manifest.json").stat().st_mtime_ns
    os.utime(file)  # another modification time, the same bytes
    assert open_dataset(NAME, path=file).store.fingerprint == store.fingerprint
    assert (store.path / "manifest.json").stat().st_mtime_ns == made
    assert capfd.readouterr().err == ""
    for name, path, word in (
        (NAME, folders / "none.hdf5", r"none\.hdf5"),
        ("hopper-medium", file, "--path"),
        ("d4rl/hopper-medium-v0", file, NAME),
    ):
        with pytest.raises(InputError, match=word):
            open_dataset(name, path=path)


def test_local_files_are_found_and_their_store_outlives_them(
    data: Path, folders: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folders / ".d4rl" / "datasets").mkdir(parents=True)
    at_home = hopper_file(folders / ".d4rl" / "datasets" / FILE, seed=1)
    from_home = open_dataset(NAME).store
    in_data = hopper_file(data / FILE, seed=2)
    from_data = open_dataset(NAME).store
    assert "making it again" in capfd.readouterr().err
    assert from_data.fingerprint != from_home.fingerprint
    assert from_data.source["files"][0]["path"] == str(in_data)
    for file in (in_data, at_home):
        file.unlink()
        assert open_dataset(NAME).store.fingerprint == from_home.fingerprint


@pytest.mark.usefixtures("data")
def test_unpublished_file_is_not_compared_with_papers(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = hopper_file(folders / "mine.hdf5")
    for path, partial in ((file, "keep"), (None, "keep"), (None, "drop")):  # also when used later without --path
        spec = open_dataset(NAME, path, partial).spec
        assert "not D4RL's hopper-medium-v2" in spec.comparable
        assert any("SHA-256" in note for note in spec.notes)
    monkeypatch.setitem(d4rl.SHA256, "hopper_medium", hashlib.sha256(file.read_bytes()).hexdigest())
    assert "is the published one" in open_dataset(NAME).spec.comparable


@pytest.fixture
def server(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server that publishes hopper_medium-v2.hdf5."""
    content = hopper_file(data / "published").read_bytes()
    (data / "published").unlink()
    monkeypatch.setitem(d4rl.SHA256, "hopper_medium", hashlib.sha256(content).hexdigest())
    with serving(content) as listening:
        monkeypatch.setattr(d4rl, "ADDRESS", listening.address)
        yield listening


def test_missing_file_is_downloaded_once(server: FileServer, data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    threads = [threading.Thread(target=open_dataset, args=(NAME,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = open_dataset(NAME, path="published").store
    assert store.steps == 20
    assert (data / FILE).read_bytes() == server.content
    assert store.source["files"][0]["sha256"] == d4rl.SHA256["hopper_medium"]
    assert "published file" not in capfd.readouterr().err
    assert server.requests == [f"/{FILE}"]


def test_failed_download_leaves_no_file(server: FileServer, data: Path) -> None:
    content, server.content = server.content, server.content[:-1] + b"?"
    with pytest.raises(InputError, match=rf"{FILE}.*--path"):
        open_dataset(NAME)
    assert [path.name for path in data.iterdir()] == [f".{FILE}.lock"]
    server.content = content
    open_dataset(NAME)
    assert (data / FILE).read_bytes() == content


def test_every_dataset_has_the_hash_of_its_file() -> None:
    """Of all 24: the package downloads nothing of D4RL that it cannot identify."""
    names = [name.removeprefix("d4rl/").removesuffix("-v2").replace("-", "_") for name in D4RLSource().names()]
    assert sorted(d4rl.SHA256) == sorted(names)
    assert len({*d4rl.SHA256.values()}) == 24
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in d4rl.SHA256.values())


def test_full_disk_is_no_fault_of_the_network(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **settings: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pooch.retrieve", full)
    with pytest.raises(OSError, match="No space left"):
        open_dataset(NAME)
    assert server.requests == []


ARRAYS = arrays_of(hopper_episodes())
FAULTS = [
    *({key: None} for key in ("observations", "actions", "rewards", "terminals")),
    *({key: np.zeros((21,), np.float32)} for key in ARRAYS),
    *({key: np.full_like(ARRAYS[key], np.nan)} for key in ("observations", "actions", "rewards")),
    {"observations": np.zeros((1, 20, 11), np.float32)},
    {"rewards": np.array([b"0.5"] * 20)},
]


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("changes", FAULTS)
def test_malformed_arrays_raise_naming_the_key(changes: dict[str, Any], tmp_path: Path) -> None:
    arrays = {key: values for key, values in (ARRAYS | changes).items() if values is not None}
    with pytest.raises(InputError, match=rf"bad\.hdf5.*{next(iter(changes))}"):
        open_dataset(NAME, path=write_hdf5(tmp_path / "bad.hdf5", arrays))
    assert_nothing_made(tmp_path)


@pytest.mark.usefixtures("folders")
def test_files_that_are_no_hdf5_raise_and_no_pickle_is_loaded(tmp_path: Path) -> None:
    file, mark = hopper_file(tmp_path / "bad.hdf5"), tmp_path / "mark"
    content = file.read_bytes()
    for damaged in (content[:-500], pickle.dumps(Payload(mark)), b""):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"bad\.hdf5"):
            open_dataset(NAME, path=file)
    with h5py.File(hopper_file(file), "a") as handle:
        del handle["rewards"]
        handle["rewards"] = pickled_objects(mark)
    with pytest.raises(InputError, match=r"bad\.hdf5.*rewards"):
        open_dataset(NAME, path=file)
    assert_nothing_made(tmp_path)
