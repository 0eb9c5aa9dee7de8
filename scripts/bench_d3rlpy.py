"""`decision-rnn bench data` with d3rlpy (Seno and Imai 2022) as the baseline: its own sampler on the same episodes.

python scripts/bench_d3rlpy.py PYTHON [--rounds 20] [--json FILE]     # PYTHON: of an environment with d3rlpy

d3rlpy runs in a process of its own, because its dependencies conflict with ours.
"""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench.data import DATASET, SIZES
from bench.measure import Row, compare, format_rows, interleaved, seconds_of, write_rows

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.data.stream import StepStream
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.utils.errors import InputError

WORKER = Path(__file__).with_name("d3rlpy_worker.py")


class D3rlpy:
    """A process that samples from a store's episodes with d3rlpy, one round per request."""

    def __init__(self, python: Path, process: "subprocess.Popen[str]", store: EpisodeStore) -> None:
        self.python, self.process = python, process
        begun = self._answer()
        if not isinstance(begun, dict) or "episodes" not in begun:
            reason = begun["error"] if isinstance(begun, dict) and "error" in begun else "it gave no answer"
            raise InputError(
                f"{python} cannot run d3rlpy ({reason}): name the interpreter of an environment where "
                "`pip install d3rlpy` was done"
            )
        if begun["episodes"] != store.episodes:
            raise RuntimeError(f"d3rlpy sees {begun['episodes']} episodes, not {store.episodes}: not comparable")

    def timing(self, batch_size: int, length: int, batches: int) -> Callable[[], float]:
        """A timing of one batch of trajectories: mean CPU time of the d3rlpy process over `batches` batches."""

        def timing() -> float:
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps([batch_size, length, batches]) + "\n")
                self.process.stdin.flush()
            seconds = self._answer()
            if seconds is None:
                raise InputError(f"d3rlpy has died in {self.python} while it sampled: free some memory")
            return float(seconds)

        return timing

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        try:
            return json.loads(self.process.stdout.readline())
        except ValueError:
            return None


@contextlib.contextmanager
def running_d3rlpy(python: Path, store: EpisodeStore) -> Iterator[D3rlpy]:
    """Run d3rlpy in another environment, on one thread, on the episodes of a store.

    Raises InputError if `python` cannot be run or has no d3rlpy.
    """
    with tempfile.TemporaryDirectory(prefix="decision_rnn-") as folder:
        arrays = Path(folder) / "arrays.npz"
        ends = np.zeros((2, store.steps), np.float32)
        ends[:, store.offsets[1:] - 1] = store.terminated, ~store.terminated  # d3rlpy treats truncation as a timeout
        np.savez(
            arrays,
            observations=store.observations,
            actions=store.actions,
            rewards=store.rewards,
            terminals=ends[0],
            timeouts=ends[1],
        )
        try:
            process = subprocess.Popen(
                [python, "-I", WORKER, arrays],  # isolated: imports nothing from this environment
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        except OSError as error:
            raise InputError(f"cannot run {python} ({error.strerror}): name a Python interpreter") from None
        try:
            yield D3rlpy(python, process, store)
        finally:
            process.kill()
            process.communicate()


def bench(python: Path, rounds: int = 20) -> list[Row]:
    """Rows `data/batch-<size>` and `data/d3rlpy-<size>`, in µs, compared with d3rlpy's."""
    store, rows = open_dataset(DATASET).open(), []
    with one_thread(), running_d3rlpy(python, store) as theirs:
        for batch_size, context in SIZES:
            size = f"{batch_size}x{context}"
            stream = StepStream(store, context, batch_size, seed=0)
            timings = {
                f"data/batch-{size}": partial(seconds_of, stream.sample, calls=200),
                f"data/d3rlpy-{size}": theirs.timing(batch_size, context, batches=10),
            }
            rows += compare(interleaved(timings, rounds, "timing batches"), f"data/d3rlpy-{size}", "µs", 1e6)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=Path, help="the interpreter of an environment with d3rlpy")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    rows = bench(options.python, options.rounds)
    print(format_rows(rows))
    if options.json:
        write_rows(options.json, rows)


if __name__ == "__main__":
    main()
