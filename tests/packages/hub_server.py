"""A small Hugging Face Hub: the part of its HTTP API that downloading a repository and pushing to it need."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c0ffee" + "0" * 34


class HubServer(ThreadingHTTPServer):
    """Serves `repositories`, {"org/name": folder}, at revisions main and v1; commits are written into these folders.

    `fetched` lists downloads in order, and `created` whether each repository that was created is private.
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
            return self._answer(404, b"", **{"X-Error-Code": "RepoNotFound"})
        if (info[3] or "main" if info else match[2]) not in ("main", "v1", COMMIT):
            return self._answer(404, b"", **{"X-Error-Code": "RevisionNotFound"})
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        if info and info[2]:
            return self._answer_json([{"type": "file", "path": f, "size": 1, "oid": f} for f in files])
        if info:
            about = {"_id": "1", "id": match[1], "sha": COMMIT, "private": False, "tags": [], "downloads": 0}
            return self._answer_json({**about, "likes": 0, "siblings": [{"rfilename": file} for file in files]})
        if match[3] not in files:
            return self._answer(404, b"", **{"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        data = (folder / match[3]).read_bytes()
        if self.command == "GET":
            self.server.fetched.append(match[3])
        return self._answer(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', **{"X-Repo-Commit": COMMIT})

    def do_POST(self) -> None:
        lines = [json.loads(line) for line in self._body().splitlines()]
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", self.path)
        if self.path == "/api/repos/create":  # as of one that exists: whether it does shows in the next request
            (repository,) = lines
            self.server.created.append(repository.get("private", repository.get("visibility") == "private"))
            self._answer_json({"url": f"{self.server.address}/{repository['organization']}/{repository['name']}"})
        elif match is None:
            self._answer_json({"errors": [], "warnings": []})  # of the validation of a model card
        elif match[2] == "preupload":
            files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in lines[0]["files"]]
            self._answer_json({"files": files})
        else:
            for operation in lines:
                path = self.server.repositories[match[1]] / operation["value"].get("path", "")
                if operation["key"] == "deletedFile":
                    path.unlink()
                elif operation["key"] == "file":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(base64.b64decode(operation["value"]["content"]))
            self._answer_json({"commitUrl": f"{self.server.address}/{match[1]}/commit/{COMMIT}", "commitOid": COMMIT})

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        chunks = []  # Transfer-Encoding: chunked
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer_json(self, value: object) -> None:
        self._answer(200, json.dumps(value).encode())

    def _answer(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
