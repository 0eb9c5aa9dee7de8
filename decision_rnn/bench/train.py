"""The cost of one training step for every backbone, compared with the published Decision Transformer."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from decision_rnn.agent import TrainingOutput
from decision_rnn.backbones import State, registered, registered_names
from decision_rnn.bench.decision_transformer import DecisionTransformer
from decision_rnn.bench.measure import Row, compare, interleaved, timed
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.stream import Batch, StepStream
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.loop import prepare
from decision_rnn.training.trainer import Trainer

DATASET = "hopper-medium"
BATCH, CONTEXT, WIDTH, LAYERS = 64, 20, 128, 3
PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")
BASELINE = "train/decision-transformer/fp32"


class DecisionTransformerTask(nn.Module):
    """The Decision Transformer for `Trainer`: maps a batch of the stream to the published loss.

    Batches are full slices of the stream without padding. Slices across the end of an episode would mislead an agent,
    but cost as much as any other slice.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, store: EpisodeStore, return_scale: float, dropout: float) -> None:
        super().__init__()
        self.model = DecisionTransformer(store.observation_dim, store.action_dim, WIDTH, LAYERS, dropout=dropout)
        self.register_buffer("mean", torch.from_numpy(store.observation_mean).float())
        self.register_buffer("std", torch.from_numpy(store.observation_std).float() + 1e-6)
        self.return_scale = return_scale

    def forward(self, batch: Batch, state: State | None = None) -> TrainingOutput:
        """The loss, a scalar; no state is carried between batches."""
        loss = self.model.loss(
            (batch.observation - self.mean) / self.std,
            batch.action,
            batch.return_to_go / self.return_scale,
            batch.timestep,
            torch.ones(batch.timestep.shape, device=batch.timestep.device),
        )
        return TrainingOutput(loss, {}, ())


def bench_train(rounds: int = 15, device: Literal["cpu", "cuda"] = "cpu") -> list[Row]:
    """Time one training step of every registered backbone, in fp32 and bf16, one token per environment step.

    Batch size 64, context 20, 3 layers of width 128, observations and actions of Hopper, including sampling and
    optimiser, on one thread; backbones have the default training settings, such as dropout 0. The baseline is our
    re-implementation of the Decision Transformer (Chen et al. 2021): three tokens per step, dropout 0.1, fp32. It is
    also timed with bf16 and without dropout, each change by itself.

    All use the same training step, `training.Trainer.step`, so that only the architectures are compared. The published
    training differs from the baseline's in its AdamW, which is not fused and also decays biases and norms, and in its
    sampler, which makes padded batches in Python (timed by `bench data`).

    Args:
        rounds: Number of timings of each.
        device: `cpu`, or `cuda` for wall time there.

    Returns:
        Rows `train/<backbone>/<precision>`, in ms per step; ratio: the baseline's time over the row's.
    """
    dataset = open_dataset(DATASET)
    spec, store = dataset.spec, dataset.open()
    steps: dict[str, Callable[[], object]] = {}
    for name in registered_names():
        backbone = registered(name).config(name=name, width=WIDTH, layers=LAYERS)
        for precision in PRECISIONS:
            training = TrainingConfig(batch_size=BATCH, context=CONTEXT, precision=precision, device=device)
            config = RunConfig(dataset=DATASET, backbone=backbone, training=training)
            _, agent_trainer, stream = prepare(config, store, spec.return_scale)
            steps[f"train/{name}/{precision}"] = partial(_step, agent_trainer, stream)
    published = TrainingConfig(
        steps=100_000, warmup_steps=10_000, schedule="constant", learning_rate=1e-4, weight_decay=1e-4, device=device
    )
    baselines: tuple[tuple[str, Literal["fp32", "bf16"], float], ...] = (
        (BASELINE, "fp32", 0.1),
        ("train/decision-transformer/bf16", "bf16", 0.1),
        ("train/decision-transformer-no-dropout/fp32", "fp32", 0.0),
    )
    for name, precision, dropout in baselines:
        task = DecisionTransformerTask(store, spec.return_scale, dropout)
        trainer = Trainer(task, replace(published, precision=precision))
        steps[name] = partial(_step, trainer, StepStream(store, CONTEXT, BATCH, 0, trainer.device))
    with one_thread():
        timings = {name: timed(step, device=device) for name, step in steps.items()}
        seconds = interleaved(timings, rounds, warmup=3, description="timing training steps")
    return compare({name: 1e3 * value for name, value in seconds.items()}, BASELINE, "ms")


def _step(trainer: Trainer[Any], stream: StepStream) -> None:
    trainer.step(stream.sample())
