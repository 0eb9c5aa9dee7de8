"""Provenance: a checkpoint is evaluated without its dataset, by what the dataset was in training."""

import json
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
from decision_rnn.errors import InputError
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


SPEC = ("name", "environment_id", "reference_min", "reference_max", "target_returns", "comparable", "requirements",
        "environment_settings")  # fmt: skip


def make_old(folder: Path) -> None:
    """Rewrite a checkpoint's config.json as version 0.2 wrote it, with a section for the dataset's spec."""
    path = folder / "config.json"
    description = json.loads(path.read_text())
    provenance = description["provenance"]
    spec = {name: provenance.pop(name) for name in SPEC}
    contents = {"return_scale": 10.0, "contents": provenance["fingerprint"]}
    description["provenance"] = {"spec": {**spec, **contents}, **provenance}
    path.write_text(json.dumps(description))


def test_evaluate_without_the_dataset_gives_the_same_scores(tmp_path: Path) -> None:
    write(1.0)
    folder = train_briefly(tmp_path)
    there = scores(folder)
    shutil.rmtree(open_dataset(NAME).source.folder(NAME))
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert scores(folder) == there
    assert (there["dataset"]["reference_min"], there["dataset"]["reference_max"]) == (0, 45)
    assert [target["target_return"] for target in there["targets"]] == [45, 22.5]


def test_evaluate_after_dataset_change_gives_the_same_scores(tmp_path: Path) -> None:
    write(1.0)
    folder = train_briefly(tmp_path)
    before = scores(folder)
    shutil.rmtree(open_dataset(NAME).source.folder(NAME))
    write(100.0)
    assert scores(folder) == before


def test_version_0_2_checkpoint_has_the_same_provenance(tmp_path: Path) -> None:
    write(1.0)
    folder = train_briefly(tmp_path)
    before = load_agent(folder).provenance
    assert (before.name, before.environment_id, before.return_max, before.target_returns) == (
        *(NAME, ENVIRONMENT, 45.0, (45.0, 22.5)),
    )
    make_old(folder)
    assert load_agent(folder).provenance == before


@pytest.mark.parametrize("fault", [{}, {"spec": 5}, {"spec": {"name": "x"}}, 5])
def test_damaged_provenance_raises_damaged_file_error(tmp_path: Path, fault: object) -> None:
    write(1.0)
    path = train_briefly(tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "provenance": fault}))
    with pytest.raises(InputError, match=r"config\.json is missing or damaged"):
        load_agent(path.parent)
