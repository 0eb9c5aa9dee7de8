"""A server of one file on this machine, which may fail in the ways of servers on the internet."""

import contextlib
import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path


class FileServer(http.server.ThreadingHTTPServer):
    """Answers every request with `content`, as `mode` says: `whole`, `forbidden`, `breaks off`, `stalls` after half of
    it, or another address, to which it redirects. `requests` has the paths that were asked for."""

    def __init__(self, content: bytes, mode: str, certificate: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.mode, self.requests, self.ended = content, mode, list[str](), threading.Event()
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server_port}"
        self.address = f"{'https' if certificate else 'http'}://{self.host}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that gives up closes the connection."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        server, half = self.server, len(self.server.content) // 2
        server.requests.append(self.path)
        if server.mode == "forbidden":
            self.send_error(403)
            return
        self.send_response(302 if "://" in server.mode else 200)
        self.send_header("Location", f"{server.mode}{self.path[1:]}")
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content if server.mode == "whole" else server.content[:half])
        if server.mode == "stalls":
            self.wfile.flush()
            server.ended.wait()

    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def serving(content: bytes, mode: str = "whole", certificate: Path | None = None) -> Iterator[FileServer]:
    """A server, by https if it has a certificate; it ends with the block."""
    with FileServer(content, mode, certificate) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
