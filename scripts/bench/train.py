"""The cost of one training step for every backbone, compared with the published Decision Transformer."""

from collections.abc import Callable
from typing import Any, Literal

from bench.decision_transformer import DecisionTransformer
from bench.measure import Row, compare, measure
from bench.products import products_of
from decision_rnn.backbones import registered, registered_names
from decision_rnn.config import RunConfig, TrainingConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.stream import StepStream
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.training.prepare import prepare
from decision_rnn.training.trainer import Trainer
from decision_rnn.utils.parsing import PositiveInt

DATASET = "hopper-medium"
BATCH, CONTEXT, WIDTH, LAYERS = 64, 20, 128, 3
PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")
BASELINE = "train/decision-transformer/fp32"
BASELINES: tuple[tuple[str, Literal["fp32", "bf16"], float], ...] = (
    (BASELINE, "fp32", 0.1),
    ("train/decision-transformer/bf16", "bf16", 0.1),
    ("train/decision-transformer-no-dropout/fp32", "fp32", 0.0),
)
"""Name, precision and dropout of each Decision Transformer."""


def bench_train(
    backbones: str | None = None,
    rounds: PositiveInt = 15,
    device: Literal["cpu", "cuda"] = "cpu",
    compiled: bool = False,
) -> list[Row]:
    """Time one training step of every registered backbone, in fp32 and bf16, one token per environment step.

    Batch size 64, context 20, 3 layers of width 128, observations and actions of Hopper, including sampling and
    optimiser, on one thread; backbones have the default training settings, such as dropout 0. The baseline is our
    re-implementation of the Decision Transformer (Chen et al. 2021): three tokens per step, dropout 0.1, fp32. It is
    also timed with bf16 and without dropout, each change by itself.

    All use the same training step, `training.Trainer.step`, so that only the architectures are compared. The published
    training differs from the baseline's in its AdamW, which is not fused and also decays biases and norms, and in its
    sampler, which makes padded batches in Python.

    The floor of every step are its matrix products alone, replayed in the same rounds.

    Args:
        backbones: Comma-separated names of backbones; if left out, all of them.
        rounds: Number of timings of each.
        device: `cpu`, or `cuda` for wall time there.
        compiled: Also time every step of a backbone compiled by `torch.compile`, which takes minutes.

    Returns:
        Rows `train/<backbone>/<precision>`, in ms per step; ratio: the baseline's time over the row's. And rows
        `products/<backbone>/<precision>` and `compiled/<backbone>/<precision>`; ratio: the step's time over theirs.

    Raises:
        InputError: If a name is unknown.
    """
    names = registered_names() if backbones is None else [name.strip() for name in backbones.split(",")]
    dataset = open_dataset(DATASET)
    spec, store = dataset.spec, dataset.store
    works: dict[str, Callable[[], object]] = {}
    beside: dict[str, Callable[[], object]] = {}
    if compiled:  # each of these agents may have as many graphs as torch allows all to have
        from torch._dynamo import config as compiler  # here, since it takes a second

        compiler.cache_size_limit *= len(names) * len(PRECISIONS)
    for name in names:
        backbone = registered(name).config(name=name, width=WIDTH, layers=LAYERS)
        for precision in PRECISIONS:
            training = TrainingConfig(batch_size=BATCH, context=CONTEXT, precision=precision, device=device)
            config = RunConfig(dataset=DATASET, backbone=backbone, training=training)
            _, agent_trainer, stream = prepare(config, store, spec.return_scale)
            works[f"train/{name}/{precision}"] = _step(agent_trainer, stream)
            if compiled:
                agent, agent_trainer, stream = prepare(config, store, spec.return_scale)
                agent.compile(fullgraph=True)
                beside[f"compiled/{name}/{precision}"] = _step(agent_trainer, stream)
    for name, precision, dropout in BASELINES:
        model = DecisionTransformer(store, spec.return_scale, WIDTH, LAYERS, dropout)
        published = TrainingConfig(
            steps=100_000,
            warmup_steps=10_000,
            schedule="constant",
            learning_rate=1e-4,
            precision=precision,
            device=device,
        )
        trainer = Trainer(model, published)
        works[name] = _step(trainer, StepStream(store, CONTEXT, BATCH, 0, trainer.device))
    with one_thread():
        beside |= {f"products/{name.removeprefix('train/')}": products_of(work) for name, work in works.items()}
        seconds = measure({**works, **beside}, rounds, "timing training steps", device)
    rows = compare({name: seconds[name] for name in works}, BASELINE, "ms", 1e3)
    for name in beside:
        step = f"train/{name.partition('/')[2]}"
        rows += compare({name: seconds[name], step: seconds[step]}, step, "ms", 1e3)[:1]
    return rows


def _step(trainer: Trainer[Any], stream: StepStream) -> Callable[[], object]:
    def step() -> None:
        trainer.step(stream.sample())

    return step
