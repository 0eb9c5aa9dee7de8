"""The datasets of D4RL: names, local files, and the converted store."""

import hashlib
import os
from pathlib import Path

import gymnasium
import pytest
from d4rl_files import arrays_of, hopper_episodes, make_file, write

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.sources import SOURCES, d4rl
from decision_rnn.data.spec import TASKS
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.summary import DataSummary
from decision_rnn.utils.errors import InputError

NAME = "d4rl/hopper-medium-v2"
FILE = "hopper_medium-v2.hdf5"


def test_d4rl_names_have_version_4_environments_and_d4rl_references() -> None:
    assert len(SOURCES["d4rl"].names()) == 24
    specs = [open_dataset(name).spec for name in SOURCES["d4rl"].names()]
    assert {spec.environment_id for spec in specs} == {"Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4"}
    spec = open_dataset("d4rl/walker2d-medium-expert-v2").spec
    assert (spec.reference_min, spec.reference_max) == (1.629008, 4592.3)  # D4RL's infos.py
    assert (spec.target_returns, spec.return_scale) == ((5000.0, 2500.0), 1000.0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # gymnasium recommends v5
@pytest.mark.parametrize("task", sorted(TASKS))
def test_version_4_environments_have_the_shapes_of_d4rl_data(task: str) -> None:
    known = TASKS[task]
    environment = gymnasium.make(open_dataset(f"d4rl/{task}-medium-v2").spec.environment_id)
    assert environment.observation_space.shape == (known.observation_dim,)
    assert environment.action_space.shape == (known.action_dim,)
    assert environment.spec.max_episode_steps == d4rl.TIME_LIMIT


@pytest.mark.parametrize("name", ["d4rl/hopper-medium-v0", "d4rl/hoper-medium-v2", "d4rl/", "d4rl/../hopper-medium-v2"])
def test_unknown_d4rl_version_or_name_raises(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown dataset.*TASK-LEVEL-v2"):
        open_dataset(name).open()


@pytest.mark.usefixtures("data")
def test_d4rl_file_given_by_path_is_converted_once(folders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = make_file(folders / "mine.hdf5")
    store = open_dataset(NAME, path=file).open()
    assert (store.episodes, store.steps, store.environment_id) == (3, 20, "Hopper-v4")
    error = capfd.readouterr().err
    assert "1 of 3 episodes (4 steps) break off" in error
    assert "not that of the published file" in error
    made = (store.path / "manifest.json").stat().st_mtime_ns
    os.utime(file)  # another modification time, the same bytes
    assert open_dataset(NAME, path=file).open().fingerprint == store.fingerprint
    assert (store.path / "manifest.json").stat().st_mtime_ns == made
    assert capfd.readouterr().err == ""


def test_local_d4rl_files_are_found_and_their_store_outlives_them(data: Path, folders: Path) -> None:
    home = folders / ".d4rl" / "datasets"
    home.mkdir(parents=True)
    at_home = make_file(home / FILE, seed=1)
    from_home = open_dataset(NAME).open()
    in_data = make_file(data / FILE, seed=2)
    from_data = open_dataset(NAME).open()
    assert from_data.fingerprint != from_home.fingerprint
    assert from_data.manifest["source"]["files"][0]["path"] == str(in_data)
    in_data.unlink()
    assert open_dataset(NAME).open().fingerprint == from_home.fingerprint
    at_home.unlink()
    assert open_dataset(NAME).open().fingerprint == from_home.fingerprint


@pytest.mark.usefixtures("data")
def test_unpublished_d4rl_file_is_marked_as_not_comparable_with_papers(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in what results say of the data, and when the dataset is used later without --path."""
    dataset = open_dataset(NAME)
    assert "where the file is the published one, compare with papers on hopper-medium-v2" in dataset.spec.comparable
    file = make_file(folders / "mine.hdf5")
    made = open_dataset(NAME, path=file).open()
    assert "file is not D4RL's hopper-medium-v2: compare with no paper's" in dataset.spec.comparable
    assert "compare with no paper's" in DataSummary.from_store(dataset.spec, made).comparable
    for partial in ("keep", "drop"):
        notes = open_dataset(NAME, partial=partial).open().manifest["source"]["notes"]
        assert "not that of the published file" in " ".join(notes)
    monkeypatch.setitem(d4rl.SHA256, "hopper_medium", hashlib.sha256(file.read_bytes()).hexdigest())
    assert "the file is the published one, compare with papers" in dataset.spec.comparable


def test_changed_d4rl_file_is_converted_again(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = open_dataset(NAME, path=make_file(data / FILE, seed=1)).open()
    second = open_dataset(NAME, path=make_file(data / FILE, seed=2)).open()
    assert second.fingerprint != first.fingerprint
    assert "made from something else" in capfd.readouterr().err


def test_partial_option_keeps_or_drops_partial_episodes(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One at a seam, one at the end: what is left is the same as if the file did not contain them."""
    kinds = [(7, True, False), (6, False, False), (9, False, True), (4, False, False)]
    episodes = hopper_episodes(kinds)
    file = write(data / FILE, arrays_of(episodes))
    kept = open_dataset(NAME).open()
    assert "--partial drop" in capfd.readouterr().err
    dropped = open_dataset(NAME, partial="drop").open()
    directly = EpisodeStore.write(tmp_path / "directly", episodes[::2], environment_id="Hopper-v4", source={})
    assert dropped.fingerprint == directly.fingerprint != kept.fingerprint
    assert dropped.manifest["source"]["notes"][-1].startswith("2 of 4 episodes")
    assert open_dataset(NAME).open().fingerprint == kept.fingerprint
    file.unlink()
    write(data / FILE, arrays_of(hopper_episodes(kinds, seed=1)))
    assert open_dataset(NAME, partial="drop").open().fingerprint != dropped.fingerprint


@pytest.mark.usefixtures("data")
def test_missing_file_or_path_for_a_standin_raises(folders: Path) -> None:
    for path in (folders / "none.hdf5", folders):
        with pytest.raises(InputError, match="is not a file"):
            open_dataset(NAME, path=path).open()
    with pytest.raises(InputError, match="leave out --path"):
        open_dataset("hopper-medium", path=folders / "none.hdf5").open()
