"""Runs on this machine, each in a process of its own."""

import contextlib
import signal
import subprocess
import time
from collections import Counter, deque
from collections.abc import Generator, Sequence

import torch

from decision_rnn.comparison.executors.contract import Task
from decision_rnn.workers import available_cores

POLL = 0.2
"""Seconds between looks at the processes."""
RETRIES = 1
"""How often a run is resumed after its process was killed: another run may have used up the memory."""


class LocalExecutor:
    """Trains runs in processes on this machine, each with an equal share of the cores, or fewer threads if
    OMP_NUM_THREADS is lower. The last digits of a run's results depend on its number of threads.

    A run whose process is killed, such as when memory runs out, resumes from its last checkpoint. If it is killed
    again, it has failed.

    Args:
        jobs: Number of runs at a time; if left out, the number of cores. On two cores, two runs with one thread each
            did 1.6 times as many training steps (minGRU, defaults) as one run with two threads, and playing episodes
            uses one thread.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or available_cores()
        self.threads = max(1, min(torch.get_num_threads(), available_cores() // self.jobs))

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, str | None] | None, None, None]:
        waiting, killed = deque(range(len(tasks))), Counter[int]()
        running: dict[int, subprocess.Popen[bytes]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    number = waiting.popleft()
                    try:
                        running[number] = tasks[number].start(min(self.jobs, len(tasks)), self.threads)
                    except OSError as error:
                        yield number, f"cannot write {tasks[number].folder}: {error.strerror}"
                time.sleep(POLL)
                ended = {number: code for number, process in running.items() if (code := process.poll()) is not None}
                for number, code in ended.items():
                    del running[number]
                    killed[number] += code < 0
                    if code < 0 and killed[number] <= RETRIES:
                        waiting.appendleft(number)
                    else:
                        yield number, describe_end(tasks[number], code)
                yield None
        finally:
            for process in running.values():
                process.kill()  # safe: its files are written atomically
                process.wait()


def describe_end(task: Task, code: int) -> str | None:
    """The error of a run whose process has ended, from its exit code; None if it succeeded."""
    if code >= 0:
        return task.fault() if code else None
    name = str(-code)
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
    reason = ", as the system does if memory runs out: try fewer --jobs" if name == "SIGKILL" else ""
    return f"its process was ended by {name}, {RETRIES + 1} times{reason}"
