"""What the tests of comparisons share: a dataset that takes no time, and configurations on it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from decision_rnn import Episode, write_store
from decision_rnn.config import RunConfig, parse_run


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Writes the dataset own/mine from a seed, five short Pendulum-shaped episodes, and returns its folder."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))

    def make(seed: int) -> Path:
        generator = np.random.default_rng(seed)

        def episode() -> Episode:
            actions, rewards = generator.uniform(-1, 1, (8, 1)), generator.normal(size=8)
            return Episode(generator.normal(size=(9, 3)), actions, rewards, False, True)

        return write_store("own/mine", [episode() for _ in range(5)], environment_id="Pendulum-v1").path

    return make


@pytest.fixture
def mine(write: Callable[[int], Path]) -> Path:
    """The folder of the dataset own/mine."""
    return write(0)


@pytest.fixture
def small() -> Callable[..., RunConfig]:
    """Makes configurations of four steps on own/mine, with the command line's words on top."""

    def make(*arguments: str) -> RunConfig:
        training = ["--training.steps", "4", "--training.checkpoint_every", "2", "--training.context", "4"]
        size = ["--backbone.width", "16", "--backbone.layers", "1", "--evaluation.episodes", "1"]
        return parse_run("test", ["own/mine", *training, *size, *arguments])[0]

    return make
