"""Executors, which start the runs of a comparison: on this machine, or as tasks of a Ray cluster."""

import contextlib
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from decision_rnn.utils import workers
from decision_rnn.utils.errors import InputError, importing, one_line
from decision_rnn.utils.files import locked
from decision_rnn.utils.interruption import Interruption, handle_signals
from decision_rnn.utils.workers import LIFELINE, available_cores, thread_limits

LOG = "run.log"
"""The file in a run's folder with the output of its processes, tracebacks included."""
POLL, ENDING = 0.2, 60
"""Seconds between polls of a process, and those that an interrupted run has to write a checkpoint."""


@dataclass(frozen=True)
class Task:
    """A run to be trained and evaluated: its folder and the file of its configuration, as absolute paths, and the
    modules to import and the device that the configuration names."""

    folder: Path
    file: Path
    plugins: tuple[str, ...]
    device: str

    @property
    def words(self) -> list[str]:
        """The words of the command that starts or resumes the run."""
        words = ["train", "--config", str(self.file), "--output", str(self.folder)]
        if self.plugins:
            words += ["--plugins", ",".join(self.plugins)]
        if (self.folder / "config.yaml").is_file():
            words.append("--resume")
        return words

    def start(self, threads: int) -> "subprocess.Popen[bytes]":
        """Start the run in a process that ends with this one and writes to the run's log."""
        words = [*self.words, "--processes", str(threads)]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOG).open("ab") as log:
            log.write(f"$ decision-rnn {shlex.join(words)}\n".encode())
            log.flush()
            command, environment = [*workers.PROGRAM, *words], {**os.environ, **thread_limits(threads), LIFELINE: "1"}
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)

    def train(self, threads: int, stop: threading.Event) -> str | None:
        """Run the process to its end; `stop` ends it early, with a checkpoint. Returns the error in one line, or None
        if the run succeeded."""
        try:
            process = self.start(threads)
        except OSError as error:
            return f"cannot write {self.folder}: {one_line(error)}"
        while process.poll() is None:
            if stop.wait(POLL):
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(ENDING)
                process.kill()  # safe: its files are written atomically
                process.wait()
        if process.returncode < 0:
            return f"killed by signal {-process.returncode}; the same command goes on from its last checkpoint"
        return self.fault() if process.returncode else None

    def fault(self) -> str:
        """The error of a run that has failed: of its last start, the last line of the log that reports one, or that is
        not empty."""
        log = (self.folder / LOG).read_text(errors="replace").rpartition("$ decision-rnn ")[2]
        lines = [line for line in log.splitlines() if line.strip()]  # the first one has the words of the command
        errors = [line for line in lines if re.match(r"decision-rnn: |\w[\w.]*(Error|Exception)\b", line)]
        return (errors or lines)[-1].removeprefix("decision-rnn: ")


class LocalExecutor:
    """Trains runs in processes on this machine, `jobs` at a time, each with an equal share of the cores, or fewer
    threads if OMP_NUM_THREADS is lower. The last digits of a run's results depend on its number of threads."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.threads = max(1, min(torch.get_num_threads(), available_cores() // self.jobs))

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, str | None], None, None]:
        """Yields the number of every task that has ended, with its error in one line or None. Closing the generator
        early stops everything that it has started, and waits for the checkpoints."""
        stop = threading.Event()
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                running = {pool.submit(self.train, task, stop): i for i, task in enumerate(tasks)}
                for ended in as_completed(running):
                    yield running[ended], ended.result()
            finally:
                stop.set()
                with Interruption(patient=True):
                    pool.shutdown(cancel_futures=True)

    def train(self, task: Task, stop: threading.Event) -> str | None:
        return task.train(self.threads, stop)


class RayExecutor(LocalExecutor):
    """Trains runs as Ray tasks of one core each, and of one GPU where they train on one, on the cluster that Ray finds
    (RAY_ADDRESS) or on one that is started here, until this process ends. InputError if there is none.

    Every node needs this package, the plugins, the datasets' files and the comparison's folder, on a file system that
    they share. A run whose node is lost resumes on another from its last checkpoint.
    """

    def __init__(self, jobs: int | None = None) -> None:
        with importing("this executor", "ray"):
            import ray
        self.ray: Any = ray
        if not ray.is_initialized():
            try:
                ray.init(log_to_driver=False, include_dashboard=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(f"there is no Ray cluster at RAY_ADDRESS: {one_line(error)}") from None
        resources = ray.cluster_resources()
        self.gpus = int(resources.get("GPU", 0))
        super().__init__(jobs or max(1, int(resources.get("CPU", 1))))

    def train(self, task: Task, stop: threading.Event) -> str | None:
        # A task has no GPU that it does not ask for.
        gpus = int(task.device == "cuda" or (task.device == "auto" and self.gpus > 0))
        remote = self.ray.remote(num_cpus=1, num_gpus=gpus, max_retries=3)(_on_node)
        reference = remote.remote(task, os.getcwd())
        while not self.ray.wait([reference], timeout=POLL)[0]:
            if stop.is_set():
                self.ray.cancel(reference)  # interrupts `_on_node`, also more than once
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return f"its task was lost: {one_line(error)}"


def _on_node(task: Task, folder: str) -> str | None:
    """Train a run on a node, with one thread as for a local run, so that results are equal to the last digit."""
    with contextlib.suppress(OSError):  # plugins and files are looked for here; the node may not have this folder
        os.chdir(folder)
    with locked(task.folder / "training"):
        pass  # a run on a node taken for lost may need a moment to end
    stop = threading.Event()
    with handle_signals(lambda *_: stop.set()):
        return task.train(1, stop)
