"""Fixtures of the data tests."""

from pathlib import Path

import numpy as np
import pytest
from data_files import random_episode

from decision_rnn.environments.episode import Episode


@pytest.fixture
def episodes() -> list[Episode]:
    """Episodes with all kinds of ends: terminated, truncated, both, partial; one of a single step."""
    generator = np.random.default_rng(0)
    kinds = [(1, True, False), (7, True, False), (40, False, True), (12, True, True), (25, False, False)]
    return [random_episode(generator, kind) for kind in kinds]


@pytest.fixture
def local(folders: Path) -> Path:
    """The folder for local datasets."""
    return folders / "data" / "local"


@pytest.fixture
def data(folders: Path) -> Path:
    """The folder of local files."""
    (folders / "data").mkdir()
    return folders / "data"
