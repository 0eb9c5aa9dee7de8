"""Fixtures of the data tests: nothing here touches the user's own folders, and there is no network."""

from pathlib import Path

import numpy as np
import pytest
from data_files import random_episode

from decision_rnn.data.sources import d4rl
from decision_rnn.environments.episode import Episode


@pytest.fixture
def episodes() -> list[Episode]:
    """Episodes with all kinds of ends: terminated, truncated, both, partial; one of a single step."""
    generator = np.random.default_rng(0)
    kinds = [(1, True, False), (7, True, False), (40, False, True), (12, True, True), (25, False, False)]
    return [random_episode(generator, kind) for kind in kinds]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder with the cache in `cache`, Minari's datasets in `minari` and local data in `data`."""
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(d4rl, "URL", "http://127.0.0.1:9/")
    monkeypatch.setattr(d4rl, "INSECURE_URL", d4rl.URL)
    return tmp_path


@pytest.fixture
def local(folders: Path) -> Path:
    """The folder for local datasets."""
    return folders / "data" / "local"


@pytest.fixture
def data(folders: Path) -> Path:
    """The folder of local files."""
    (folders / "data").mkdir()
    return folders / "data"
