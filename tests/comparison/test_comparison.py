"""Comparisons: what is kept from before, and what must not be."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from decision_rnn import Episode, write_store
from decision_rnn.cli.arguments import parse_run
from decision_rnn.comparison.cells import compare
from decision_rnn.errors import InputError


def write(name: str, seed: int) -> Path:
    """A dataset of five short Pendulum-shaped episodes; returns its folder."""
    generator = np.random.default_rng(seed)
    episodes = [
        Episode(generator.normal(size=(9, 3)), generator.uniform(-1, 1, (8, 1)), generator.normal(size=8), False, True)
        for _ in range(5)
    ]
    return write_store(name, episodes, environment_id="Pendulum-v1").path


def test_a_result_on_other_contents_of_the_dataset_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    small = ["--backbone.width", "16", "--training.steps", "2", "--training.context", "4", "--evaluation.episodes", "1"]
    config = parse_run("test", ["own/mine", *small])[0]
    folder = write("own/mine", seed=0)
    first = compare([config], [0], tmp_path / "runs")
    assert compare([config], [0], tmp_path / "runs")["backbones"][0]["targets"] == first["backbones"][0]["targets"]
    shutil.rmtree(folder)
    write("own/mine", seed=1)
    with pytest.raises(InputError, match="trained on other contents of own/mine"):
        compare([config], [0], tmp_path / "runs")
