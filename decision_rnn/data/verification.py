"""Verifies that files are unchanged: SHA-256 of their bytes, and stamps that avoid hashing them at every use.

Once a file has been hashed, its stamp (size, modification and change times, inode) is kept next to it in verified.json.
While the stamp is the same, the file counts as verified, so opening takes milliseconds. This detects everything that
goes through the file system: edited, truncated or replaced files, even with the modification time set back (only the
system sets the change time). It does not detect bits that change on a failing disk: for them, `decision-rnn data
verify` hashes everything again. If the folder cannot be written, every use hashes.
"""

import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import write_atomically

STAMPS = "verified.json"
COARSEST_CLOCK = 2_000_000_000  # ns, of FAT; a file changed more recently may change again with the same time


class CacheError(InputError):
    """A folder that can be regenerated is unusable; `fault` says why, without the remedy."""

    def __init__(self, fault: str, folder: Path) -> None:
        super().__init__(f"{fault}: delete the folder {folder}, it will be made again")
        self.fault = fault


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex (about 60 ms for 80 MB)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sha256_of_json(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def verify_files(folder: Path, files: dict[str, Any], afresh: bool = False) -> None:
    """Check that the files in `folder` match a manifest.

    Args:
        folder: The files' folder, which may be read-only.
        files: `bytes` and `sha256` of each, by name.
        afresh: Hash every file, regardless of its stamp.

    Raises:
        CacheError: If a file is missing, truncated or changed; the message names it.
    """
    begun = time.time_ns()
    known, stamps = {}, {}
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):  # no stamps yet, or unusable ones
        known = dict(json.loads((folder / STAMPS).read_bytes()))
    for name, expected in files.items():
        file = folder / name
        if not file.is_file():
            raise CacheError(f"{file} does not exist", folder)
        status = file.stat()  # before hashing: a file that changes meanwhile has another stamp
        times = [status.st_mtime_ns, status.st_ctime_ns]
        stamp = [expected["sha256"], status.st_size, *times, status.st_ino]
        same = status.st_size == expected["bytes"] and (not afresh and known.get(name) == stamp)
        if not same and sha256_of(file) != expected["sha256"]:
            with contextlib.suppress(OSError):
                (folder / STAMPS).unlink()  # a stamp that still matches would hide the fault next time
            raise CacheError(f"{file} is corrupt, its SHA-256 does not match the manifest's", folder)
        if max(times) < begun - COARSEST_CLOCK:
            stamps[name] = stamp
    if stamps != known:
        with contextlib.suppress(OSError):
            write_atomically(folder / STAMPS, json.dumps(stamps).encode())
