"""Worker processes that share the cores and end with their parent."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

from decision_rnn.errors import InputError

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Report = Callable[[int], object]

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
"""How `spread` starts its processes. A spawned process imports torch for seconds, as long as 100 episodes take on a few
cores; a forked one starts immediately. Forking is as safe as for a DataLoader's workers: a worker computes with one
thread, since OpenMP's pool is not forked, and does not use a GPU. On systems other than Linux, system libraries do not
survive a fork."""

JOBS = "DECISION_RNN_JOBS"
"""The environment variable of `jobs_at_a_time`."""
LIFELINE = "DECISION_RNN_LIFELINE"
"""The environment variable of a process that ends with the process that writes to its stdin: `end_with_stdin`."""
PATIENCE = 10.0
"""Seconds that a worker may take to exit once it has no more work."""


def available_cores() -> int:
    """The number of cores this process may use, if the system reports it; else of all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_processes() -> int:
    """The default number of processes: one per core, or 1 in a pool's daemonic process, which may not start others."""
    return 1 if multiprocessing.current_process().daemon else available_cores()


def jobs_at_a_time() -> int | None:
    """The number of runs that `compare` trains at the same time as this one, including it; None for other runs."""
    jobs = os.environ.get(JOBS, "")
    return int(jobs) if jobs.isdigit() else None


def thread_limits(threads: int) -> dict[str, str]:
    """The environment of a process that uses `threads` threads per matrix product, so that several share the cores."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))


@contextlib.contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Processes started inside the block have these `thread_limits`."""
    limits = thread_limits(threads)
    before = {name: os.environ.get(name) for name in limits}
    os.environ.update(limits)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def spread(
    work: Callable[[Task, Report], Answer],
    tasks: Sequence[Task],
    processes: int,
    doing: str,
    progress: Report,
    prepare: Callable[[], None],
) -> list[Answer]:
    """The answers to all tasks, in order, computed by several processes, which exit before this returns.

    Each process takes the next task when it has finished one. An error in a task is raised here and stops the others,
    and so does Ctrl-C. Where processes are spawned, scripts must guard their work by `if __name__ == "__main__":`.

    Args:
        work: Takes a task and a function to report progress with, and returns an answer. It is pickled once; tasks,
            answers and errors are pickled too.
        tasks: The tasks.
        processes: Number of processes, at most one per task.
        doing: What the processes do, for messages: `plays episodes`.
        progress: Called in this process with what `work` reports.
        prepare: Called first in every process, for example to import what unpickling `work` needs.

    Raises:
        InputError: If a process dies.
    """
    packed = pickle.dumps(work)
    context: Any = multiprocessing.get_context(START_METHOD)
    workers: list[tuple[BaseProcess, Connection]] = []
    answers: dict[int, Answer] = {}
    waiting = iter(enumerate(tasks))
    try:
        with limited_threads(1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
            for _ in range(min(processes, len(tasks))):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work_for_parent, args=(theirs, packed, prepare))
                process.start()
                theirs.close()  # so that the pipe closes when its worker dies
                workers.append((process, ours))
        busy = [connection for _, connection in workers]
        with _death_noticed(doing):
            for connection in busy:
                connection.send(next(waiting))
        while busy:
            for connection in cast(list[Connection], wait(busy)):
                with _death_noticed(doing):
                    kind, *content = connection.recv()
                if kind == "progress":
                    progress(*content)
                elif kind == "failure":
                    error, where = content
                    raise error from RuntimeError(f"in a process that {doing}:\n{where}")
                else:
                    number, answers[number] = content
                    task = next(waiting, None)
                    if task is None:
                        busy.remove(connection)
                    with _death_noticed(doing):
                        connection.send(task)
        for process, _ in workers:
            process.join(PATIENCE)
    finally:
        for process, connection in workers:
            process.kill()
            process.join()
            connection.close()
    return [answers[number] for number in range(len(tasks))]


@contextlib.contextmanager
def _death_noticed(doing: str) -> Iterator[None]:
    """InputError if the process at the other end of a pipe has died; `doing` is its work, for the message."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise InputError(
            f"a process that {doing} has died: free some memory, ask for fewer processes, or put the work of a script "
            'under `if __name__ == "__main__":`'
        ) from error


def _work_for_parent(connection: Connection, packed: bytes, prepare: Callable[[], None]) -> None:
    """The main loop of a worker of `spread`: answer the tasks that it receives, until it receives None."""
    start_worker()
    try:
        prepare()
        work = pickle.loads(packed)
        while (task := connection.recv()) is not None:
            number, content = task
            answer = work(content, lambda done: connection.send(("progress", done)))
            connection.send(("answer", number, answer))
    except Exception as error:
        connection.send(("failure", _sendable(error), traceback.format_exc()))


def _sendable(error: Exception) -> Exception:
    """The error or, if it cannot be pickled and unpickled, a RuntimeError with the same message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # errors of any class may fail to pickle, in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def start_worker() -> None:
    """Set up a worker: leave Ctrl-C to its parent, and exit when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent does: otherwise the workers of a killed parent would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def end_with_stdin() -> None:
    """Exit as soon as stdin is closed, as it is when the process at its other end is killed."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):  # sys.stdin.read() would hold its lock at exit
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
