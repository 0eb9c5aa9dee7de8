"""The cost of sampling a training batch, compared with reading as many rows of the table."""

from collections.abc import Callable

import numpy as np

from bench.measure import Row, compare, measure
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.stream import StepStream
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.utils.parsing import PositiveInt

DATASET = "hopper-medium"
SIZES = ((64, 20), (8, 1000))
"""Batch size and context."""


def bench_data(rounds: PositiveInt = 20) -> list[Row]:
    """Time the sampling of one training batch from the 1M steps of hopper-medium, on one thread.

    The baseline copies as many segments of the table at random places, without anything that a batch is made of.

    Args:
        rounds: Number of timings of each; a timing is the mean over many batches.

    Returns:
        Rows `data/batch-<size>x<context>` and `data/copy-<size>x<context>`, in µs per batch; ratio: the baseline's time
        over the row's.
    """
    store, rows = open_dataset(DATASET).store, []
    generator = np.random.default_rng(0)
    for batch_size, context in SIZES:

        def copy(batch_size: int = batch_size, context: int = context) -> object:
            begins = generator.integers(store.steps - context, size=batch_size)
            return np.stack([store.table[begin : begin + context] for begin in begins])

        ours, copied = (f"data/{kind}-{batch_size}x{context}" for kind in ("batch", "copy"))
        works: dict[str, Callable[[], object]] = {
            ours: StepStream(store, context, batch_size, seed=0).sample,
            copied: copy,
        }
        with one_thread():
            rows += compare(measure(works, rounds, "timing batches"), copied, "µs", 1e6)
    return rows
