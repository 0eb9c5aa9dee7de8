"""What the tests of comparisons share: a dataset that takes no time, and configurations on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decision_rnn import Episode, write_store
from decision_rnn.config import RunConfig
from decision_rnn.config_parser import from_dict


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
    """Makes configurations of four steps on own/mine, with other keys on top."""

    def make(
        width: int = 16, training: Any = None, evaluation: Any = None, agent: Any = None, **keys: Any
    ) -> RunConfig:
        sections = {
            "backbone": {"name": "mingru", "width": width, "layers": 1},
            "agent": agent or {},
            "training": {"steps": 4, "checkpoint_every": 2, "context": 4, **(training or {})},
            "evaluation": {"episodes": 1, **(evaluation or {})},
        }
        return from_dict({"dataset": "own/mine", **sections, **keys}, "test")

    return make
