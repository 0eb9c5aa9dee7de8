"""A small Hugging Face Hub: the part of its HTTP API that downloading a repository and pushing to it need."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "c0ffee" + "0" * 34


class HubServer(ThreadingHTTPServer):
    """Serves `repositories`, {"org/name": folder}, at revisions main and v1; `fetched` lists downloads in order, and
    `created` whether each repository that was created is private.

    Commits are written into these folders.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[str, Path] = {}
        self.fetched: list[str] = []
        self.created: list[bool] = []

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

    def do_POST(self) -> None:
        body = self._body()
        answer: dict[str, object]
        if self.path == "/api/repos/create":  # as of one that exists: whether it does shows in the next request
            asked = json.loads(body)
            self.server.created.append(asked.get("private", asked.get("visibility") == "private"))
            answer = {"url": f"{self.server.address}/{asked['organization']}/{asked['name']}"}
        elif self.path == "/api/validate-yaml":
            answer = {"errors": [], "warnings": []}
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/main", self.path):
            files = [file["path"] for file in json.loads(body)["files"]]
            answer = {"files": [{"path": file, "uploadMode": "regular", "shouldIgnore": False} for file in files]}
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", self.path):
            self._commit(self.server.repositories[match[1]], [json.loads(line) for line in body.splitlines()])
            answer = {"commitUrl": f"{self.server.address}/{match[1]}/commit/{COMMIT}", "commitOid": COMMIT}
        else:
            self._answer(404, b"")
            return
        self._answer(200, json.dumps(answer).encode())

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        chunks = []  # Transfer-Encoding: chunked
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _commit(self, folder: Path, operations: list[dict[str, Any]]) -> None:
        for operation in operations:
            key, value = operation["key"], operation["value"]
            if key == "deletedFile":
                (folder / value["path"]).unlink()
            elif key == "file":
                (folder / value["path"]).parent.mkdir(parents=True, exist_ok=True)
                (folder / value["path"]).write_bytes(base64.b64decode(value["content"]))

    def _answer(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
