"""Runs as tasks of a Ray cluster, for more than one machine: https://docs.ray.io/en/latest/ray-core/tasks.html

Every node needs this package, the plugins, and the datasets' files; a dataset made from a recipe is made once on each
node. A run's folder has the same path on every node: on a shared file system, all runs are together, and a run whose
node is lost resumes from its last checkpoint; otherwise each node keeps the checkpoints of its own runs, their results
are sent back, and a run whose node is lost starts from scratch.
"""

import contextlib
import os
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from decision_rnn.comparison.executors.contract import Task
from decision_rnn.comparison.executors.local import describe_end
from decision_rnn.errors import InputError
from decision_rnn.files import locked, write_atomically

RETRIES = 3
"""How often a run is started again after its task or node was lost."""
RESULTS = ("run.log", "metrics.jsonl", "results/*.json")
"""The files of a run that are sent back."""


class RayExecutor:
    """Trains runs as tasks of one core each, and of one GPU where they train on one.

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
            options = {"include_dashboard": False} if address is None else {"address": address}
            try:
                ray.init(log_to_driver=False, **options)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"there is no Ray cluster at {address}: start one by `ray start --head`, or leave out "
                    f"--ray_address ({' '.join(str(error).split())[:200]})"
                ) from None
        resources = ray.cluster_resources()
        self.gpus = int(resources.get("GPU", 0))
        self.limit = jobs
        self.jobs = jobs or max(1, int(resources.get("CPU", 1)))

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, str | None] | None, None, None]:
        ray, waiting = self.ray, deque(range(len(tasks)))
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and (self.limit is None or len(running) < self.limit):
                    number = waiting.popleft()
                    running[self._submit(tasks[number], min(self.jobs, len(tasks)))] = number
                for reference in ray.wait(list(running), timeout=1.0)[0]:
                    number = running.pop(reference)
                    try:
                        fault, files = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield number, f"its task was lost: {' '.join(str(error).split())[:300]}"
                        continue
                    for name, content in files.items():
                        path = tasks[number].folder / name
                        if not path.is_file():  # the node does not share this folder
                            path.parent.mkdir(parents=True, exist_ok=True)
                            write_atomically(path, content)
                    yield number, fault
                yield None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            if self.started:
                ray.shutdown()

    def _submit(self, task: Task, jobs: int) -> Any:
        """Submit a run to the cluster. Tasks of a node that is lost are started again on another one."""
        on_gpu = task.device == "cuda" or (task.device == "auto" and self.gpus > 0)  # a task sees no GPU that it
        remote = self.ray.remote(num_cpus=1, num_gpus=int(on_gpu), max_retries=RETRIES)(_run)  # does not ask for
        return remote.remote(replace(task, folder=task.folder.absolute()), jobs, os.getcwd())


def _run(task: Task, jobs: int, folder: str) -> tuple[str | None, dict[str, bytes]]:
    """Train a run on a node, with one thread as for a local run, so that results are equal to the last digit."""
    with contextlib.suppress(OSError):  # plugins and files are looked for here; the node may not have this folder
        os.chdir(folder)
    try:
        with locked(task.folder / "training"):
            pass  # a run on a node taken for lost may need a moment to end
        code = task.start(jobs, threads=1).wait()
        if code < 0:  # killed, perhaps because another run has used up the memory
            code = task.start(jobs, threads=1).wait()
        fault = describe_end(task, code)
    except OSError as error:
        return f"cannot write {task.folder}: {error.strerror}", {}
    paths = [path for pattern in RESULTS for path in task.folder.glob(pattern)]
    return fault, {path.relative_to(task.folder).as_posix(): path.read_bytes() for path in paths}
