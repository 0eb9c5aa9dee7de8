"""Verification stamps: hashed files are not hashed again until they change, and every change is noticed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from decision_rnn.data import verification
from decision_rnn.data.episode import Episode
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.verification import STAMPS, sha256_of
from decision_rnn.utils.errors import InputError

SECOND = 10**9


@pytest.fixture
def store(episodes: list[Episode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    """A store that has been verified, and whose files are no longer new."""
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id="Toy-v0", source={})
    now = verification.time.time_ns()
    monkeypatch.setattr(verification.time, "time_ns", lambda: now + 10 * SECOND)
    return EpisodeStore.open(store.path)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are hashed."""
    names: list[str] = []

    def recording(path: Path) -> str:
        names.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(verification, "sha256_of", recording)
    return names


def flip(file: Path) -> None:
    """Change one bit in place: size and inode stay the same."""
    with file.open("r+b") as handle:
        handle.seek(-1, os.SEEK_END)
        last = handle.read(1)[0]
        handle.seek(-1, os.SEEK_END)
        handle.write(bytes([last ^ 1]))


def test_verified_store_opens_without_hashing(store: EpisodeStore, hashed: list[str]) -> None:
    assert EpisodeStore.open(store.path).fingerprint == store.fingerprint
    assert hashed == []
    store.verify()
    assert sorted(hashed) == sorted(store.manifest["files"])


def test_recently_written_store_is_hashed_and_gets_no_stamps(
    episodes: list[Episode], tmp_path: Path, hashed: list[str]
) -> None:
    store = EpisodeStore.write(tmp_path / "store", episodes, environment_id="Toy-v0", source={})
    hashed.clear()
    EpisodeStore.open(store.path)
    assert "steps.npy" in hashed
    assert json.loads((store.path / STAMPS).read_text() if (store.path / STAMPS).exists() else "{}") == {}


def test_changed_store_file_is_hashed_and_raises_even_if_its_mtime_is_restored(
    store: EpisodeStore, hashed: list[str]
) -> None:
    file = store.path / "steps.npy"
    before = file.stat()
    flip(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    for _ in range(2):  # and at every later use
        with pytest.raises(InputError, match=r"steps\.npy is corrupt"):
            EpisodeStore.open(store.path)
    assert hashed.count("steps.npy") == 2


def test_replaced_store_file_is_hashed_again(store: EpisodeStore, hashed: list[str]) -> None:
    file = store.path / "offsets.npy"
    shutil.copy2(file, store.path / "copy")  # the same bytes and time of modification
    (store.path / "copy").replace(file)
    EpisodeStore.open(store.path)
    assert hashed == ["offsets.npy"]


@pytest.mark.parametrize("text", ["", "[]", "7", "null", '{"steps.npy": 7}', "[" * 100_000, "\x00\xff"])
def test_unreadable_stamps_are_ignored_and_rewritten(store: EpisodeStore, hashed: list[str], text: str) -> None:
    (store.path / STAMPS).write_text(text)
    EpisodeStore.open(store.path)
    assert sorted(hashed) == sorted(store.manifest["files"])
    EpisodeStore.open(store.path)
    assert len(hashed) == len(store.manifest["files"])


def test_verify_detects_corruption_that_the_stamps_miss(store: EpisodeStore) -> None:
    """Simulated by a stamp that fits the changed file, as if a disk error had changed the bits."""
    file = store.path / "steps.npy"
    flip(file)
    status = file.stat()
    stamps = json.loads((store.path / STAMPS).read_text())
    times = [status.st_mtime_ns, status.st_ctime_ns]
    stamps[file.name] = [stamps[file.name][0], status.st_size, *times, status.st_ino]
    (store.path / STAMPS).write_text(json.dumps(stamps))
    EpisodeStore.open(store.path)
    with pytest.raises(InputError, match=r"steps\.npy is corrupt"):
        store.verify()
    with pytest.raises(InputError, match=r"steps\.npy is corrupt"):
        EpisodeStore.open(store.path)  # the stamp is gone


def test_store_in_read_only_folder_opens_without_stamps(
    store: EpisodeStore, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (store.path / STAMPS).unlink()

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(verification, "write_atomically", refuse)
    for _ in range(2):
        assert EpisodeStore.open(store.path).steps == store.steps
    assert len(hashed) == 2 * len(store.manifest["files"])
    assert not (store.path / STAMPS).exists()
