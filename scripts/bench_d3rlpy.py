"""d3rlpy (Seno and Imai 2022) as a baseline: its own sampler on our data, in the environment where it is installed."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from decision_rnn.bench.measure import Timing
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError

WORKER = Path(__file__).with_name("d3rlpy_worker.py")


class D3rlpy:
    """A process that samples from a store's episodes with d3rlpy, one round per request."""

    def __init__(self, python: Path, process: "subprocess.Popen[str]", store: EpisodeStore) -> None:
        self.python, self.process = python, process
        begun = self._answer()
        if not isinstance(begun, dict) or "episodes" not in begun:
            reason = begun["error"] if isinstance(begun, dict) and "error" in begun else "it gave no answer"
            raise InputError(
                f"{python} cannot run d3rlpy ({reason}): name, with --d3rlpy, the interpreter of an environment where "
                "`pip install d3rlpy` was done"
            )
        if begun["episodes"] != store.episodes:
            raise RuntimeError(f"d3rlpy sees {begun['episodes']} episodes, not {store.episodes}: not comparable")

    def timing(self, batch_size: int, length: int, batches: int) -> Timing:
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
            raise InputError(
                f"cannot run {python} ({error.strerror}): --d3rlpy must name a Python interpreter"
            ) from None
        try:
            yield D3rlpy(python, process, store)
        finally:
            process.kill()
            process.communicate()
