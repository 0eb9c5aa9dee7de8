"""Fixtures: nothing here touches the user's own folders."""

from pathlib import Path

import pytest


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder with the cache in `cache`, local files in `data` and no others."""
    for name, folder in (("DECISION_RNN_CACHE", "cache"), ("DECISION_RNN_DATA", "data"), ("HOME", "")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    return tmp_path
