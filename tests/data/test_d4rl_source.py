"""The datasets of D4RL: names, local files, and the converted store."""

import hashlib
import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from d4rl_files import arrays_of, hopper_episodes, make_file, write
from gymnasium.spaces import Box

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources import SOURCES, d4rl
from decision_rnn.data.spec import TASKS
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError

NAME = "d4rl/hopper-medium-v2"
FILE = "hopper_medium-v2.hdf5"


def test_spec_has_a_version_4_environment_and_d4rl_references(data: Path) -> None:
    assert len(SOURCES["d4rl"].names()) == 24
    make_file(data / FILE)
    spec = open_dataset(NAME).spec
    assert (spec.environment_id, spec.return_scale, spec.target_returns) == ("Hopper-v4", 1000.0, (3600.0, 1800.0))
    assert (spec.reference_min, spec.reference_max) == (-20.272305, 3234.3)  # D4RL's infos.py


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # gymnasium recommends v5
@pytest.mark.parametrize("task", sorted(TASKS))
def test_version_4_environments_have_the_shapes_of_the_data(task: str) -> None:
    known = TASKS[task]
    environment = gymnasium.make(f"{known.environment}-v4")
    assert environment.observation_space.shape == (known.observation_dim,)
    assert environment.action_space == Box(-1.0, 1.0, (known.action_dim,)) == known.spaces()[1]
    assert environment.spec.max_episode_steps == d4rl.TIME_LIMIT


@pytest.mark.parametrize("name", ["d4rl/hopper-medium-v0", "d4rl/hoper-medium-v2", "d4rl/", "d4rl/../hopper-medium-v2"])
def test_unknown_version_or_name_raises(name: str) -> None:
    with pytest.raises(InputError, match="d4rl/"):
        open_dataset(name)


@pytest.mark.usefixtures("data")
def test_d4rl_file_given_by_path_is_converted_once(folders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = make_file(folders / "mine.hdf5")
    store = open_dataset(NAME, path=file).store
    assert (store.num_episodes, store.steps, store.environment_id) == (3, 20, "Hopper-v4")
    error = capfd.readouterr().err
    assert "1 of 3 episodes (4 steps)" in error
    assert "SHA-256" in error
    made = (store.path / "manifest.json").stat().st_mtime_ns
    os.utime(file)  # another modification time, the same bytes
    assert open_dataset(NAME, path=file).store.fingerprint == store.fingerprint
    assert (store.path / "manifest.json").stat().st_mtime_ns == made
    assert capfd.readouterr().err == ""


def test_local_d4rl_files_are_found_and_their_store_outlives_them(data: Path, folders: Path) -> None:
    home = folders / ".d4rl" / "datasets"
    home.mkdir(parents=True)
    at_home = make_file(home / FILE, seed=1)
    from_home = open_dataset(NAME).store
    in_data = make_file(data / FILE, seed=2)
    from_data = open_dataset(NAME).store
    assert from_data.fingerprint != from_home.fingerprint
    assert from_data.source["files"][0]["path"] == str(in_data)
    in_data.unlink()
    assert open_dataset(NAME).store.fingerprint == from_home.fingerprint
    at_home.unlink()
    assert open_dataset(NAME).store.fingerprint == from_home.fingerprint


@pytest.mark.usefixtures("data")
def test_unpublished_file_is_not_comparable_with_papers(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_file(folders / "mine.hdf5")
    for path, partial in ((file, "keep"), (None, "keep"), (None, "drop")):  # also when used later without --path
        spec = open_dataset(NAME, path, partial).spec
        assert "not D4RL's hopper-medium-v2" in spec.comparable
        assert any("SHA-256" in note for note in spec.notes)
    monkeypatch.setitem(d4rl.SHA256, "hopper_medium", hashlib.sha256(file.read_bytes()).hexdigest())
    assert "is the published one" in open_dataset(NAME).spec.comparable


def test_changed_d4rl_file_is_converted_again(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = open_dataset(NAME, path=make_file(data / FILE, seed=1)).store
    second = open_dataset(NAME, path=make_file(data / FILE, seed=2)).store
    assert second.fingerprint != first.fingerprint
    assert "making it again" in capfd.readouterr().err


def test_partial_option_keeps_or_drops_partial_episodes(data: Path, tmp_path: Path) -> None:
    """One at a seam, one at the end: what is left is the same as if the file did not contain them."""
    kinds = [(7, True, False), (6, False, False), (9, False, True), (4, False, False)]
    episodes = hopper_episodes(kinds)
    file = write(data / FILE, arrays_of(episodes))
    kept, dropped = open_dataset(NAME).store, open_dataset(NAME, partial="drop").store
    directly = EpisodeStore.write(tmp_path / "directly", episodes[::2], environment_id="Hopper-v4", source={})
    np.testing.assert_array_equal(dropped.table, directly.table)
    np.testing.assert_array_equal(dropped.observation_mean, directly.observation_mean)
    assert len({kept.fingerprint, dropped.fingerprint, directly.fingerprint}) == 3
    assert dropped.source["notes"][-1].startswith("2 of 4 episodes")
    file.unlink()
    write(data / FILE, arrays_of(hopper_episodes(kinds, seed=1)))
    assert open_dataset(NAME, partial="drop").store.fingerprint != dropped.fingerprint


@pytest.mark.usefixtures("data")
def test_missing_file_or_path_for_a_standin_raises(folders: Path) -> None:
    for path in (folders / "none.hdf5", folders):
        with pytest.raises(InputError, match=str(path)):
            open_dataset(NAME, path=path)
    with pytest.raises(InputError, match="--path"):
        open_dataset("hopper-medium", path=folders / "none.hdf5")
