"""The cache of what can be made again: its folder and the hashes that detect changes."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


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
        untouched = (str(file.absolute()), file.stat().st_mtime_ns) == (known["path"], known["mtime_ns"])
        return file.stat().st_size == known["bytes"] and (untouched or sha256_of(file) == known["sha256"])

    return len(recorded) == len(files) and all(map(same, recorded, files))
