"""Cells as tasks of a Ray cluster, for more than one machine: https://docs.ray.io/en/latest/ray-core/tasks.html

Every node needs this package, the plugins, and the datasets' files; a dataset made from a recipe is made once on each
node. The record of a cell is sent back. A run's folder has the same path on every node: on a shared file system, all
runs are together, and a run whose node is lost resumes from its last checkpoint; otherwise each node keeps the folders
of its own runs, and a run whose node is lost starts from scratch.
"""

import contextlib
import os
import pickle
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import torch

from decision_rnn.comparison.cells import Cell, run_cell
from decision_rnn.comparison.executors.contract import Event, Failed, Finished, Progress, failure
from decision_rnn.errors import InputError
from decision_rnn.files import locked
from decision_rnn.messages import quiet
from decision_rnn.plugins import import_plugins

RETRIES = 3
"""How often a cell is restarted after its process or node was lost."""
POLL = 1.0
"""Seconds between progress updates."""


class _Board:
    """A Ray actor that collects the steps done by every cell, for the display."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}

    def report(self, cell: int, steps: int) -> None:
        self.steps[cell] = steps

    def read(self) -> dict[int, int]:
        return self.steps


class RayExecutor:
    """Runs cells as tasks of one core each.

    Args:
        address: Address of a running cluster, `auto` for the one on this machine; if left out, one is started here
            and stopped at the end.
        jobs: Number of tasks at a time; if left out, the number of cores in the cluster.

    Raises:
        InputError: If Ray is not installed, or there is no cluster at that address.
    """

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise InputError(
                "--executor ray needs Ray, which is not installed: pip install 'decision-rnn[ray]'"
            ) from None
        self.ray: Any = ray
        self.started = not ray.is_initialized()
        if self.started:
            # The output of tasks would be mixed.
            options = {"include_dashboard": False} if address is None else {"address": address}
            try:
                ray.init(log_to_driver=False, **options)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"there is no Ray cluster at {address}: start one by `ray start --head`, or leave out "
                    f"--ray_address ({' '.join(str(error).split())[:200]})"
                ) from None
        self.limit = jobs
        self.jobs = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(self, cells: Sequence[Cell]) -> Generator[Event, None, None]:
        ray = self.ray
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        board = ray.remote(num_cpus=0, scheduling_strategy=here)(_Board).remote()
        waiting = deque(range(len(cells)))
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and (self.limit is None or len(running) < self.limit):
                    number = waiting.popleft()
                    running[self._submit(number, cells[number], board)] = number
                ready, _ = ray.wait(list(running), timeout=POLL)
                steps = ray.get(board.read.remote())
                yield from (Progress(number, steps[number]) for number in running.values() if number in steps)
                for reference in ready:
                    number = running.pop(reference)
                    try:
                        yield ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield Failed(number, f"its task was lost: {' '.join(str(error).split())[:300]}")
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            if self.started:
                ray.shutdown()

    def _submit(self, number: int, cell: Cell, board: Any) -> Any:
        """Submit a cell to the cluster. Tasks of a node that is lost are started again on another one."""
        gpus = 1 if cell.config.training.device == "cuda" else 0
        task = self.ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_run)
        # Pickled here, because a plugin's classes cannot be unpickled before the plugin is imported.
        packed = pickle.dumps(replace(cell, output=cell.output.absolute()))
        return task.remote(number, packed, cell.config.plugins, os.getcwd(), board)


def _run(number: int, packed: bytes, plugins: Sequence[str], folder: str, board: Any) -> Event:
    """Run one cell on a node."""
    torch.set_num_threads(1)  # as for a local cell, so that results are equal to the last digit
    with contextlib.suppress(OSError):  # plugins and files are looked for here; the node may not have this folder
        os.chdir(folder)
    try:
        import_plugins(plugins)
        cell: Cell = pickle.loads(packed)
        with locked(cell.folder / "training"):
            pass  # a run on a node taken for lost may need a moment to end
        with quiet():
            return Finished(number, run_cell(cell, lambda steps: board.report.remote(number, steps)))
    except Exception as error:
        return failure(number, error)
