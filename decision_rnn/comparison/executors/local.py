"""Cells on this machine, in worker processes that are reused for many cells, since starting one takes seconds."""

import contextlib
import signal
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from decision_rnn.comparison.cells import Cell, run_cell
from decision_rnn.comparison.executors.contract import Event, Failed, Finished, Progress, failure
from decision_rnn.messages import quiet
from decision_rnn.plugins import import_plugins
from decision_rnn.workers import available_cores, limited_threads, start_worker

RETRIES = 1
"""How often a cell is restarted after its process died: another cell may have used up the memory."""


@dataclass
class _Worker:
    """A process, our end of its pipe, and the number of the cell that it runs."""

    process: BaseProcess
    connection: Connection
    cell: int


class LocalExecutor:
    """Runs cells in processes on this machine, each with an equal share of the cores, or fewer threads if
    OMP_NUM_THREADS is lower. The last digits of a cell's results depend on its number of threads.

    A process that dies, such as when memory runs out, is replaced, and its cell resumes from its last checkpoint. If it
    dies again, the cell has failed.

    Args:
        jobs: Number of cells at a time; if left out, the number of cores. On two cores, two runs with one thread each
            did 1.6 times as many training steps (minGRU, defaults) as one run with two threads, and playing episodes
            uses one thread.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or available_cores()

    def run(self, cells: Sequence[Cell]) -> Generator[Event, None, None]:
        plugins = tuple(dict.fromkeys(name for cell in cells for name in cell.config.plugins))
        waiting, deaths = deque(range(len(cells))), [0] * len(cells)
        workers: list[_Worker] = []
        try:
            while waiting or workers:
                while waiting and len(workers) < self.jobs:
                    workers.append(self._start(plugins))
                    self._give(workers[-1], waiting.popleft(), cells)
                ready = wait([worker.connection for worker in workers])
                for worker in [worker for worker in workers if worker.connection in ready]:
                    try:
                        event = worker.connection.recv()
                    except (EOFError, OSError):
                        workers.remove(worker)
                        worker.process.join()
                        deaths[worker.cell] += 1
                        if deaths[worker.cell] > RETRIES:
                            yield Failed(worker.cell, _describe_death(worker.process.exitcode))
                        else:
                            waiting.appendleft(worker.cell)
                        continue
                    yield event
                    if not isinstance(event, Progress):
                        if waiting:
                            self._give(worker, waiting.popleft(), cells)
                        else:
                            workers.remove(worker)
                            _end(worker)
        finally:
            for worker in workers:
                worker.process.kill()  # safe: its files are written atomically
                _end(worker)

    def _start(self, plugins: Sequence[str]) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        threads = max(1, min(torch.get_num_threads(), available_cores() // self.jobs))
        process = context.Process(target=_work, args=(theirs, plugins), name="cells")
        with limited_threads(threads):
            process.start()
        theirs.close()  # so that the pipe closes when the worker dies
        return _Worker(process, ours, -1)

    def _give(self, worker: _Worker, cell: int, cells: Sequence[Cell]) -> None:
        worker.cell = cell
        with contextlib.suppress(OSError):  # it has died; the next wait() notices
            worker.connection.send((cell, cells[cell]))


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.join()


def _work(connection: Connection, plugins: Sequence[str]) -> None:
    """Worker process: run cells until the pipe is closed, silently, since the output of workers would be mixed."""
    start_worker()
    fault = None
    try:
        import_plugins(plugins)
    except Exception as error:
        fault = error
    while True:
        try:
            number, cell = connection.recv()
        except EOFError:
            return
        event: Event
        try:
            if fault is not None:
                raise fault
            with quiet():
                outcome = run_cell(cell, lambda steps, number=number: connection.send(Progress(number, steps)))  # type: ignore[misc]
            event = Finished(number, outcome)
        except Exception as error:
            event = failure(number, error)
        connection.send(event)


def _describe_death(code: int | None) -> str:
    """Why a process ended, from its exit code."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            reason = ", as the system does where memory runs out: try fewer --jobs" if name == "SIGKILL" else ""
            return f"its process was ended by {name}, {RETRIES + 1} times over{reason}"
    return f"its process ended with exit code {code}, {RETRIES + 1} times over"
