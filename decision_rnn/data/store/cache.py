"""Converted stores: made once, reopened afterwards, and made again if they or their sources have changed."""

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from decision_rnn.data.store.episode_store import EpisodeStore, cache_root, read_manifest
from decision_rnn.data.store.verification import CacheError, sha256_of, sha256_of_json
from decision_rnn.errors import InputError
from decision_rnn.files import existing_ancestor, locked, remove_directory
from decision_rnn.messages import warn


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
    name: str, check: dict[str, Any] | Callable[[dict[str, Any]], None], make: Callable[[Path], EpisodeStore]
) -> EpisodeStore:
    """The converted store of `name`. If several processes need it at once, one makes it and the others wait.

    Args:
        name: The name of the dataset.
        check: What the store would be made from now, which must equal the `source` in its manifest; or, for other
            comparisons, a function that raises CacheError unless a `source` is equivalent.
        make: Makes the store in the given folder; called if there is no store, or no valid one.

    Raises:
        InputError: If the store has to be made and the cache cannot be written.
    """
    path = store_folder(name)
    with contextlib.suppress(CacheError):
        return _open(path, check)
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
                return _open(path, check)  # another process may have made it by now
            except CacheError as error:
                discard(path, error)
        return make(path)


def _open(path: Path, check: dict[str, Any] | Callable[[dict[str, Any]], None]) -> EpisodeStore:
    try:
        store = EpisodeStore.open(path)
    except FileNotFoundError:
        raise CacheError(f"{path} was removed while it was opened", path) from None
    try:
        if callable(check):
            check(store.manifest["source"])
        elif sha256_of_json(store.manifest["source"]) != sha256_of_json(check):
            raise CacheError(f"{path} was made from something else", path)
    except (KeyError, TypeError, AttributeError):
        raise CacheError(f"{path} does not say what it was made from", path) from None
    return store


def discard(path: Path, error: CacheError) -> None:
    """Remove an unusable folder, with a warning that says why."""
    warn(f"{error.fault}; making it again")
    remove_directory(path)


def identify(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The path, size, modification time and SHA-256 of each file, to detect changes."""
    identities = []
    for file in files:
        status = file.stat()  # before hashing: a file that changes meanwhile has a later time
        identities.append(
            {
                "path": str(file.absolute()),
                "bytes": status.st_size,
                "mtime_ns": status.st_mtime_ns,
                "sha256": sha256_of(file),
            }
        )
    return identities


def check_unchanged(recorded: list[dict[str, Any]], files: Sequence[Path], store: Path) -> None:
    """Raise CacheError unless the files are those recorded by `identify`; hashes only those that may have changed."""
    if len(recorded) != len(files):
        raise CacheError(f"{store} was made from other files", store)
    for identity, file in zip(recorded, files, strict=True):
        status = file.stat()
        untouched = (str(file.absolute()), status.st_mtime_ns) == (identity["path"], identity["mtime_ns"])
        if status.st_size != identity["bytes"] or not (untouched or sha256_of(file) == identity["sha256"]):
            raise CacheError(f"{store} was made from other contents of {file}", store)


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
