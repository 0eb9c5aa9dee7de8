"""Downloads from servers on this machine that fail, stall, break off or serve another file."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serving

from decision_rnn.utils import download as download_module
from decision_rnn.utils.download import download, hub_folder
from decision_rnn.utils.errors import InputError

CONTENT = bytes(range(256)) * 4_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FAULTS = ["forbidden", "breaks off", "stalls", "another file"]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "TIMEOUT", (0.5, 0.5))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "file.bin"


def left_of(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.iterdir() if not path.name.endswith(".lock"))


@contextlib.contextmanager
def faulty(fault: str, certificate: Path | None = None) -> Iterator[FileServer]:
    other = fault == "another file"
    with serving(CONTENT[:-1] + b"?" if other else CONTENT, "whole" if other else fault, certificate) as server:
        yield server


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_download_names_the_host_and_leaves_no_file(fault: str, file: Path) -> None:
    with faulty(fault) as server:
        with pytest.raises(InputError, match=rf"file\.bin.*{server.host}.*by hand"):
            download(file, server.address, "Fetch it by hand.", SHA256)
        assert left_of(file) == []
        server.mode, server.content = "whole", CONTENT
        assert download(file, server.address, "", SHA256) == file
    assert file.read_bytes() == CONTENT
    assert left_of(file) == ["file.bin"]


def test_hub_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert hub_folder("a/b", "1f") == "https://huggingface.co/datasets/a/b/resolve/1f/"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert hub_folder("a/b", "1f") == "https://mirror.example/datasets/a/b/resolve/1f/"


def test_file_without_a_known_hash_is_served_by_https_alone(file: Path, certificate: Path) -> None:
    with serving(CONTENT) as plain, serving(CONTENT, plain.address, certificate) as leads_to_plain:
        for server in (plain, leads_to_plain):
            with pytest.raises(InputError, match="is not https"):
                download(file, server.address, "")
            assert left_of(file) == []
    with serving(CONTENT, certificate=certificate) as secure:
        download(file, secure.address, "")
    assert file.read_bytes() == CONTENT


def test_server_without_a_trusted_certificate_is_not_read(
    file: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with serving(CONTENT, certificate=certificate) as server, pytest.raises(InputError, match=server.host):
        download(file, server.address, "")
    assert server.requests == []


@pytest.mark.parametrize("fault", FAULTS)
def test_file_without_a_known_hash_is_checked(fault: str, file: Path, certificate: Path) -> None:
    def check(path: Path) -> None:
        if path.read_bytes() != CONTENT:
            raise InputError("other contents")

    with faulty(fault, certificate) as server:
        with pytest.raises(InputError, match=server.host):
            download(file, server.address, "", check=check)
        assert left_of(file) == []
        server.mode, server.content = "whole", CONTENT
        download(file, server.address, "", check=check)
    assert file.read_bytes() == CONTENT
