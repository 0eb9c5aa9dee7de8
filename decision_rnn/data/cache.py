"""The cache of what can be made again: its folder and the hashes that detect changes."""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import existing_ancestor


class CacheError(InputError):
    """A folder that can be made again is unusable; `fault` says why, without the remedy."""

    def __init__(self, fault: str, folder: Path) -> None:
        super().__init__(f"{fault}. Delete the folder {folder}; it will be made again.")
        self.fault = fault


def cache_root() -> Path:
    """The folder of everything that can be made again: `$DECISION_RNN_CACHE`, or `~/.cache/decision_rnn`."""
    return Path(os.environ.get("DECISION_RNN_CACHE") or "~/.cache/decision_rnn").expanduser()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


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
        untouched = (str(file.absolute()), status.st_mtime_ns) == (known["path"], known["mtime_ns"])
        return status.st_size == known["bytes"] and (untouched or sha256_of(file) == known["sha256"])

    return len(recorded) == len(files) and all(map(same, recorded, files))


def check_room(path: Path, needed: int) -> None:
    """Raise InputError if `needed` bytes do not fit: on a full disk HDF5 crashes instead of raising an error."""
    free = shutil.disk_usage(existing_ancestor(path)).free
    if free < needed:
        raise InputError(f"{path} needs {needed >> 20} MiB, but only {free >> 20} MiB are free. Choose another disk.")
