"""Filtered behaviour cloning: which episodes are trained on; everything else is that of the whole dataset."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from run_config import parse_run

from decision_rnn.config import RunConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import Batch
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.folder import last_checkpoint
from decision_rnn.training.train import train
from decision_rnn.training.trainer import Trainer


def configure(*arguments: str) -> RunConfig:
    small = ["--backbone.width", "16", "--training.context", "8", "--training.checkpoint_every", "4"]
    return parse_run("test", ["hopper-medium", *small, "--training.steps", "8", *arguments])[0]


def best_by_hand(store: EpisodeStore, count: int) -> list[int]:
    """The episodes with the highest returns, the earliest of equals."""
    returns = [store.rewards[a:b].astype(np.float64).sum() for a, b in pairwise(store.offsets)]
    return sorted(sorted(range(len(returns)), key=lambda i: (-returns[i], i))[:count])


@pytest.mark.parametrize("options", [[], ["--training.tbptt_segments", "3", "--observation.mask", "velocity"]])
def test_best_episodes_are_trained_on_with_the_provenance_of_all(
    small_store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    best = best_by_hand(small_store, 6)
    allowed = {row.tobytes() for i in best for row in small_store.observations[slice(*small_store.offsets[i : i + 2])]}
    batches, step = [], Trainer.step

    def recorded(trainer: Trainer, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        batches.append(batch)
        return step(trainer, batch)

    monkeypatch.setattr(Trainer, "step", recorded)
    trained = train(configure("--top_fraction", "0.2", *options), output=tmp_path / "run").agent
    seen = {row.numpy().tobytes() for batch in batches for row in batch.observation.flatten(0, 1)}
    assert len(batches) == 8
    assert seen <= allowed
    index = trained.agent.encoder.index
    rows = np.concatenate([small_store.observations[slice(*small_store.offsets[i : i + 2])] for i in best])
    mean = rows.mean(0, dtype=np.float64)
    np.testing.assert_allclose(trained.agent.encoder.mean, mean if index is None else mean[index], rtol=1e-5)

    whole = train(configure(), output=tmp_path / "whole").agent.provenance
    assert trained.provenance == load_agent(last_checkpoint(tmp_path / "run")).provenance == whole
    assert whole.fingerprint == small_store.fingerprint
    assert (whole.return_min, whole.return_max) == (
        small_store.episode_returns.min(),
        small_store.episode_returns.max(),
    )
