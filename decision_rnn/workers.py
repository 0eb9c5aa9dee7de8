"""Worker processes that share the cores and end with their parent."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator


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
