"""Malicious names, paths and stores: each raises an InputError, and none executes code."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from d4rl_files import hopper_episodes
from faults import FEW_AND_MANY, Draw, Payload, assert_nothing_made, explore
from hypothesis import strategies as st

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.sources import d4rl
from decision_rnn.data.sources.own import write_store
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.store.verification import sha256_of, sha256_of_json
from decision_rnn.errors import InputError

TEXT = st.text("./\\\0~$%{}\n\r\t *-é\U0001f4a3", max_size=300)
PREFIXES = ("", "d4rl/", "minari/", "own/", "standin/", "complete/", "best-episodes/")
NAMES = st.tuples(st.sampled_from(PREFIXES), TEXT).map("".join)


@pytest.fixture
def folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of all data folders; there is no network."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(folders / "data"))
    monkeypatch.setenv("HOME", str(folders))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(d4rl, "URL", "http://127.0.0.1:9/")
    return folders


KNOWN = ["..", "/etc/passwd", "standin/../../x", "d4rl//", "a" * 5000, "d4rl/\0", "minari/../../x-v0", "é/é", "pong"]


@pytest.mark.parametrize("examples", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_hostile_dataset_names_raise(examples: int, folder: Path) -> None:
    def refuse(data: st.DataObject) -> None:
        name = data.draw(st.one_of(st.sampled_from(KNOWN), NAMES))
        with pytest.raises(InputError) as raised:
            open_dataset(name).open()
        assert len(str(raised.value).splitlines()) == 1
        assert list(folder.iterdir()) == []

    explore(refuse, examples)


@pytest.mark.parametrize("examples", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_hostile_dataset_paths_raise(examples: int, folder: Path) -> None:
    def refuse(data: st.DataObject) -> None:
        with pytest.raises(InputError):
            open_dataset("d4rl/hopper-medium-v2", path="./" + data.draw(TEXT)).open()
        assert_nothing_made(folder)

    explore(refuse, examples)


def forge(store: Path, **changes: Any) -> None:
    """Write a manifest whose hashes and checksum match the current files."""
    manifest = json.loads((store / "manifest.json").read_text())
    del manifest["checksum"]
    for name, file in manifest["files"].items():
        if (store / name).is_file():
            file |= {"bytes": (store / name).stat().st_size, "sha256": sha256_of(store / name)}
    manifest |= changes
    manifest = {key: value for key, value in manifest.items() if value is not None}
    (store / "manifest.json").write_text(json.dumps(manifest | {"checksum": sha256_of_json(manifest)}))


ARRAYS = ("steps", "offsets", "terminated", "truncated", "final_observations", "rewards", "returns")


def pickled_array(draw: Draw, store: Path, mark: Path) -> None:
    name = draw(st.sampled_from(ARRAYS))
    values = np.array([Payload(mark)] * draw(st.integers(1, 3)), object)
    np.save(store / f"{name}.npy", values, allow_pickle=True)
    forge(store)


def pickle_itself(draw: Draw, store: Path, mark: Path) -> None:
    content = pickle.dumps(Payload(mark), protocol=draw(st.integers(0, 5)))
    (store / f"{draw(st.sampled_from(ARRAYS))}.npy").write_bytes(content)
    forge(store)


def no_array(draw: Draw, store: Path, mark: Path) -> None:
    (store / f"{draw(st.sampled_from(ARRAYS))}.npy").write_bytes(draw(st.binary(max_size=200)))
    forge(store)


def another_array(draw: Draw, store: Path, mark: Path) -> None:
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    np.save(store / f"{draw(st.sampled_from(ARRAYS))}.npy", np.zeros(shape, draw(st.sampled_from(("S3", "<c8", "i1")))))
    forge(store)


def lacking_key(draw: Draw, store: Path, mark: Path) -> None:
    keys = ("format", "environment_id", "files", "observation_dim", "action_dim", "largest_action", "fingerprint")
    forge(store, **{draw(st.sampled_from((*keys, "observation_mean", "observation_std"))): None})


def other_value(draw: Draw, store: Path, mark: Path) -> None:
    key = draw(st.sampled_from(("files", "observation_dim", "action_dim", "observation_mean", "format")))
    forge(store, **{key: draw(st.sampled_from((-1, 0, 10**9, "x", [], {}, [None], {"../../x": {}}, {"x": 7})))})


FAULTS = [pickled_array, pickle_itself, no_array, another_array, lacking_key, other_value]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "store"
    EpisodeStore.write(
        path, hopper_episodes([(7, True, False), (9, False, True)]), environment_id="Hopper-v5", source={}
    )
    return path


@FEW_AND_MANY
@pytest.mark.parametrize("fault", FAULTS)
def test_forged_store_raises(fault: Callable[..., None], examples: int, good: Path, folder: Path) -> None:
    """A forged store, whose hashes match its contents, raises an error that names it."""

    def refuse(data: st.DataObject) -> None:
        store = folder / "data" / "own" / os.urandom(8).hex()
        shutil.copytree(good, store)
        fault(data.draw, store, folder / "mark")
        with pytest.raises(InputError, match=str(store)) as raised:
            open_dataset(f"own/{store.name}").open()
        assert len(str(raised.value).splitlines()) == 1
        assert not (folder / "mark").exists()

    explore(refuse, examples)


@pytest.mark.usefixtures("folder")
def test_store_is_valid_before_it_is_forged() -> None:
    assert write_store("own/good", hopper_episodes([(7, True, False)]), "Hopper-v5").steps == 7
