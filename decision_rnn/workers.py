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
"""How `spread` starts its processes. A spawned one imports torch for seconds, as long as 100 episodes take on a few
cores; a forked one begins at once. It is as safe as a DataLoader's worker, which is forked too: it computes with one
thread, since OpenMP's pool does not come with it, and leaves a GPU alone. Elsewhere than on Linux, the system's own
libraries do not survive a fork."""

PATIENCE = 10.0
"""Seconds that a worker which has nothing left to do may take to end."""


def available_cores() -> int:
    """The cores this process may use, where the system tells; all of them elsewhere."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Processes started inside use that many threads per matrix product, so that several share the cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(threads)))
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
    """The answers to all tasks, in their order, worked out by several processes, which end before this returns.

    Each process takes the next task when it has done one. What a task raises is raised here and ends the others, and so
    does Ctrl-C. Where processes are spawned, a script must keep its own work under `if __name__ == "__main__":`.

    Args:
        work: From a task and a function that it may report progress to, to an answer. It is pickled, once, as are
            tasks, answers and errors.
        tasks: What there is to do.
        processes: How many work at it; no more than there are tasks.
        doing: What they do, for messages: `plays episodes`.
        progress: Called here with what `work` reports.
        prepare: Called first in every process, such as to import what `work` needs to be unpickled.

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
                theirs.close()  # the pipe ends with its worker
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
    """InputError where the process at the other end of a pipe, which `doing` says the work of, is no more."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise InputError(
            f"a process that {doing} has died: free some memory, ask for fewer processes, or put the work of a script "
            'under `if __name__ == "__main__":`'
        ) from error


def _work_for_parent(connection: Connection, packed: bytes, prepare: Callable[[], None]) -> None:
    """What a worker of `spread` does: answer the tasks that it is sent, until it is sent None."""
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
    """The error, or where it cannot be pickled and unpickled one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # of whatever class the error is
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def start_worker() -> None:
    """What a worker does first: leave Ctrl-C to its parent, and watch for the parent's end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent would leave its workers waiting for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
