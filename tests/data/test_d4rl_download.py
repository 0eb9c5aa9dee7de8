"""D4RL's files that are not here: downloaded from a server on this machine, resumed and verified."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from d4rl_files import make_file

from decision_rnn.data.catalog import open_dataset
from decision_rnn.data.download import fetch
from decision_rnn.data.sources import d4rl
from decision_rnn.errors import InputError

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
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(self.content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
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


def test_a_dataset_that_is_not_here_is_downloaded(
    server: type[Handler], data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = open_dataset(NAME).open()
    assert store.steps == 20
    assert (data / FILE).read_bytes() == server.content
    assert store.manifest["source"]["files"][0]["sha256"] == d4rl.SHA256["hopper_medium"]
    assert "published file" not in capfd.readouterr().err
    open_dataset(NAME).open()
    assert server.ranges == [None]


def test_an_interrupted_download_goes_on_where_it_broke_off(server: type[Handler], data: Path) -> None:
    server.mode = "breaks off"
    half = len(server.content) // 2
    with pytest.raises(InputError, match=rf"{half} of {len(server.content)} bytes.*try again"):
        open_dataset(NAME).open()
    assert not (data / FILE).exists()
    server.mode = "whole"
    open_dataset(NAME).open()
    assert (data / FILE).read_bytes() == server.content
    assert server.ranges == [None, f"bytes={half}-"]


def test_a_server_without_ranges_begins_anew(server: type[Handler], data: Path) -> None:
    (data / f".{FILE}.part").write_bytes(server.content[:100])
    server.mode = "no ranges"
    open_dataset(NAME).open()
    assert (data / FILE).read_bytes() == server.content


@pytest.mark.parametrize("extra", [b"", b"too much"])
def test_a_part_that_is_all_or_more(server: type[Handler], data: Path, extra: bytes) -> None:
    (data / f".{FILE}.part").write_bytes(server.content + extra)
    open_dataset(NAME).open()
    assert (data / FILE).read_bytes() == server.content


def test_other_content_than_the_published_is_thrown_away(server: type[Handler], data: Path) -> None:
    server.content = server.content[:-1] + b"?"
    with pytest.raises(InputError, match="SHA-256 is not"):
        open_dataset(NAME).open()
    assert [path.name for path in data.iterdir()] == [f".{FILE}.lock"]


def test_a_refusal_says_what_else_to_do(server: type[Handler], data: Path) -> None:
    server.mode = "forbidden"
    with pytest.raises(InputError, match=r"HTTP 403.*--path.*hopper_medium-v2\.hdf5"):
        open_dataset(NAME).open()
    assert not (data / FILE).exists()


@pytest.mark.usefixtures("data")
def test_no_network_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"cannot download http.*refused.*--path"):
        open_dataset(NAME).open()


def test_two_downloads_at_once_fetch_it_once(server: type[Handler], data: Path) -> None:
    threads = [threading.Thread(target=fetch, args=(d4rl.URL + FILE, data / FILE, None, False)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.ranges == [None]
    assert (data / FILE).read_bytes() == server.content
