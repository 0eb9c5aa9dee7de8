"""Atomic writing of files: a reader sees the old content or the new, never a part of either.

New content is written into a hidden folder beside its destination, `.NAME.RANDOM.decision_rnn`, which the writer keeps
locked. The operating system releases the locks of a killed process, which tells its leftovers from what another process
is still writing. On a file system without locks nothing is excluded or removed.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from decision_rnn.utils.errors import FULL, InputError, writing

SUFFIX = ".decision_rnn"
"""How the names of temporary folders end."""


@contextlib.contextmanager
def _flock(path: Path, flags: int, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file or folder, or BlockingIOError; yields False on a file system without locks."""
    descriptor = os.open(path, flags, 0o666)
    try:
        locks = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock", str(path)) from None
        except OSError:  # such as some network file systems
            locks = False
        yield locks
    finally:
        os.close(descriptor)  # also releases the lock


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A path that no other process uses, on the file system of `path`; it is removed when the block ends.

    Leftovers of killed processes in that folder are removed first.
    """
    for leftover in path.parent.glob(f".*{SUFFIX}"):
        with contextlib.suppress(OSError), _flock(leftover, os.O_RDONLY, wait=False) as locked_by_us:
            # A writer that has just started may not hold its lock yet, but then it has written nothing either.
            if locked_by_us and os.path.lexists(leftover / "new"):
                shutil.rmtree(leftover, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(SUFFIX, f".{path.name}.", path.parent))
    try:
        with _flock(folder, os.O_RDONLY):
            yield folder / "new"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary path for a new file, which is fsynced and moved to `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(path) as temporary:
        yield temporary


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A new folder under a temporary name, which is moved to `path` as `new_file` does. If `path` is a folder already,
    that one stays and ours is discarded."""
    with new_file(path) as temporary:
        temporary.mkdir()
        yield temporary


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file; the folder must exist."""
    with _replacing(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """As `new_file`, in a folder that exists."""
    try:
        with _temporary(path) as temporary:
            yield temporary
            for each in (*temporary.rglob("*"), temporary):
                _fsync(each)
            try:
                temporary.replace(path)
            except OSError:  # a directory that another process has put there first stays
                if not (temporary.is_dir() and path.is_dir()):
                    raise
    except OSError as error:
        if error.errno in FULL and error.filename is None:  # those of writing name no file
            error.filename = str(path)
        raise
    _fsync(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory, atomically as seen by other processes that may write into it; no-op if it does not exist."""
    with contextlib.suppress(FileNotFoundError), _temporary(path) as temporary:
        path.rename(temporary)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_folder(path: Path) -> None:
    """Raise InputError if files cannot be created in the folder `path`, before minutes are spent on their content."""
    existing = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    with writing(path), tempfile.TemporaryFile(dir=existing):
        pass


def check_destination(path: Path) -> None:
    """Raise InputError if the file `path` cannot be written, before minutes are spent on its content."""
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    check_folder(path.parent)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of `path`, which excludes other processes; the operating system releases it if this one dies.

    The lock is a hidden file beside `path`, whose parent folders are created; it is not removed. If another process
    holds the lock and `wait` is False, raises BlockingIOError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _flock(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, wait):
        yield


@contextlib.contextmanager
def working_alone(folder: Path, lock: str, activity: str) -> Iterator[None]:
    """Be the only process that does some work in a folder, which is created, and removed if it stays empty.

    InputError immediately, naming the activity, such as "training", if another process holds the same lock there, or if
    the folder cannot be created.
    """
    missing_parents = [parent for parent in folder.absolute().parents if not parent.exists()]
    with contextlib.ExitStack() as stack:
        with writing(folder):
            try:
                stack.enter_context(locked(folder / lock, wait=False))
            except BlockingIOError:
                raise InputError(f"another process is {activity} in {folder}. Choose another --output.") from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # other processes may write there
                if os.listdir(folder) == [f".{lock}.lock"]:
                    shutil.rmtree(folder)
                    for parent in missing_parents:
                        parent.rmdir()
