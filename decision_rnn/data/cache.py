"""Converted stores: made once, reopened afterwards, and made again if they or their sources have changed."""

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from decision_rnn.data.store import EpisodeStore, cache_root, read_manifest
from decision_rnn.data.verification import CacheError, sha256_of, sha256_of_json
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import existing_ancestor, locked, remove_directory
from decision_rnn.utils.messages import warn


def store_folder(name: str) -> Path:
    """The folder of the converted store of the dataset `name`."""
    return cache_root() / "stores" / name


def made_manifest(name: str) -> dict[str, Any] | None:
    """The manifest of the converted store of `name`, without verifying its arrays; None if it cannot be read."""
    try:
        return read_manifest(store_folder(name))
    except (CacheError, OSError, KeyError, TypeError):
        return None


def open_or_make(
    name: str, source: dict[str, Any] | Callable[[dict[str, Any]], bool], make: Callable[[Path], EpisodeStore]
) -> EpisodeStore:
    """The converted store of `name`. If several processes need it at once, one makes it and the others wait.

    Args:
        name: The name of the dataset.
        source: What the store would be made from now, which must equal the `source` in its manifest; or, for other
            comparisons, a function from that `source` to whether it is as good.
        make: Makes the store in the given folder; called if there is no store, or no valid one.

    Raises:
        InputError: If the store has to be made and the cache cannot be written.
    """
    path = store_folder(name)
    with contextlib.suppress(CacheError):
        return _open(path, source)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(cache_root() / "locks" / name))
        except OSError as error:
            raise InputError(
                f"cannot write into the cache {cache_root()}: {error.strerror}; name another folder with "
                "DECISION_RNN_CACHE"
            ) from None
        if path.exists():
            try:
                return _open(path, source)  # another process may have made it by now
            except CacheError as error:
                discard(path, error)
        return make(path)


def _open(path: Path, source: dict[str, Any] | Callable[[dict[str, Any]], bool]) -> EpisodeStore:
    store = EpisodeStore.open(path)
    found = store.manifest["source"]
    with contextlib.suppress(KeyError, TypeError, AttributeError):  # it does not say what it was made from
        if source(found) if callable(source) else sha256_of_json(found) == sha256_of_json(source):
            return store
    raise CacheError(f"{path} was made from something else, or by another recipe", path)


def discard(path: Path, error: CacheError) -> None:
    """Remove an unusable folder, with a warning that says why."""
    warn(f"{error.fault}; making it again")
    remove_directory(path)


def identify(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The path, size, modification time and SHA-256 of each file, to detect changes."""
    stats = [file.stat() for file in files]  # before hashing: a file that changes meanwhile has a later time
    return [
        {"path": str(file.absolute()), "bytes": s.st_size, "mtime_ns": s.st_mtime_ns, "sha256": sha256_of(file)}
        for file, s in zip(files, stats, strict=True)
    ]


def is_made_of(recorded: list[dict[str, Any]], files: Sequence[Path]) -> bool:
    """Whether the files are those recorded by `identify`; hashes only those that may have changed."""

    def same(known: dict[str, Any], file: Path) -> bool:
        status = file.stat()
        touched = (str(file.absolute()), status.st_mtime_ns) != (known["path"], known["mtime_ns"])
        return status.st_size == known["bytes"] and (not touched or sha256_of(file) == known["sha256"])

    return len(recorded) == len(files) and all(map(same, recorded, files))


def check_room(path: Path, needed: int) -> None:
    """Raise InputError if `needed` bytes do not fit: on a full disk HDF5 crashes instead of raising an error."""
    free = shutil.disk_usage(existing_ancestor(path)).free
    if free < needed:
        raise InputError(
            f"{path} will not fit: {needed >> 20} MiB are needed and {free >> 20} MiB free; make room, or put the "
            "caches elsewhere with DECISION_RNN_CACHE and MINARI_DATASETS_PATH"
        )


def bytes_per_step(observation_dim: int, action_dim: int) -> int:
    """The bytes of a store per step: the packed float32 row and the float64 reward."""
    return 4 * (observation_dim + 2 * action_dim + 4) + 8
