"""Atomic writes and locks: a reader sees the old content or the new, never a part of either."""

import contextlib
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.utils.files import locked, new_directory, new_file, remove_directory, write_atomically

KILLED = """
import os, signal, sys
from pathlib import Path
from decision_rnn.utils.files import new_directory
with new_directory(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_failed_write_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space") as raised:
        patch.setattr(os, "fsync", failing(errno.ENOSPC))
        write_atomically(path, b"new")
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("kind", [new_file, new_directory])
def test_new_file_or_directory_appears_complete_or_not_at_all(tmp_path: Path, kind: Any) -> None:
    path, entry = tmp_path / "folder" / "new", "" if kind is new_file else "part"
    before = os.umask(0o022)
    try:
        with pytest.raises(RuntimeError), kind(path) as temporary:
            (temporary / entry).write_text("whole")
            raise RuntimeError
        assert list(path.parent.iterdir()) == []
        with kind(path) as temporary:
            (temporary / entry).write_text("whole")
            assert not path.exists()
    finally:
        os.umask(before)
    assert list(path.parent.iterdir()) == [path]
    assert (path / entry).read_text() == "whole"
    assert stat.S_IMODE(path.stat().st_mode) == (0o644 if kind is new_file else 0o755)


def test_directory_is_removed_while_others_write_into_it(tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                write_atomically(tmp_path / "new" / "file", b"x")

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        (tmp_path / "new").mkdir()
        remove_directory(tmp_path / "new")
        assert not (tmp_path / "new").exists()
    stop.set()
    for thread in threads:
        thread.join()
    remove_directory(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_only_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "new")])
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".new.")
    with new_directory(tmp_path / "new") as outer:
        assert not left.exists()
        (outer / "whose").write_text("the first's")
        with new_directory(tmp_path / "new") as inner:  # as in another process that makes the same directory
            assert outer.is_dir()
            (inner / "whose").write_text("the second's")
    assert (tmp_path / "new" / "whose").read_text() == "the second's"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_file_system_without_locks_is_still_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "new")])
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    with locked(tmp_path / "x", wait=False):
        write_atomically(tmp_path / "file", b"x")
    before = {path.name for path in tmp_path.iterdir()}
    with new_directory(tmp_path / "new") as folder:
        (folder / "file").write_text("x")
    assert {path.name for path in tmp_path.iterdir()} == before | {"new"}  # the leftover may belong to a live process


HOLDER = """
import sys, time
from pathlib import Path
from decision_rnn.utils.files import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_lock_excludes_others_until_its_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "x")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(BlockingIOError), locked(tmp_path / "x", wait=False):
        pass
    entered = threading.Event()

    def enter() -> None:
        with locked(tmp_path / "x"):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.3)
    holder.kill()
    holder.communicate()
    assert entered.wait(30)
    waiting.join()
