"""Time of sampling a training batch, beside copying as many rows of the table.

python scripts/bench/data.py
"""

import argparse

import numpy as np
from measure import Row, Work, compare, main, measure

from decision_rnn import open_dataset
from decision_rnn.data.stream import StepStream

SIZES = ((64, 20), (8, 1000))
"""Batch size and context."""


def bench(options: argparse.Namespace) -> list[Row]:
    store, generator, rows = open_dataset("hopper-medium").store, np.random.default_rng(0), []
    for batch_size, context in SIZES:

        def copy(batch_size: int = batch_size, context: int = context) -> object:
            starts = generator.integers(store.steps - context, size=batch_size)
            return np.stack([store.table[start : start + context] for start in starts])

        batch, copied = (f"data/{kind}-{batch_size}x{context}" for kind in ("batch", "copy"))
        works: dict[str, Work] = {batch: StepStream(store, context, batch_size, seed=0).sample, copied: copy}
        rows += compare(measure(works, options.rounds), copied, "µs", 1e6)
    return rows


if __name__ == "__main__":
    main(bench, argparse.ArgumentParser(description=__doc__), rounds=20)
