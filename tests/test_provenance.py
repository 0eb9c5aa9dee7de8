"""Provenance: a checkpoint is evaluated without its dataset, by what the dataset was in training."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from decision_rnn import Episode, write_store
from decision_rnn.checkpoint import last_checkpoint, load_agent
from decision_rnn.cli.arguments import parse_run
from decision_rnn.data.catalog import open_dataset
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.training.loop import train

NAME, ENVIRONMENT = "own/mine", "ShortSwimmer-v0"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment of five steps, and dataset folders for each test."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DECISION_RNN_CACHE", str(tmp_path / "cache"))
    gymnasium.register(ENVIRONMENT, "gymnasium.envs.mujoco.swimmer_v5:SwimmerEnv", max_episode_steps=5)
    yield
    del gymnasium.registry[ENVIRONMENT]


def write(scale: float) -> None:
    """Ten episodes whose returns are 5 * scale * (0, ..., 9); the last one is partial."""
    generator = np.random.default_rng(0)
    write_store(
        NAME,
        [
            Episode(
                generator.normal(size=(6, 8)),
                generator.uniform(-1, 1, (5, 2)),
                np.full(5, scale * i),
                terminated=False,
                truncated=i < 9,
            )
            for i in range(10)
        ],
        environment_id=ENVIRONMENT,
    )


def train_briefly(tmp_path: Path, *arguments: str) -> Path:
    small = ["--backbone.width", "16", "--training.steps", "1", "--training.context", "4", "--evaluation.episodes", "1"]
    train(parse_run("test", [NAME, *small, *arguments])[0], tmp_path / "run")
    return last_checkpoint(tmp_path / "run")


def scores(folder: Path) -> dict[str, Any]:
    trained = load_agent(folder)
    result = evaluate(trained, trained.config.evaluation)
    return {"dataset": result.to_dict()["dataset"], "targets": result.to_dict()["targets"]}


def test_evaluate_without_the_dataset_or_with_another_of_its_name_gives_the_same_scores(tmp_path: Path) -> None:
    write(1.0)
    folder = train_briefly(tmp_path)
    there = scores(folder)
    shutil.rmtree(open_dataset(NAME).source.folder(NAME))
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert scores(folder) == there
    write(100.0)
    assert scores(folder) == there
    assert (there["dataset"]["reference_min"], there["dataset"]["reference_max"]) == (0, 45)
    assert [target["target_return"] for target in there["targets"]] == [45, 22.5]
