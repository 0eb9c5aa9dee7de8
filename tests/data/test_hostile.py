"""Malicious names, paths and stores: each raises an InputError, and none executes code."""

import json
import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from d4rl_files import hopper_episodes
from faults import Payload, assert_nothing_made

from decision_rnn.data.cache import sha256_of
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources import d4rl
from decision_rnn.data.sources.local import write_store
from decision_rnn.utils.errors import InputError

PREFIXES = ("", "d4rl/", "minari/", "local/", "standin/", "complete/")
TEXTS = ["", "..", "../../x", "/etc/passwd", "./", "//", "\0", "~", "a\nb", "%s{}$HOME", "é\U0001f4a3", "*", "a" * 5000]


@pytest.fixture
def folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of all data folders; there is no network."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(folders / "data"))
    monkeypatch.setenv("HOME", str(folders))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(d4rl, "URL", "http://127.0.0.1:9/")
    return folders


@pytest.mark.parametrize("prefix", PREFIXES)
def test_hostile_dataset_names_raise(prefix: str, folder: Path) -> None:
    for text in (*TEXTS, "standin/../../x", "minari/../../x-v0"):
        with pytest.raises(InputError) as raised:
            open_dataset(prefix + text)
        assert len(str(raised.value).splitlines()) == 1
    assert list(folder.iterdir()) == []


def test_hostile_dataset_paths_raise(folder: Path) -> None:
    for prefix, text in product(("", "./", "~nobody/"), (*TEXTS, "/dev/zero", ".")):
        with pytest.raises(InputError):
            open_dataset("d4rl/hopper-medium-v2", path=f"{prefix}{text}" or ".")
    assert_nothing_made(folder)


def forge(store: Path, **changes: Any) -> None:
    """Write a manifest whose hashes match the current files."""
    manifest = json.loads((store / "manifest.json").read_text())
    for name, file in manifest["files"].items():
        file |= {"bytes": (store / name).stat().st_size, "sha256": sha256_of(store / name)}
    manifest |= changes
    manifest = {key: value for key, value in manifest.items() if value is not None}
    (store / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("array", ["steps", "offsets", "terminated", "truncated", "final_observations", "returns"])
def test_forged_store_with_a_pickle_raises_and_the_pickle_is_not_loaded(array: str, folder: Path) -> None:
    path = write_store("local/forged", hopper_episodes([(7, True, False)]), "Hopper-v5").path
    payload = Payload(folder / "mark")
    np.save(path / f"{array}.npy", np.array([payload], object), allow_pickle=True)
    pickled_array = (path / f"{array}.npy").read_bytes()
    for content in (pickled_array, pickle.dumps(payload), b""):
        (path / f"{array}.npy").write_bytes(content)
        forge(path)
        with pytest.raises(InputError, match="local/forged"):
            open_dataset("local/forged")
    assert not (folder / "mark").exists()


@pytest.mark.parametrize("key", ["format", "environment_id", "observation_dim", "spaces", "files"])
@pytest.mark.usefixtures("folder")
def test_forged_store_without_a_key_raises(key: str) -> None:
    path = write_store("local/forged", hopper_episodes([(7, True, False)]), "Hopper-v5").path
    forge(path, **{key: None})
    with pytest.raises(InputError, match="local/forged") as raised:
        open_dataset("local/forged")
    assert len(str(raised.value).splitlines()) == 1
