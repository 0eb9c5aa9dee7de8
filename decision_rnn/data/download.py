"""Downloads a file by URL: resumable, verified and atomic."""

import http.client
import urllib.error
import urllib.request
from pathlib import Path

from decision_rnn.data.store.cache import check_room
from decision_rnn.data.store.verification import sha256_of
from decision_rnn.errors import InputError
from decision_rnn.files import fsync_path, locked
from decision_rnn.messages import bar

TIMEOUT = 30.0  # seconds without data
BLOCK = 1 << 18
NETWORK_FAULTS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def fetch(url: str, path: Path, sha256: str | None, progress: bool = True) -> None:
    """Download `url` to the new file `path`.

    A partial download is kept in a hidden file next to `path`, and the next call resumes it. Two processes do not
    download the same file at once: the second waits for the first.

    Args:
        url: An http or https URL.
        path: The file to write; an existing one is kept.
        sha256: The expected SHA-256; None if none is published.
        progress: Show a progress bar on stderr if that is a terminal.

    Raises:
        InputError: If the folder cannot be created, the server refuses, the connection breaks, or the content has
            another SHA-256.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {path.parent}: {error.strerror}") from None
    with locked(path):
        if path.exists():
            return
        part = path.with_name(f".{path.name}.part")
        try:
            _receive(url, part, progress)
        except NETWORK_FAULTS as error:
            reason = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else str(error)
            raise InputError(
                f"cannot download {url} ({reason}): try again, what has arrived is kept, or fetch it by other means "
                f"and name it with --path, or put it at {path}"
            ) from None
        if sha256 is not None and sha256_of(part) != sha256:
            part.unlink()
            raise InputError(f"{url} gave a file whose SHA-256 is not {sha256}: it was deleted, try again")
        fsync_path(part)
        part.replace(path)
        fsync_path(path.parent)


def _receive(url: str, part: Path, progress: bool) -> None:
    """Download the part of `url` that `part` still lacks."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return  # it was complete already
        part.unlink()
        _receive(url, part, progress)
        return
    with response:
        resumed = response.status == 206 and (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-")
        if response.status == 206 and not resumed:
            raise http.client.HTTPException("it sent another range than the one asked for")
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        check_room(part, (total or 0) - have)
        shown = bar(total=total, initial=have, desc=part.name[1:-5], unit="B", unit_scale=True, show=progress)
        with part.open("ab" if resumed else "wb") as file, shown:
            while block := response.read(BLOCK):
                file.write(block)
                shown.update(len(block))
    arrived = part.stat().st_size
    if total is not None and arrived != total:
        raise ConnectionError(f"the connection broke off at {arrived} of {total} bytes")
