"""Downloads of D4RL's files from a server on this machine, verified."""

import errno
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from d4rl_files import make_file

from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.sources import d4rl
from decision_rnn.utils.errors import EnvironmentFailure, InputError

NAME = "d4rl/hopper-medium-v2"
FILE = "hopper_medium-v2.hdf5"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `content`, as `mode` says."""

    content = b""
    mode = "whole"
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.mode == "forbidden":
            self.send_error(403)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content[: len(self.content) // 2] if self.mode == "breaks off" else self.content)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    """A server on this machine that publishes hopper_medium-v2.hdf5."""
    content = make_file(data / "published").read_bytes()
    (data / "published").unlink()
    handler = type("Published", (Handler,), {"content": content, "requests": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        monkeypatch.setattr(d4rl, "URL", "http://127.0.0.1:9/")  # https, where nothing listens
        monkeypatch.setattr(d4rl, "INSECURE_URL", f"http://127.0.0.1:{listening.server_port}/")
        monkeypatch.setitem(d4rl.SHA256, "hopper_medium", hashlib.sha256(content).hexdigest())
        yield handler
        listening.shutdown()
        thread.join()


def test_missing_file_is_downloaded_once(server: type[Handler], data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = open_dataset(NAME).store
    assert store.steps == 20
    assert (data / FILE).read_bytes() == server.content
    assert store.source["files"][0]["sha256"] == d4rl.SHA256["hopper_medium"]
    assert "published file" not in capfd.readouterr().err
    open_dataset(NAME)
    assert server.requests == [f"/{FILE}"]


@pytest.mark.parametrize("mode", ["breaks off", "forbidden", "other content"])
def test_failed_download_leaves_no_file(server: type[Handler], data: Path, mode: str) -> None:
    content = server.content
    server.mode = mode
    if mode == "other content":
        server.content = content[:-1] + b"?"
    with pytest.raises(InputError, match=FILE):
        open_dataset(NAME)
    assert [path.name for path in data.iterdir()] == [f".{FILE}.lock"]
    server.mode, server.content = "whole", content
    open_dataset(NAME)
    assert (data / FILE).read_bytes() == content


def test_file_without_a_known_hash_needs_https(server: type[Handler], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(d4rl.SHA256, "hopper_medium")
    with pytest.raises(InputError, match="cannot download"):
        open_dataset(NAME)
    assert d4rl.URL != d4rl.INSECURE_URL
    assert server.requests == []


def test_full_disk_is_no_fault_of_the_network(server: type[Handler], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **settings: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pooch.retrieve", full)
    with pytest.raises(EnvironmentFailure, match="No space left"):
        open_dataset(NAME)
    assert server.requests == []


def test_concurrent_downloads_fetch_the_file_once(server: type[Handler], data: Path) -> None:
    threads = [threading.Thread(target=open_dataset, args=(NAME,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.requests == [f"/{FILE}"]
    assert (data / FILE).read_bytes() == server.content
