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


def make_old(folder: Path) -> None:
    """Rewrite a checkpoint's config.json as version 0.1 wrote it, with less information about the dataset."""
    path = folder / "config.json"
    description = json.loads(path.read_text())
    provenance = description["provenance"]
    description["provenance"] = {
        "dataset": provenance["spec"]["name"],
        "fingerprint": provenance["fingerprint"],
        "environment_id": provenance["spec"]["environment_id"],
        "return_mean": provenance["return_mean"],
        "return_sd": provenance["return_sd"],
    }
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


@pytest.mark.parametrize("partial", ["keep", "drop"])
def test_version_0_1_checkpoint_is_scored_by_its_dataset(tmp_path: Path, partial: str) -> None:
    write(1.0)
    folder = train_briefly(tmp_path, "--partial", partial)
    before = scores(folder)
    make_old(folder)
    # Version 0.1 did not save the data's range of returns, its best return as a target return, or notes.
    before["dataset"] |= {"return_min": None, "return_max": None, "notes": type(before["dataset"]["notes"])()}
    assert [target["target_return"] for target in before["targets"][2:]] == ([40] if partial == "drop" else [])
    before["targets"] = [{**target, "in_range": None} for target in before["targets"][:2]]
    assert scores(folder) == before


def test_version_0_1_checkpoint_without_its_dataset_raises(tmp_path: Path) -> None:
    write(1.0)
    folder = train_briefly(tmp_path)
    make_old(folder)
    shutil.rmtree(open_dataset(NAME).source.folder(NAME))
    with pytest.raises(InputError, match=r"there is no dataset own/mine .* version 0\.1, .* put that dataset back"):
        load_agent(folder)
    write(100.0)
    with pytest.raises(InputError, match=r"own/mine has other contents than .* version 0\.1, .* put that dataset back"):
        load_agent(folder)


@pytest.mark.parametrize("fault", [{}, {"spec": 5}, {"spec": {"name": "x"}}, 5])
def test_damaged_provenance_raises_damaged_file_error(tmp_path: Path, fault: object) -> None:
    write(1.0)
    path = train_briefly(tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "provenance": fault}))
    with pytest.raises(InputError, match=r"config\.json is missing or damaged"):
        load_agent(path.parent)
