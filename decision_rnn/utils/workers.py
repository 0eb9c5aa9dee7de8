"""Worker processes that share the cores and end with their parent."""

import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from decision_rnn.utils.errors import MachineError
from decision_rnn.utils.interruption import SIGNALS

Task = TypeVar("Task")
Answer = TypeVar("Answer")

LIFELINE = "DECISION_RNN_LIFELINE"
"""The environment variable of a process that ends with the process that writes to its stdin: `end_with_stdin`."""
PROGRAM = (sys.executable, "-m", "decision_rnn")
"""The words that start the command line in another process."""


def available_cores() -> int:
    """The number of cores this process may use, if the system reports it; else of all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(threads: int) -> dict[str, str]:
    """The environment of a process that uses `threads` threads per matrix product, so that several share the cores."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started inside the block compute with one thread each."""
    limits = thread_limits(1)
    before = {name: os.environ[name] for name in limits if name in os.environ}
    os.environ.update(limits)
    try:
        yield
    finally:
        for name in limits:
            del os.environ[name]
        os.environ.update(before)


def parallel_map(
    work: Callable[[Task], Answer], tasks: Iterable[Task], processes: int, activity: str, start_method: str = "fork"
) -> Generator[Answer, None, None]:
    """Yield the answers to all tasks, in order, computed by several processes, which end before this does.

    A few tasks are begun ahead of those whose answers have been taken, so that there may be infinitely many; closing
    the generator waits for those. An error in a task is raised here when its answer's turn comes and stops the others;
    Ctrl-C does at once. Where processes are spawned, scripts must guard their work by `if __name__ == "__main__":`.

    A spawned process imports torch for seconds, as long as 100 episodes take; a forked one starts immediately, and as
    safely as a DataLoader's: it computes with one thread, since OpenMP's pool is not forked, and uses no GPU.

    Args:
        work: A function from a task to an answer. Tasks, answers and errors are pickled; so is `work` where processes
            are spawned.
        activity: What the processes do, for messages: `plays episodes`.
        start_method: One of multiprocessing's.

    Raises:
        MachineError: If a process dies.
    """
    context: Any = multiprocessing.get_context(start_method)
    waiting, before, workers = iter(tasks), set(multiprocessing.active_children()), set()
    pool = ProcessPoolExecutor(processes, context, _begin_work, (work,))
    try:
        with _one_thread(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
            pending = deque(pool.submit(_work, task) for task in itertools.islice(waiting, 2 * processes))
            workers = set(multiprocessing.active_children()) - before
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(_work, task) for task in itertools.islice(waiting, 1))
        pool.shutdown()
    except GeneratorExit:  # no error: what the workers have begun to play may end
        pool.shutdown(cancel_futures=True)
        raise
    except BrokenProcessPool as error:
        raise MachineError(
            f"a process that {activity} has died: free memory, ask for fewer processes, or put the work of a script "
            'under `if __name__ == "__main__":`'
        ) from error
    finally:
        for process in workers:
            if process.is_alive():
                process.kill()
        pool.shutdown(cancel_futures=True)


_worker: dict[str, Callable[[Any], Any]] = {}
"""In a worker: its `work`."""


def _begin_work(work: Callable[[Any], Any]) -> None:
    """Set up a worker: ignore signals that schedulers send to all processes of a job, and exit when the parent does."""
    _worker["work"] = work
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    parent: Any = multiprocessing.parent_process()
    _exit_after(parent.join)  # otherwise the workers of a killed parent would wait forever


def _work(task: Any) -> Any:
    try:
        return _worker["work"](task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # errors of any class may fail to pickle, in any way
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


def _exit_after(wait: Callable[[], object]) -> None:
    """Exit this process as soon as a function returns, which waits in a thread of its own."""

    def watch() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def end_with_stdin() -> None:
    """Exit as soon as stdin is closed, as it is when the process at its other end is killed."""
    _exit_after(lambda: os.read(sys.stdin.fileno(), 1))  # sys.stdin.read() would hold its lock at exit
