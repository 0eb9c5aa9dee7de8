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


def test_failed_write_atomically_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(os, "fsync", full)
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("kind", [new_file, new_directory])
def test_new_file_or_directory_appears_complete_or_not_at_all(tmp_path: Path, kind: Callable) -> None:
    def write(place: Path) -> None:
        (place if kind is new_file else place / "part").write_text("whole")

    made = tmp_path / "folder" / "made"
    with pytest.raises(RuntimeError), kind(made) as temporary:
        write(temporary)
        raise RuntimeError
    assert list(made.parent.iterdir()) == []
    with kind(made) as temporary:
        write(temporary)
        assert not made.exists()
    assert list(made.parent.iterdir()) == [made]
    assert (made if kind is new_file else made / "part").read_text() == "whole"


def test_remove_directory_succeeds_while_other_threads_write_into_it(tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                write_atomically(tmp_path / "made" / "file", b"x")

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        (tmp_path / "made").mkdir()
        remove_directory(tmp_path / "made")
        assert not (tmp_path / "made").exists()
    stop.set()
    for thread in threads:
        thread.join()
    remove_directory(tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_new_directory_and_write_atomically_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with new_directory(tmp_path / "made") as folder:
            (folder / "file").write_text("x")
        write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_new_directory_removes_leftovers_of_killed_processes_but_not_of_running_ones(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "made")])
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".made.")
    with new_directory(tmp_path / "made") as outer:
        assert not left.exists()
        (outer / "whose").write_text("the first's")
        with new_directory(tmp_path / "made") as inner:  # as in another process that makes the same directory
            assert outer.is_dir()
            (inner / "whose").write_text("the second's")
    assert (tmp_path / "made" / "whose").read_text() == "the second's"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_file_system_without_locks_is_still_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "made")])

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "x", wait=False):
        write_atomically(tmp_path / "file", b"x")
    before = {path.name for path in tmp_path.iterdir()}
    with new_directory(tmp_path / "made") as folder:
        (folder / "file").write_text("x")
    assert {path.name for path in tmp_path.iterdir()} == before | {"made"}  # the leftover may belong to a live process


def test_locked_excludes_others_until_its_holder_is_killed(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
from pathlib import Path
from decision_rnn.utils.files import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x")], stdout=subprocess.PIPE, text=True)
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
    holder.wait()
    holder.stdout.close()
    assert entered.wait(30)
    waiting.join()
