"""Atomic writing of files: a reader sees the old content or the new, never a part of either.

New content is written into a hidden folder beside its destination, `.NAME.KERNEL.RANDOM.tmp`, together with a lock file
that the writer keeps locked. The operating system releases the locks of a killed process, so that a leftover can be
distinguished from what another process, or another container that shares the folder, is still writing.
"""

import contextlib
import errno
import functools
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

from decision_rnn.errors import InputError
from decision_rnn.messages import warn

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)
"""The errors of file systems without locks, such as some network file systems."""

NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""The errors of file systems without symbolic links, such as exFAT and some network and cloud drives."""

TEMPORARY = re.compile(r"\..+\.([0-9a-f]{12})\.\w+\.tmp")

ABANDONED = 24 * 3600.0
"""Seconds without changes after which a leftover of another machine, whose locks may be invisible here, is removed."""


@contextlib.contextmanager
def _held(path: Path, wait: bool, flags: int = 0) -> Iterator[bool]:
    """Hold the lock file `path`, opened with `flags`, until the block ends or the process dies.

    Yields False if the file system has no locks. If another process holds the lock and `wait` is False, raises
    TimeoutError immediately.
    """
    # Not filelock.FileLock, which would recreate a folder that another process has just removed.
    descriptor = os.open(path, os.O_RDWR | flags, 0o666)
    try:
        supported = True
        try:
            if not lock_descriptor(descriptor, blocking=wait):
                raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(path))
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            supported = False
        if os.fstat(descriptor).st_nlink > 0:
            yield supported
            return
    finally:
        os.close(descriptor)  # also releases the lock
    with _held(path, wait, flags) as supported:  # the last holder removed the lock file while we waited
        yield supported


@functools.cache
def _kernel() -> str:
    """An identifier of the running kernel; processes that share it are certain to see each other's locks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:12]
    except OSError:
        return f"{uuid.getnode():012x}"


@contextlib.contextmanager
def _temporary_for(path: Path) -> Iterator[Path]:
    """A path that no other process uses, on the file system of `path`; it is removed when the block ends.

    Leftovers of killed processes in that folder are removed first.
    """
    _remove_leftovers(path.parent)
    folder = Path(tempfile.mkdtemp(".tmp", f".{path.name}.{_kernel()}.", path.parent))
    try:
        with _held(folder / "lock", wait=True, flags=os.O_CREAT):
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
            fsync_path(place)
        try:
            temporary.replace(path)
        except OSError:
            if not (temporary.is_dir() and path.is_dir()):
                raise
    fsync_path(path.parent)


def _remove_leftovers(parent: Path) -> None:
    with os.scandir(parent) as entries:
        found = [(parent / entry.name, match) for entry in entries if (match := TEMPORARY.fullmatch(entry.name))]
    for folder, match in found:
        with contextlib.suppress(OSError):  # its writer is alive, it belongs to another user, or it is gone
            with _held(folder / "lock", wait=False) as sure:
                # A writer that has just started may not hold its lock yet, but then it has written nothing either.
                begun = os.path.lexists(folder / "new") and match[1] == _kernel()
                if sure and (begun or _untouched_for(folder) > ABANDONED):
                    shutil.rmtree(folder, ignore_errors=True)
            folder.rmdir()  # on NFS the open lock file has kept the folder from being removed


def _untouched_for(folder: Path) -> float:
    """Seconds since the last change to a folder or its contents."""
    return time.time() - max(place.lstat().st_mtime for place in (folder, *folder.rglob("*")))


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
    fault = None
    if not path.parent.is_dir():
        fault = f"the folder {path.parent} does not exist"
    elif path.is_dir():
        fault = "it is a folder"
    elif not os.access(path.parent, os.W_OK):
        fault = f"the folder {path.parent} is not writable"
    if fault:
        raise InputError(f"cannot write {path}: {fault}")


def fsync_path(path: Path) -> None:
    """Flush a file's content, or a directory's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    path.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(path) as temporary:
        temporary.mkdir()
        yield temporary


def remove_directory(path: Path) -> None:
    """Remove a directory, atomically as seen by other processes that may write into it; no-op if it does not exist."""
    with contextlib.suppress(FileNotFoundError), _temporary_for(path) as temporary:
        path.rename(temporary)  # what others still add stays hidden and is removed with the next leftovers


def link_atomically(path: Path, target: str) -> None:
    """Make `path` a symbolic link to `target`, replacing an existing link, or the folder that copying without links put
    in its place. On a file system without symbolic links there is none afterwards."""
    if path.is_dir() and not path.is_symlink():
        remove_directory(path)
    with _temporary_for(path) as temporary:
        try:
            temporary.symlink_to(target)
            temporary.replace(path)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
    fsync_path(path.parent)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of `path`, which excludes other processes; the operating system releases it if this one dies.

    The lock is a hidden file beside `path`, which is not removed. On a file system without locks, a warning is printed
    on stderr and the block runs anyway.

    Args:
        path: What the lock is for; its parent folders are created.
        wait: Whether to wait for another process that holds the lock; if False, raises TimeoutError instead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path.with_name(f".{path.name}.lock"), wait, os.O_CREAT) as supported:
        if not supported:
            warn(
                f"{path.parent} is on a file system without locks, such as some network file systems: make sure that "
                "no other process writes there"
            )
        yield


@contextlib.contextmanager
def working_alone(folder: Path, lock: str, doing: str, what: str) -> Iterator[None]:
    """Be the only process that does some work in a folder, which is created, and removed if the block adds nothing.

    Args:
        folder: Where the work is done.
        lock: Name of the work's lock in that folder.
        doing: The work, for messages: "training".
        what: The folder, for messages: "the run folder".

    Raises:
        InputError: Immediately, if another process does the same work there or the folder cannot be created.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    file = folder / f".{lock}.lock"
    with contextlib.ExitStack() as stack:
        try:
            check_folder(folder)
            before: set[str] = set() if made else set(os.listdir(folder))
            stack.enter_context(locked(folder / lock, wait=False))
        except TimeoutError:
            raise InputError(
                f"another process is {doing} in {folder}: wait until it has ended, or choose another --output"
            ) from None
        except OSError as error:
            raise InputError(f"cannot write {what} {folder}: {error.strerror}") from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # other processes may write there
                if set(os.listdir(folder)) - {file.name} == before:
                    file.unlink()
                    for place in made:
                        place.rmdir()
