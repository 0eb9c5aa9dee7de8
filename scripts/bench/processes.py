"""The time of one training step of several processes, compared with one process that uses all cores."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta

from bench.measure import Row, compare, interleaved
from decision_rnn.backbones import registered
from decision_rnn.config import DEFAULT_BACKBONE, RunConfig, TrainingConfig
from decision_rnn.data.catalog import open_dataset
from decision_rnn.training.follower import Setup
from decision_rnn.training.prepare import prepare
from decision_rnn.training.ranks import leading
from decision_rnn.utils.parsing import PositiveInt
from decision_rnn.utils.workers import available_cores

DATASET = "hopper-medium"
STEPS = 20
"""Steps of one timing."""


def bench_processes(
    processes: Annotated[int, Meta(ge=2)] = 2, rounds: PositiveInt = 15, backbone: str = DEFAULT_BACKBONE
) -> list[Row]:
    """Time one training step of `--training.processes N`, which share the cores and the batch.

    The defaults of `decision-rnn train hopper-medium`: batch size 128, context 20. The baseline is one process with as
    many threads as there are cores. Wall time: other work on the machine makes it longer.

    Args:
        processes: Number of processes.
        rounds: Number of timings of each.
        backbone: The backbone's name.

    Returns:
        Rows `processes/1`, `processes/1/one-thread` and `processes/N`, in ms per step; ratio: the baseline's time over
        the row's.
    """
    dataset = open_dataset(DATASET)
    store, scale = dataset.open(), dataset.spec.return_scale
    training = TrainingConfig(
        batch_size=TrainingConfig.batch_size // processes * processes, device="cpu", processes=processes
    )
    config = RunConfig(dataset=DATASET, backbone=registered(backbone).config(name=backbone), training=training)
    with leading(processes) as ranks:
        shared = torch.get_num_threads()

        def seconds(step: Callable[[], object], threads: int) -> float:
            torch.set_num_threads(threads)
            begun = time.perf_counter()
            for _ in range(STEPS):
                step()
            return (time.perf_counter() - begun) / STEPS

        _, alone, slices = prepare(config, store, scale)
        Setup(Path(), config, None, None, None).share(ranks)
        _, together, parts = prepare(config, store, scale, ranks=ranks)
        one, several = (lambda: alone.step(slices.sample())), (lambda: together.step(parts.sample()))
        timings = {
            "processes/1": partial(seconds, one, available_cores()),
            "processes/1/one-thread": partial(seconds, one, 1),
            f"processes/{processes}": partial(seconds, several, shared),
        }
        for timing in timings.values():
            timing()
        return compare(interleaved(timings, rounds, "timing training steps"), "processes/1", "ms", 1e3)
