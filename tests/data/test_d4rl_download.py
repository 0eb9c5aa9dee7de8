"""Downloads of D4RL's files from a server on this machine, resumed and verified."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from d4rl_files import make_file

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.sources import d4rl
from decision_rnn.utils.errors import InputError

NAME = "d4rl/hopper-medium-v2"
FILE = "hopper_medium-v2.hdf5"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `content`, with ranges, as `mode` says."""

    content = b""
    mode = "whole"
    ranges: list[str | None]

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.ranges.append(asked)
        if self.mode == "forbidden":
            self.send_error(403)
            return
        first = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.mode != "no ranges" else 0
        if asked and first >= len(self.content):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(self.content) - 1}/{len(self.content)}")
        self.send_header("Content-Length", str(len(self.content) - first))
        self.end_headers()
        stop = len(self.content) // 2 if self.mode == "breaks off" else len(self.content)
        self.wfile.write(self.content[first:stop])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    """A server on this machine that publishes hopper_medium-v2.hdf5."""
    content = make_file(data / "published").read_bytes()
    (data / "published").unlink()
    handler = type("Published", (Handler,), {"content": content, "ranges": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        monkeypatch.setattr(d4rl, "URL", f"http://127.0.0.1:{listening.server_port}/")
        monkeypatch.setitem(d4rl.SHA256, "hopper_medium", hashlib.sha256(content).hexdigest())
        yield handler
        listening.shutdown()
        thread.join()


def test_missing_d4rl_dataset_is_downloaded_once(
    server: type[Handler], data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = open_dataset(NAME).open()
    assert store.steps == 20
    assert (data / FILE).read_bytes() == server.content
    assert store.manifest["source"]["files"][0]["sha256"] == d4rl.SHA256["hopper_medium"]
    assert "published file" not in capfd.readouterr().err
    open_dataset(NAME).open()
    assert server.ranges == [None]


def test_interrupted_download_resumes_with_a_range_request(server: type[Handler], data: Path) -> None:
    server.mode = "breaks off"
    with pytest.raises(InputError, match=r"cannot download .*try again"):
        open_dataset(NAME).open()
    assert not (data / FILE).exists()
    server.mode = "whole"
    open_dataset(NAME).open()
    assert (data / FILE).read_bytes() == server.content
    assert server.ranges[0] is None
    first = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in server.ranges[1:]]
    assert all(0 < begun <= len(server.content) // 2 for begun in first)


@pytest.mark.parametrize(("part", "mode"), [(100, "no ranges"), (None, "whole"), (10**6, "whole")])
def test_download_from_any_part_file_gives_the_right_content(
    server: type[Handler], data: Path, part: int | None, mode: str
) -> None:
    """A beginning, where the server starts again; all of it; and too much."""
    server.mode = mode
    (data / f".{FILE}.part").write_bytes((server.content + bytes(10**6))[:part] if part else server.content)
    open_dataset(NAME).open()
    assert (data / FILE).read_bytes() == server.content


def test_download_with_wrong_sha256_raises_and_is_deleted(server: type[Handler], data: Path) -> None:
    server.content = server.content[:-1] + b"?"
    with pytest.raises(InputError, match="SHA-256 is not"):
        open_dataset(NAME).open()
    assert [path.name for path in data.iterdir()] == [f".{FILE}.lock"]


def test_download_refused_by_the_server_raises_and_suggests_path(server: type[Handler], data: Path) -> None:
    server.mode = "forbidden"
    with pytest.raises(InputError, match=r"403.*--path.*hopper_medium-v2\.hdf5"):
        open_dataset(NAME).open()
    assert not (data / FILE).exists()


@pytest.mark.usefixtures("data")
def test_download_without_network_raises_and_suggests_path() -> None:
    with pytest.raises(InputError, match=r"cannot download http.*refused.*--path"):
        open_dataset(NAME).open()


def test_concurrent_downloads_fetch_the_file_once(server: type[Handler], data: Path) -> None:
    threads = [threading.Thread(target=open_dataset(NAME).download, args=(False,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.ranges == [None]
    assert (data / FILE).read_bytes() == server.content
