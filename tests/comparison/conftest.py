"""Fixtures of the comparison tests: a tiny dataset, configurations on it, and an executor in this process."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decision_rnn import Episode, write_store
from decision_rnn.comparison import cells
from decision_rnn.comparison.cells import Cell
from decision_rnn.comparison.compare import compare
from decision_rnn.comparison.executors.contract import Event, Finished, Progress, failure
from decision_rnn.comparison.plan import Plan
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.variants import Variant
from decision_rnn.config import RunConfig
from decision_rnn.config_parser import new_config

Compare = Callable[..., Comparison]


class Inline:
    """Runs cells in this process, one after the other."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs

    def run(self, pending: Sequence[Cell]) -> Generator[Event, None, None]:
        for number, cell in enumerate(pending):
            yield Progress(number, 0)
            try:
                yield Finished(number, cells.run_cell(cell, lambda steps: None))
            except Exception as error:
                yield failure(number, error)


@pytest.fixture
def comparing(tmp_path: Path) -> Compare:
    """Compares variants on own/mine, by default with seed 0 and no checkpoint evaluation; `jobs` is what the
    in-process executor reports."""

    def run(
        variants: Sequence[Variant], executor: Any = None, command: str = "", jobs: int = 1, **options: Any
    ) -> Comparison:
        asked = {"datasets": ("own/mine",), "seeds": (0,), "output": tmp_path / "runs", "checkpoint_episodes": 0}
        return compare(Plan(variants=tuple(variants), **{**asked, **options}), executor or Inline(jobs), command)

    return run


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a dataset of five short Pendulum-shaped episodes, by default own/mine, from a seed; returns its folder.
    The environment does not change the episodes."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))

    def make(seed: int, name: str = "own/mine", environment_id: str = "Pendulum-v1") -> Path:
        generator = np.random.default_rng(seed)

        def episode() -> Episode:
            actions, rewards = generator.uniform(-1, 1, (8, 1)), generator.normal(size=8)
            return Episode(generator.normal(size=(9, 3)), actions, rewards, False, True)

        return write_store(name, [episode() for _ in range(5)], environment_id).path

    return make


@pytest.fixture
def mine(write: Callable[..., Path]) -> Path:
    """The folder of the dataset own/mine."""
    return write(0)


@pytest.fixture
def small() -> Callable[..., RunConfig]:
    """Makes configurations of four training steps on own/mine, with other keys on top."""

    def make(
        width: int = 16, training: Any = None, evaluation: Any = None, agent: Any = None, **keys: Any
    ) -> RunConfig:
        sections = {
            "backbone": {"name": "mingru", "width": width, "layers": 1},
            "agent": agent or {},
            "training": {"steps": 4, "checkpoint_every": 2, "context": 4, **(training or {})},
            "evaluation": {"episodes": 1, **(evaluation or {})},
        }
        return new_config({"dataset": "own/mine", **sections, **keys}, "test")

    return make
