"""What one training step costs, for every backbone, beside the published Decision Transformer."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

import torch
from torch import Tensor

from decision_rnn.backbones import registered, registered_names
from decision_rnn.bench.decision_transformer import DecisionTransformer
from decision_rnn.bench.measure import Row, compare, interleaved, timed
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.catalog import resolve
from decision_rnn.data.store.episodes import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.trainer import Trainer

DATASET = "hopper-medium"
BATCH, CONTEXT, WIDTH, LAYERS = 64, 20, 128, 3
PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")
BASELINE = "train/decision-transformer/fp32"


class DecisionTransformerTrainer:
    """The published training step: AdamW with a weight decay of 1e-4 on everything, gradients clipped at 0.25.

    Its batches are ours: full slices of the stream, no padding, made in microseconds (the published sampler's
    cost is `decision-rnn bench data`'s subject). Slices that run over an episode's end would mislead an agent,
    but cost what any others do.
    """

    def __init__(
        self, store: EpisodeStore, return_scale: float, bf16: bool, dropout: float, device: torch.device | str
    ) -> None:
        self.model = DecisionTransformer(store.observation_dim, store.action_dim, WIDTH, LAYERS, dropout=dropout).to(
            device
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=1e-4)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min((step + 1) / 10_000, 1))
        self.stream = StepStream(store, CONTEXT, BATCH, 0, device)
        self.mean = torch.tensor(store.observation_mean, dtype=torch.float32, device=device)
        self.std = torch.tensor(store.observation_std, dtype=torch.float32, device=device) + 1e-6
        self.return_scale = return_scale
        self.mask = torch.ones(BATCH, CONTEXT, device=device)
        self.precision = torch.autocast(torch.device(device).type, torch.bfloat16) if bf16 else nullcontext()

    def train_step(self) -> Tensor:
        """One optimiser step; returns the loss."""
        batch = self.stream.sample()
        with self.precision:
            loss = self.model.loss(
                (batch.observation - self.mean) / self.std,
                batch.action,
                batch.return_to_go / self.return_scale,
                batch.timestep,
                self.mask,
            )
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()


def bench_train(rounds: int = 15, device: Literal["cpu", "cuda"] = "cpu") -> list[Row]:
    """Time one training step of every registered backbone, in fp32 and bf16, one token per environment step.

    Batch 64, context 20, 3 layers of width 128, Hopper's sizes, sampling and optimiser included, on one thread;
    the backbones through training.Trainer with its defaults, dropout 0 among them. The baseline is our
    re-creation of the Decision Transformer (Chen et al. 2021) in its published form: three tokens per step,
    dropout 0.1, fp32. Beside it, what bf16 alone and what leaving out its dropout alone would give it.

    Args:
        rounds: How often each is timed.
        device: `cpu`, or `cuda` for wall time there.

    Returns:
        Rows `train/<backbone>/<precision>`, in ms per step; ratio: the baseline's time over theirs.
    """
    dataset = resolve(DATASET)
    spec, store = dataset.spec, dataset.open()
    steps: dict[str, Callable[[], object]] = {}
    for name in registered_names():
        backbone = registered(name).config(name=name, width=WIDTH, layers=LAYERS)
        for precision in PRECISIONS:
            training = TrainingConfig(batch_size=BATCH, context=CONTEXT, precision=precision, device=device)
            config = RunConfig(dataset=DATASET, backbone=backbone, training=training)
            steps[f"train/{name}/{precision}"] = Trainer(config, store, spec.return_scale).train_step
    for name, bf16, dropout in (
        (BASELINE, False, 0.1),
        ("train/decision-transformer/bf16", True, 0.1),
        ("train/decision-transformer-no-dropout/fp32", False, 0.0),
    ):
        trainer = DecisionTransformerTrainer(store, spec.return_scale, bf16, dropout, device)
        steps[name] = trainer.train_step
    with one_thread():
        timings = {name: timed(step, device=device) for name, step in steps.items()}
        seconds = interleaved(timings, rounds, warmup=3, description="timing training steps")
    return compare({name: 1e3 * value for name, value in seconds.items()}, BASELINE, "ms")
