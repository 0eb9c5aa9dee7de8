"""Published files, downloaded once."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from decision_rnn.utils.errors import InputError, one_line
from decision_rnn.utils.files import locked
from decision_rnn.utils.messages import progress_bar, warn

TIMEOUT = (10, 30)
"""Seconds to wait for a connection, and for further bytes."""


def hub_folder(dataset: str, revision: str) -> str:
    """The address of a dataset's files on the Hugging Face Hub, or on the mirror of it that `$HF_ENDPOINT` names."""
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    return f"{hub}/datasets/{dataset}/resolve/{revision}/"


def download(
    file: Path,
    address: str,
    remedy: str,
    checksum: str | None = None,
    check: Callable[[Path], object] | None = None,
) -> Path:
    """Download a file, completely or not at all; a second process waits for the first.

    Args:
        file: Where the file goes. It is served under the same name.
        address: The address of its folder, ending in "/".
        remedy: A sentence on what to do if it is not served.
        checksum: The SHA-256 of the file, or `sha512:` and its SHA-512. Without one only https is accepted.
        check: For a file without a known checksum: a function that raises InputError if it is another file.

    Raises:
        InputError: If the server refuses, stalls, breaks off or serves another file.
    """
    import pooch  # slow to import, as requests is
    import requests

    def refuse_http(response: requests.Response, **_: Any) -> None:
        if checksum is None and urlsplit(response.url).scheme != "https":
            raise requests.exceptions.InvalidURL(f"{response.url} is not https, and the file has no known checksum")

    def fetch(url: str, target: str, manager: Any) -> None:
        with progress_bar(total=1, desc=file.name, unit="B", unit_scale=True) as progress:
            hooks = {"response": refuse_http}  # called for redirects too
            pooch.HTTPDownloader(progress, timeout=TIMEOUT, hooks=hooks)(url, target, manager)
        if check is not None:
            check(Path(target))

    pooch.get_logger().setLevel("WARNING")  # the bar says what it does, and only where messages are wanted
    host = urlsplit(address).netloc
    with locked(file):
        if not file.exists():
            warn(f"downloading {file} from {host}")
        try:
            return Path(pooch.retrieve(address + file.name, checksum, file.name, file.parent, downloader=fetch))
        except (requests.RequestException, ValueError) as error:  # the latter for another checksum, and by `check`
            # The message of a connection error contains those of its causes, the innermost last.
            nested = isinstance(error, requests.ConnectionError | requests.Timeout)
            reason = str(error).rpartition(": ")[2].rstrip("\"')") if nested else error
            raise InputError(f"cannot download {file.name} from {host} ({one_line(reason)}). {remedy}") from None
