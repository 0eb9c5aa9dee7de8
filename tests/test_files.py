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
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from decision_rnn.files import link_atomically, locked, new_directory, new_file, remove_directory, write_atomically

KILLED = """
import os, signal, sys
from pathlib import Path
from decision_rnn.files import new_directory
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


WRITER = """
import os, socket, sys
from pathlib import Path
os.getpid = lambda: int(sys.argv[2])  # in a container of its own, whose processes others do not see
socket.gethostname = lambda: "trainer"
from decision_rnn.files import new_directory, new_file, write_atomically
with {block}:
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("kind", ["new_directory", "new_file"])
def test_temporaries_of_live_writers_in_containers_with_the_same_hostname_are_kept(tmp_path: Path, kind: str) -> None:
    blocks = {
        "new_directory": 'new_directory(Path(sys.argv[1])) as new, open(new / "file", "w") as file',
        "new_file": 'new_file(Path(sys.argv[1])) as new, open(new, "w") as file',
    }
    code = WRITER.format(block=blocks[kind]) + "    file.write('whole')\n"

    def start(process: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, str(tmp_path / "made"), str(process)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        return writer

    live = start(2**22 + 1)  # larger than any Linux process id
    killed = start(os.getpid())  # its id now belongs to a live process
    assert len(list(tmp_path.iterdir())) == 2
    killed.kill()
    killed.communicate()
    third = start(2**22 + 2)
    assert len(list(tmp_path.iterdir())) == 2
    for writer in (live, third):
        writer.communicate("go on\n")
        assert writer.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    made = tmp_path / "made" / "file" if kind == "new_directory" else tmp_path / "made"
    assert made.read_text() == "whole"


def test_leftovers_of_another_machine_are_removed_after_a_day(tmp_path: Path) -> None:
    """Its locks may not be visible here through a network file system."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "made")])
    (left,) = tmp_path.iterdir()
    kernel = left.name.split(".")[2]
    left = left.rename(tmp_path / left.name.replace(kernel, "0123456789ab"))
    with new_directory(tmp_path / "made"):
        assert left.exists()
    yesterday = time.time() - 25 * 3600
    for place in [*left.rglob("*"), left]:
        os.utime(place, (yesterday, yesterday))
    write_atomically(tmp_path / "other", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "other"]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_system_without_locks_warns_once_and_is_still_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "made")])

    def refuse(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "x", wait=False):
        write_atomically(tmp_path / "file", b"x")
    assert f"{tmp_path} is on a file system without locks" in capsys.readouterr().err
    before = {path.name for path in tmp_path.iterdir()}
    with new_directory(tmp_path / "made") as folder:
        (folder / "file").write_text("x")
    assert {path.name for path in tmp_path.iterdir()} == before | {"made"}  # the leftover may belong to a live process
    assert capsys.readouterr().err == ""


def test_link_atomically_replaces_link_and_removes_leftover_of_killed_process(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from decision_rnn.files import link_atomically
Path.replace = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
link_atomically(Path(sys.argv[1]), "10")
"""
    link_atomically(tmp_path / "last", "5")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "last")])
    assert os.readlink(tmp_path / "last") == "5"
    assert len(list(tmp_path.iterdir())) == 2
    link_atomically(tmp_path / "last", "20")
    assert os.readlink(tmp_path / "last") == "20"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_link_atomically_replaces_a_folder_that_copying_put_in_place_of_the_link(tmp_path: Path) -> None:
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "file").write_text("x")
    link_atomically(tmp_path / "last", "5")
    assert os.readlink(tmp_path / "last") == "5"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


@pytest.mark.parametrize("kind", [new_file, new_directory])
def test_new_file_or_directory_appears_complete_or_not_at_all(tmp_path: Path, kind: Callable) -> None:
    path = tmp_path / "folder" / "made"
    with pytest.raises(RuntimeError), kind(path) as temporary:
        (temporary / "file" if temporary.is_dir() else temporary).write_text("half")
        raise RuntimeError
    assert list(path.parent.iterdir()) == []
    with kind(path) as temporary:
        (temporary / "file" if temporary.is_dir() else temporary).write_text("whole")
        assert not path.exists()
    assert [each.read_text() for each in (*path.glob("file"), path) if each.is_file()] == ["whole"]
    assert list(path.parent.iterdir()) == [path]


def test_locked_excludes_others_until_its_holder_is_killed(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
from pathlib import Path
from decision_rnn.files import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(TimeoutError), locked(tmp_path / "x", wait=False):
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
