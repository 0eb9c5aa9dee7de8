"""A small Hugging Face Hub: the part of its HTTP API that downloading a repository needs."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c0ffee" + "0" * 34


class HubServer(ThreadingHTTPServer):
    """Serves `repositories`, {"org/name": folder}, at revisions main and v1; `fetched` lists downloads in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[str, Path] = {}
        self.fetched: list[str] = []

    def __enter__(self) -> "HubServer":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        info = re.fullmatch(r"/api/models/([^/]+/[^/]+)(/tree)?(?:/revision)?(?:/([^/]+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        match = info or file
        folder = self.server.repositories.get(match[1]) if match else None
        if match is None or folder is None:
            self._answer(404, b"", **{"X-Error-Code": "RepoNotFound"})
            return
        if (info[3] or "main" if info else match[2]) not in ("main", "v1", COMMIT):
            self._answer(404, b"", **{"X-Error-Code": "RevisionNotFound"})
            return
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        if info and info[2]:
            tree = [{"type": "file", "path": f, "size": (folder / f).stat().st_size, "oid": f} for f in files]
            self._answer(200, json.dumps(tree).encode())
        elif info:
            siblings = [{"rfilename": file} for file in files]
            about = {"_id": "1", "id": match[1], "sha": COMMIT, "private": False, "tags": [], "downloads": 0}
            about |= {"likes": 0, "siblings": siblings}
            self._answer(200, json.dumps(about).encode())
        elif match[3] in files:
            data = (folder / match[3]).read_bytes()
            if self.command == "GET":
                self.server.fetched.append(match[3])
            self._answer(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', **{"X-Repo-Commit": COMMIT})
        else:
            self._answer(404, b"", **{"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})

    def _answer(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
