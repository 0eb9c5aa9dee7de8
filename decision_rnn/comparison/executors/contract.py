"""The interface of executors, which start the runs of a comparison, and the process that each of them starts."""

import os
import shlex
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from decision_rnn import workers
from decision_rnn.checkpoint import checkpoints_of
from decision_rnn.comparison.record import LOG
from decision_rnn.files import write_atomically
from decision_rnn.workers import JOBS, LIFELINE, thread_limits

TRIAL = "trial.yaml"
"""The file in a run's folder with the configuration that it is started with."""


@dataclass(frozen=True)
class Task:
    """A run to be trained and evaluated.

    Attributes:
        folder: The run's folder.
        config: Its configuration, as YAML.
        plugins: Modules that it needs.
        device: Its `training.device`.
    """

    folder: Path
    config: str
    plugins: tuple[str, ...]
    device: str

    def write(self) -> list[str]:
        """Write the configuration into the run's folder; returns the words of the command that starts or resumes it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / TRIAL, self.config.encode())
        words = ["train", "--config", str(self.folder / TRIAL), "--output", str(self.folder)]
        words += ["--plugins", ",".join(self.plugins)] * bool(self.plugins)
        return words + ["--resume"] * (self.folder / "config.yaml").is_file()

    def start(self, jobs: int, threads: int) -> "subprocess.Popen[bytes]":
        """Start the run in a process that ends with this one and appends its output to the run's log.

        Args:
            jobs: Number of runs at the same time.
            threads: Number of threads of each, and of processes that play episodes.

        Raises:
            OSError: If the folder cannot be written.
        """
        words = [*self.write(), "--processes", str(threads)]
        environment = {**os.environ, **thread_limits(threads), LIFELINE: "1"}
        if not checkpoints_of(self.folder):  # earlier training may have run with another number of jobs
            environment[JOBS] = str(jobs)
        with (self.folder / LOG).open("ab") as log:
            log.write(f"$ decision-rnn {shlex.join(words)}\n".encode())
            log.flush()
            return subprocess.Popen(
                [*workers.PROGRAM, *words], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
            )

    def fault(self) -> str:
        """The last line of the run's log: the error of a run that has failed."""
        lines = [line for line in (self.folder / LOG).read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip().removeprefix("decision-rnn: ")


class Executor(Protocol):
    """Trains runs, several at a time."""

    jobs: int
    """Number of runs at a time, as far as it is known."""

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, str | None] | None, None, None]:
        """Start a process for every task, by `Task.start`.

        Yields the number of every task that has ended, with its error in one line or None, and None about once a
        second. Closing the generator early stops everything that it has started.

        Raises:
            InputError: If no task can be run at all.
        """
