"""Writing files so that a reader sees the old content or the new, never a part of either."""

import contextlib
import errno
import glob
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path


def _temporary_sibling(path: Path) -> Path:
    """A hidden name beside `path` that no other process uses; what processes that were killed left is removed."""
    prefix = f".{path.name}.{socket.gethostname()}."
    for left in path.parent.glob(f"{glob.escape(prefix)}*"):
        if not _is_running(int(left.name.removeprefix(prefix).partition(".")[0])):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return path.with_name(f"{prefix}{os.getpid()}.{uuid.uuid4().hex[:8]}")


def _is_running(process: int) -> bool:
    try:
        with contextlib.suppress(PermissionError):  # it runs, as somebody else
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def existing_ancestor(path: Path) -> Path:
    """The nearest of `path` and the folders above it that exists."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def check_folder(path: Path) -> None:
    """Raise the OSError that making the folder `path`, or files in it, would meet; nothing is made."""
    existing = existing_ancestor(path)
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


def fsync_path(path: Path) -> None:
    """Force a file's content, or a directory's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` through a temporary sibling: written, fsynced, renamed."""
    temporary = _temporary_sibling(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_path(path.parent)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Be alone among processes with what is done about `path`; the operating system unlocks when a process dies.

    The lock is a hidden file beside `path`, and stays.

    Args:
        path: What the lock is for; its parent folders are made.
        wait: For another process that holds the lock; if False, that is a TimeoutError at once.
    """
    import fcntl  # here: not every system that only reads has it

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(path)) from None
        yield


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Write a temporary sibling of `path`; fsync it and rename it to `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_sibling(path)
    try:
        yield temporary
        fsync_path(temporary)
        temporary.replace(path)
        fsync_path(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_directory(path: Path) -> None:
    """Remove a directory at once for others, who may be writing into it; one that is not there is removed already."""
    temporary = _temporary_sibling(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(temporary)
        shutil.rmtree(temporary)


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Fill a temporary sibling of `path`; rename it to `path` when the block ends without an error.

    A process killed inside the block leaves `path` untouched. When another process has put a directory there
    first, that one stays and ours is dropped: both were made by the same recipe.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_sibling(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            fsync_path(file)
        fsync_path(temporary)
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise
        fsync_path(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
