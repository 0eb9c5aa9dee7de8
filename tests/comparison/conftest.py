"""Fixtures of the comparison tests: a tiny dataset, comparisons on it, and an executor in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_comparison import Inline, pendulum_episodes, small

from decision_rnn import write_store
from decision_rnn.comparison.compare import make_plan, run_plan
from decision_rnn.comparison.results import Comparison

Compare = Callable[..., Comparison]


@pytest.fixture
def comparing(tmp_path: Path) -> Compare:
    """Runs a comparison of `small` keys, by default with the executor of this process."""

    def run(executor: Any = None, **keys: Any) -> Comparison:
        plan = make_plan(small(**{"output": tmp_path / "runs", **keys}), "test")
        return run_plan(plan, "the command", executor or Inline())

    return run


@pytest.fixture
def executor() -> Inline:
    """Notes the runs that it starts."""
    return Inline()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a dataset of five short Pendulum-shaped episodes, by default local/mine, from a seed; returns its folder.
    The environment does not change the episodes."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))

    def make(seed: int, name: str = "local/mine", environment_id: str = "Pendulum-v1") -> Path:
        return write_store(name, pendulum_episodes(seed), environment_id).path

    return make


@pytest.fixture
def mine(write: Callable[..., Path]) -> Path:
    """The folder of the dataset local/mine."""
    return write(0)
