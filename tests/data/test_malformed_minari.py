"""Malformed Minari datasets: each raises an InputError and leaves nothing behind."""

import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
import pytest
from faults import Payload, assert_nothing_made, pickled_objects
from minari_files import boxes, edit, specification

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.episode import Episode
from decision_rnn.data.formats.minari import write_dataset
from decision_rnn.utils.errors import InputError

ID = "theirs/bad-v0"
LENGTHS = (3, 5, 1)
ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a valid dataset of three episodes."""
    root = tmp_path_factory.mktemp("good")
    normal = np.random.default_rng(0).normal
    episodes = [Episode(normal(size=(n + 1, 11)), normal(size=(n, 3)), normal(size=n), True, False) for n in LENGTHS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        write_dataset(ID, episodes, environment_id="Hopper-v5", spaces=boxes(11, 3), metadata={}, source={})
    return root / ID / "data"


@pytest.fixture
def data(good: Path, folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of a copy, without a network, for which Minari's host would be asked for half a minute."""

    def fail(dataset_id: str, force_download: bool) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(minari, "download_dataset", fail)
    return Path(shutil.copytree(good, folders / "minari" / ID / "data"))


def refuses(data: Path) -> None:
    with pytest.raises(InputError, match=r"theirs/bad-v0|CartPole-v1") as raised:
        open_dataset(f"minari/{ID}").open()
    assert len(str(raised.value).splitlines()) == 1
    assert_nothing_made(data)


def spoilt(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def spoil(old: np.ndarray) -> np.ndarray:
        new = old.astype(np.float64)
        new.reshape(-1)[0] = value
        return new

    return spoil


def resized(by: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda old: np.zeros((len(old) + by, *old.shape[1:]), old.dtype)


CHANGES: list[Any] = [
    *(lambda old: None, resized(-1), resized(7), lambda old: old[..., None], lambda old: np.float32(0)),
    *map(spoilt, (np.nan, np.inf, 1e39)),
    *(lambda old, values=values: values for values in (np.array([b"0.5"]), np.zeros(3, np.complex64))),
    *(lambda old, values=values: values for values in (np.zeros(3, [("x", np.float32)]), h5py.Empty(np.float32))),
]


@pytest.mark.parametrize("key", ARRAYS)
def test_minari_dataset_with_a_missing_or_malformed_array_raises(key: str, good: Path, data: Path) -> None:
    """Values that are not finite make flags that are neither 0 nor 1."""
    for number, change in enumerate(CHANGES):
        (data / "main_data.hdf5").unlink()  # another process may still read it
        shutil.copy(good / "main_data.hdf5", data)
        with h5py.File(data / "main_data.hdf5", "a") as file:
            group = file[f"episode_{number % 2}"]
            new = change(group[key][()])
            del group[key]
            if new is not None:
                group[key] = new
        refuses(data)


def change_data(change: Callable[[h5py.File], Any]) -> Callable[[Path], None]:
    def fault(folder: Path) -> None:
        with h5py.File(folder / "main_data.hdf5", "a") as file:
            change(file)

    return fault


def empty_episode(file: h5py.File) -> None:
    for key in ARRAYS:
        values = file["episode_2"][key][: key == "observations"]
        del file["episode_2"][key]
        file["episode_2"][key] = values


def early_end(file: h5py.File) -> None:
    file["episode_1"]["terminations"][2] = True


def wide(file: h5py.File) -> None:
    for number, length in enumerate(LENGTHS):
        del file[f"episode_{number}"]["observations"]
        file[f"episode_{number}"]["observations"] = np.zeros((length + 1, 12))


def linked(file: h5py.File) -> None:
    del file["episode_0"]
    file["episode_0"] = h5py.ExternalLink("other.hdf5", "/")


def pickled(folder: Path) -> None:
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        del file["episode_0"]["rewards"]
        file["episode_0"]["rewards"] = pickled_objects(folder / "mark")


FAULTS = [
    *map(change_data, (empty_episode, early_end, wide, linked, lambda file: file.pop("episode_1"), h5py.File.clear)),
    *(partial(edit, total_episodes=count) for count in (None, -1, 0, 2, 4, 10**12, "3", [3])),
    *(partial(edit, data_format=name) for name in ("arrow", "pickle", 7, None)),
    partial(edit, eval_env_spec=specification(id="CartPole-v1", max_episode_steps=500)),
    partial(edit, eval_env_spec=specification(id="os:system")),
    partial(
        edit,
        eval_env_spec=specification(id="HalfCheetah-v5", entry_point="os:getcwd", max_episode_steps=1000, kwargs={}),
    ),
    pickled,
    lambda folder: (folder / "main_data.hdf5").write_bytes(pickle.dumps(Payload(folder / "mark"))),
    lambda folder: (folder / "main_data.hdf5").write_bytes((folder / "main_data.hdf5").read_bytes()[:-300]),
    lambda folder: (folder / "main_data.hdf5").unlink(),
    lambda folder: (folder / "metadata.json").unlink(),
    *(
        lambda folder, content=content: (folder / "metadata.json").write_bytes(content)
        for content in (b"[]", b"null", b"{}", b"\xff", b"[" * 10**5)
    ),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_minari_dataset_raises(fault: Callable[[Path], Any], data: Path) -> None:
    fault(data)
    refuses(data)


@pytest.mark.usefixtures("data")
def test_minari_dataset_without_faults_opens() -> None:
    assert open_dataset(f"minari/{ID}").open().episodes == len(LENGTHS)
