"""Atomic writing of files: a reader sees the old content or the new, never a part of either.

New content is written into a hidden folder beside its destination, `.NAME.RANDOM.decision_rnn`, together with a lock
file that the writer keeps locked. The operating system releases the locks of a killed process, so that a leftover can
be distinguished from what another process is still writing.
"""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

from decision_rnn.utils.errors import InputError, cannot_write

TEMPORARY = ".decision_rnn"
"""How the names of temporary folders end."""


@contextlib.contextmanager
def _held(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file `path` until the block ends or the process dies; yields False on a file system without locks.

    If another process holds the lock and `wait` is False, raises TimeoutError immediately.
    """
    # Not filelock.FileLock, which would recreate a folder that another process has just removed.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            held: bool | None = lock_descriptor(descriptor, blocking=wait)
        except OSError:  # a file system without locks, such as some network file systems
            held = None
        if held is False:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(path))
        yield bool(held)
    finally:
        os.close(descriptor)  # also releases the lock


@contextlib.contextmanager
def _temporary_for(path: Path) -> Iterator[Path]:
    """A path that no other process uses, on the file system of `path`; it is removed when the block ends.

    Leftovers of killed processes in that folder are removed first.
    """
    for left in path.parent.glob(f".*{TEMPORARY}"):
        with contextlib.suppress(OSError), _held(left / "lock", wait=False) as sure:  # else its writer is alive
            # A writer that has just started may not hold its lock yet, but then it has written nothing either.
            if sure and os.path.lexists(left / "new"):
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(TEMPORARY, f".{path.name}.", path.parent))
    try:
        with _held(folder / "lock"):
            yield folder / "new"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary path; the file or directory put there is fsynced and moved to `path` when the block ends without an
    error. A directory that another process has put at `path` first stays, and ours is discarded."""
    with _temporary_for(path) as temporary:
        yield temporary
        for place in (*temporary.rglob("*"), temporary):
            _fsync(place)
        try:
            temporary.replace(path)
        except OSError:
            if not (temporary.is_dir() and path.is_dir()):
                raise
    _fsync(path.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def existing_ancestor(path: Path) -> Path:
    """`path` or, if it does not exist, its nearest existing parent folder."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def check_folder(path: Path) -> None:
    """Raise the OSError that creating the folder `path`, or files in it, would raise; nothing is created."""
    existing = existing_ancestor(path)
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


def check_destination(path: Path) -> None:
    """Raise InputError if the file `path` cannot be written, before minutes are spent on its content."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        check_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whose folder exists, by way of a temporary file."""
    with _replacing(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary path for a new file, which is fsynced and moved to `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(path) as temporary:
        yield temporary


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A temporary directory, which is fsynced and moved to `path` when the block ends without an error.

    A process killed inside the block leaves `path` untouched. If another process has put a directory there first, that
    one stays and ours is discarded: both were made in the same way.
    """
    with new_file(path) as temporary:
        temporary.mkdir()
        yield temporary


def remove_directory(path: Path) -> None:
    """Remove a directory, atomically as seen by other processes that may write into it; no-op if it does not exist."""
    with contextlib.suppress(FileNotFoundError), _temporary_for(path) as temporary:
        path.rename(temporary)  # what others still add stays hidden and is removed with the next leftovers


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of `path`, which excludes other processes; the operating system releases it if this one dies.

    The lock is a hidden file beside `path`, which is not removed. On a file system without locks nothing is excluded.

    Args:
        path: What the lock is for; its parent folders are created.
        wait: Whether to wait for another process that holds the lock; if False, raises TimeoutError instead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path.with_name(f".{path.name}.lock"), wait):
        yield


@contextlib.contextmanager
def working_alone(folder: Path, lock: str, doing: str) -> Iterator[None]:
    """Be the only process that does some work in a folder, which is created, and removed if the block adds nothing.

    Args:
        folder: Where the work is done.
        lock: Name of the work's lock in that folder.
        doing: The work, for messages: "training".

    Raises:
        InputError: Immediately, if another process does the same work there or the folder cannot be created.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    with contextlib.ExitStack() as stack:
        try:
            check_folder(folder)
            stack.enter_context(locked(folder / lock, wait=False))
        except TimeoutError:
            raise InputError(
                f"another process is {doing} in {folder}: wait until it has ended, or choose another --output"
            ) from None
        except OSError as error:
            raise cannot_write(folder, error) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # other processes may write there
                if os.listdir(folder) == [f".{lock}.lock"]:
                    (folder / f".{lock}.lock").unlink()
                    for place in made:
                        place.rmdir()
