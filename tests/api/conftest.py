"""A small dataset of the mountain car, local/swing, and an agent trained on it; making both takes a second."""

from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from swing import CAR, LIMIT, SMALL, push

import decision_rnn
from decision_rnn import Run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary folder that holds the data and cache folders, with the dataset `local/swing`."""
    root = tmp_path_factory.mktemp("api")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DECISION_RNN_DATA", "DECISION_RNN_CACHE", "MINARI_DATASETS_PATH"):
            patch.setenv(name, str(root / name.lower()))
        patch.setattr(gymnasium.spec(CAR), "max_episode_steps", LIMIT)
        decision_rnn.record(push, CAR, "local/swing", episodes=4, progress=False)
        yield root


@pytest.fixture(scope="session")
def run(folder: Path) -> Run:
    """A run of 20 steps on `local/swing`, in the folder `swing-up`."""
    output = folder / "swing-up"
    return decision_rnn.train("local/swing", SMALL, steps=20, output=output, progress=False, training={"log_every": 10})


@pytest.fixture
def inside(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change into a fresh working folder; the data folders stay the same."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
