"""The loss on held-out episodes: its value, and that training does not depend on it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_config import parse_run

from decision_rnn import InputError
from decision_rnn.agent import DecisionAgent, TrainingOutput
from decision_rnn.config import RunConfig
from decision_rnn.data.sources.standin import StandinSource
from decision_rnn.data.store import EpisodeStore
from decision_rnn.runs.folder import last_checkpoint, read_metrics
from decision_rnn.training.train import train

HELD_OUT = "hopper-expert"


@pytest.fixture(autouse=True)
def two_stores(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    """Training on all episodes but the last, which is held out."""
    last = np.arange(store.num_episodes) == store.num_episodes - 1
    held_out = store.select(last)
    seen = store.select(~last)
    monkeypatch.setattr(StandinSource, "open", lambda source, name, path: held_out if HELD_OUT in name else seen)
    return held_out


def configure(*arguments: str) -> RunConfig:
    small = ["--backbone.width", "16", "--training.log_every", "2", "--training.checkpoint_every", "4"]
    return parse_run("test", ["hopper-medium", *small, "--training.steps", "6", *arguments])[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_validation_has_the_precision_of_training(
    two_stores: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    forward, autocast = DecisionAgent.forward, {True: set[bool](), False: set[bool]()}

    def recorded(agent: DecisionAgent, *arguments: Any) -> TrainingOutput:
        autocast[agent.training].add(torch.is_autocast_enabled("cpu"))
        return forward(agent, *arguments)

    monkeypatch.setattr(DecisionAgent, "forward", recorded)
    train(configure("--validation", HELD_OUT, "--training.precision", precision), output=tmp_path / "run")
    assert autocast == {True: {precision == "bf16"}, False: {precision == "bf16"}}


def test_validation_loss_is_that_of_the_held_out_episode(two_stores: EpisodeStore, tmp_path: Path) -> None:
    """A segment as long as the episode: all batches are this one."""
    whole = str(two_stores.steps)
    others = ["--training.context", whole, "--training.tbptt_segments", "1", "--condition.rtg_quantile", "0"]
    config = configure("--validation", HELD_OUT, "--training.precision", "fp32", *others)
    agent = train(config, output=tmp_path / "run").agent.agent
    episode = two_stores[0]
    steps = torch.arange(two_stores.steps)[None]
    action = torch.from_numpy(episode.actions)[None]
    to_go = torch.from_numpy(episode.rewards[::-1].cumsum()[::-1].astype(np.float32))[None, :, None]
    before = torch.cat([torch.zeros_like(action[:, :1]), action[:, :-1]], dim=1)
    observation = torch.from_numpy(episode.observations[:-1])[None]
    with torch.no_grad():
        predicted, *_ = agent.predict(to_go, observation, before, steps, steps == 0)
    scaled = agent.action_scale.normalise
    expected = (scaled(predicted) - scaled(action)).square().mean().item()
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [2, 4, 6]
    assert lines[-1]["validation_loss"] == pytest.approx(expected, rel=1e-5)
    assert lines[-1]["validation_loss"] != lines[-1]["loss"]


@pytest.mark.parametrize(
    "others",
    [
        ["--backbone.dropout", "0.2", "--training.tbptt_segments", "3"],
        ["--backbone", "transformer", "--training.ema_decay", "0"],
    ],
)
def test_validation_changes_no_weight_and_is_resumed(tmp_path: Path, others: list[str]) -> None:
    train(configure(*others), output=tmp_path / "alone")
    train(configure(*others, "--validation", HELD_OUT), output=tmp_path / "run")
    weights = [(last_checkpoint(tmp_path / run) / "weights.safetensors").read_bytes() for run in ("alone", "run")]
    assert weights[0] == weights[1]
    shutil.rmtree(last_checkpoint(tmp_path / "run"))
    whole = [line["validation_loss"] for line in read_metrics(tmp_path / "run")]
    train(configure(*others, "--validation", HELD_OUT), output=tmp_path / "run", resume=True)
    assert [line["validation_loss"] for line in read_metrics(tmp_path / "run")] == whole
    assert len(set(whole)) == 3
    shutil.rmtree(last_checkpoint(tmp_path / "run"))
    resumed = train(configure(*others), output=tmp_path / "run", resume=True)  # it may be left out
    assert np.isnan(resumed.metrics["validation_loss"]).tolist() == [False, False, True]


def test_validation_of_another_task_or_too_few_steps_raises(
    two_stores: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = str(two_stores.steps + 1)
    with pytest.raises(InputError, match=rf"fewer than training.context {long}"):
        train(configure("--validation", HELD_OUT, "--training.context", long), output=tmp_path / "run")
    monkeypatch.setattr(two_stores, "observation_dim", 4)
    with pytest.raises(InputError, match="validation hopper-expert"):
        train(configure("--validation", HELD_OUT), output=tmp_path / "run")
    with pytest.raises(InputError, match="unknown dataset 'standin/hoper-expert'"):
        train(configure("--validation", "hoper-expert"), output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
