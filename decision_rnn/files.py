"""Writing files so that a reader sees the old content or the new, never a part of either.

What is being written lies in a hidden folder beside its destination, `.NAME.KERNEL.RANDOM.tmp`, which holds it and a
lock file that its writer keeps locked. The operating system unlocks what a killed process held, so that a leftover can
be told from what another process, or another container that shares the folder, is writing.
"""

import contextlib
import errno
import functools
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

from decision_rnn.errors import InputError
from decision_rnn.messages import warn

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a file system without locks answers, as some network file systems do."""

TEMPORARY = re.compile(r"\..+\.([0-9a-f]{12})\.[0-9a-f]{12}\.tmp")

ABANDONED = 24 * 3600.0
"""Seconds untouched after which a leftover of another machine, whose locks may not be seen here, is removed."""


@contextlib.contextmanager
def _held(path: Path, wait: bool, flags: int = 0) -> Iterator[bool]:
    """Hold the lock file `path`, opened with `flags`, until the block ends or the process dies.

    The block is given False where the file system has no locks. Where another process holds the lock and `wait` is
    False, that is a TimeoutError at once.
    """
    # Not filelock.FileLock, which makes the folder anew that another process has just removed.
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
        os.close(descriptor)  # which unlocks it
    with _held(path, wait, flags) as supported:  # its last holder has removed the file that we waited for
        yield supported


@functools.cache
def _kernel() -> str:
    """The same for processes that see each other's locks for certain: those of one running kernel."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:12]
    except OSError:
        return f"{uuid.getnode():012x}"


@contextlib.contextmanager
def _temporary_for(path: Path) -> Iterator[Path]:
    """A path that no other process uses, on the file system of `path`; what is there when the block ends is removed.

    What processes that were killed left in that folder is removed first.
    """
    _remove_leftovers(path.parent)
    folder = path.with_name(f".{path.name}.{_kernel()}.{uuid.uuid4().hex[:12]}.tmp")
    folder.mkdir()
    try:
        with _held(folder / "lock", wait=True, flags=os.O_CREAT):
            yield folder / "new"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(parent: Path) -> None:
    with os.scandir(parent) as entries:
        found = [(parent / entry.name, match) for entry in entries if (match := TEMPORARY.fullmatch(entry.name))]
    for folder, match in found:
        with contextlib.suppress(OSError):  # its writer lives, or it is somebody else's, or gone
            with _held(folder / "lock", wait=False) as sure:
                # A writer that has only begun may not hold its lock yet; then it has written nothing either.
                begun = os.path.lexists(folder / "new") and match[1] == _kernel()
                if sure and (begun or _untouched_for(folder) > ABANDONED):
                    shutil.rmtree(folder, ignore_errors=True)
            folder.rmdir()  # where an open file, the lock, keeps its folder (NFS)


def _untouched_for(folder: Path) -> float:
    """Seconds since the last change in a folder."""
    return time.time() - max(place.lstat().st_mtime for place in (folder, *folder.rglob("*")))


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
    """Write `data` to `path`: written beside it, fsynced, renamed."""
    with _temporary_for(path) as temporary:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    fsync_path(path.parent)


def link_atomically(path: Path, target: str) -> None:
    """Make `path` a symbolic link to `target`, in place of the link that may be there."""
    with _temporary_for(path) as temporary:
        temporary.symlink_to(target)
        temporary.replace(path)
    fsync_path(path.parent)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Be alone among processes with what is done about `path`; the operating system unlocks when a process dies.

    The lock is a hidden file beside `path`, and stays. On a file system that has no locks a line on stderr says so,
    and the block runs all the same.

    Args:
        path: What the lock is for; its parent folders are made.
        wait: For another process that holds the lock; if False, that is a TimeoutError at once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(_lock_file(path), wait, os.O_CREAT) as supported:
        if not supported:
            warn(
                f"{path.parent} lies on a file system without locks, as some network file systems are: see to it that "
                "no other process writes there meanwhile"
            )
        yield


def _lock_file(path: Path) -> Path:
    """Where `locked(path)` keeps its lock."""
    return path.with_name(f".{path.name}.lock")


@contextlib.contextmanager
def working_alone(folder: Path, lock: str, doing: str, what: str) -> Iterator[None]:
    """Be the only process that does a work in a folder, which is made; where the block adds nothing, it goes again.

    Args:
        folder: Where the work is done.
        lock: The name that the work's lock has there.
        doing: The work, for messages: "training".
        what: The folder, for messages: "the run folder".

    Raises:
        InputError: At once, where another process is at the same work there, or the folder cannot be made.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    file = _lock_file(folder / lock)
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
            with contextlib.suppress(OSError):  # others write there
                if set(os.listdir(folder)) - {file.name} == before:
                    file.unlink()
                    for place in made:
                        place.rmdir()


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Write a file that is moved to `path`, fsynced, when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_for(path) as temporary:
        yield temporary
        fsync_path(temporary)
        temporary.replace(path)
        fsync_path(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory at once for others, who may be writing into it; one that is not there is removed already."""
    with contextlib.suppress(FileNotFoundError), _temporary_for(path) as temporary:
        path.rename(temporary)  # what others add to it even now stays hidden, and goes with the next leftovers


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Fill a directory that is moved to `path`, fsynced, when the block ends without an error.

    A process killed inside the block leaves `path` untouched. When another process has put a directory there
    first, that one stays and ours is dropped: both were made by the same recipe.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_for(path) as temporary:
        temporary.mkdir()
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
