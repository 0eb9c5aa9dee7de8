"""Cells on this machine: worker processes that live over many cells, for starting one takes seconds."""

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
"""How often a cell is begun again whose process died: memory may have run out for its neighbour's sake."""


@dataclass
class _Worker:
    """A process, our end of the pipe to it, and the number of the cell that it runs."""

    process: BaseProcess
    connection: Connection
    cell: int


class LocalExecutor:
    """Runs cells in processes of this machine, a share of the cores for each, or fewer threads where OMP_NUM_THREADS
    says so: a cell's last digits are those of so many threads.

    A process that dies, killed for lack of memory, say, is replaced, and its cell goes on from its last checkpoint;
    one whose process dies again has failed.

    Args:
        jobs: How many cells at a time; if left out, as many as there are cores. On two cores two runs of one thread
            took 1.6 times as many training steps (minGRU's default) as one run of two threads, and playing episodes
            takes one thread.
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
                worker.process.kill()  # what it has written is whole
                _end(worker)

    def _start(self, plugins: Sequence[str]) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        threads = max(1, min(torch.get_num_threads(), available_cores() // self.jobs))
        process = context.Process(target=_work, args=(theirs, plugins), name="cells")
        with limited_threads(threads):
            process.start()
        theirs.close()  # so that its death is the pipe's end
        return _Worker(process, ours, -1)

    def _give(self, worker: _Worker, cell: int, cells: Sequence[Cell]) -> None:
        worker.cell = cell
        with contextlib.suppress(OSError):  # it has died, which the next wait tells
            worker.connection.send((cell, cells[cell]))


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.join()


def _work(connection: Connection, plugins: Sequence[str]) -> None:
    """In a worker: cells as they come, until the pipe is closed. What they print would stand among each other's."""
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
