"""Time of one training step of every backbone, beside the published Decision Transformer's.

    python scripts/bench/train.py [--backbones mingru,lru] [--device cuda]

Batch size 64, context 20, 3 layers of width 128, Hopper's sizes, sampling and optimiser included, fp32 and bf16. All
use the same `Trainer.step`; the baseline has three tokens a step and dropout 0.1, in fp32. Rows `products/...` are the
step's matrix products alone.
"""

import argparse
from typing import Any, Literal

from decision_transformer import DecisionTransformer
from measure import Row, Work, compare, main, measure
from products import products_of

from decision_rnn import open_dataset
from decision_rnn.backbones import BACKBONES, registered
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.training.prepare import prepare
from decision_rnn.training.trainer import Trainer

DATASET, RETURN_SCALE = "hopper-medium", 1000.0
BATCH, CONTEXT, WIDTH, LAYERS = 64, 20, 128, 3
PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")
BASELINE = "train/decision-transformer/fp32"
BASELINES: dict[str, tuple[Literal["fp32", "bf16"], float]] = {
    BASELINE: ("fp32", 0.1),
    "train/decision-transformer/bf16": ("bf16", 0.1),
    "train/decision-transformer-no-dropout/fp32": ("fp32", 0.0),
}
"""Precision and dropout of each Decision Transformer."""


def backbone_step(name: str, store: EpisodeStore, **training: Any) -> Work:
    """One step of an agent with this backbone, with its batch; `training` are options of `TrainingConfig`."""
    backbone = registered(name).config(name=name, width=WIDTH, layers=LAYERS)
    settings = TrainingConfig(**{"batch_size": BATCH, "context": CONTEXT} | training)
    config = RunConfig(dataset=DATASET, backbone=backbone, training=settings)
    _, trainer, stream = prepare(config, store, RETURN_SCALE)
    return lambda: trainer.step(stream.sample())


def published_step(store: EpisodeStore, dropout: float, **training: Any) -> Work:
    """One step of the Decision Transformer, with its batch."""
    schedule: dict[str, Any] = {"steps": 100_000, "warmup_steps": 10_000, "schedule": "constant"}
    settings = TrainingConfig(learning_rate=1e-4, **schedule, **{"batch_size": BATCH} | training)
    trainer = Trainer(DecisionTransformer(store, RETURN_SCALE, WIDTH, LAYERS, dropout), settings)
    stream = StepStream(store, CONTEXT, settings.batch_size, 0, trainer.device)
    return lambda: trainer.step(stream.sample())


def training_steps(options: argparse.Namespace, **training: Any) -> dict[str, Work]:
    """The steps of all candidates and baselines, by the names of their rows."""
    store, training = open_dataset(DATASET).store, {"device": options.device} | training
    names = options.backbones.split(",") if options.backbones else BACKBONES.names()
    works = {
        f"train/{name}/{precision}": backbone_step(name, store, precision=precision, **training)
        for name in names
        for precision in PRECISIONS
    }
    for name, (precision, dropout) in BASELINES.items():
        works[name] = published_step(store, dropout, precision=precision, **training)
    return works


def bench(options: argparse.Namespace) -> list[Row]:
    works = training_steps(options)
    eager = training_steps(options, cuda_graph=False)  # the products of a graph cannot be recorded
    products = {name.replace("train/", "products/"): products_of(work) for name, work in eager.items()}
    seconds = measure({**works, **products}, options.rounds, options.device)
    rows = compare({name: seconds[name] for name in works}, BASELINE, "ms", 1e3)
    for name in products:
        step = name.replace("products/", "train/")
        rows += compare({name: seconds[name], step: seconds[step]}, step, "ms", 1e3)[:1]
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", help="names, separated by commas; all if left out")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    main(bench, parser, rounds=15)
