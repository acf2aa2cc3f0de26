"""A local server that plays the web and the Hugging Face hub, with all their faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class WebServer:
    """Files by path, and faults that the next requests for a path meet, one after another.

    Faults: `drop N` sends the length of the whole file and N bytes of it; `status N`; `redirect
    URL`; `wrong` sends other bytes; `changed` answers as if the file were another one by now;
    `no range` ignores ranges; `chunked` and `no length` say no length; `slow` waits before every
    byte; `bad range` sends another range; `gated` is the hub's answer to who may not read;
    `hang` waits until the fault is taken away; `close` ends the connection without an answer.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    always: dict[str, str] = field(default_factory=dict)
    datasets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def paths(self, method: str = "GET") -> list[str]:
        """Paths that were asked for, in order."""
        return [path for kind, path, _ in self.requests if kind == method]

    def fault(self, path: str) -> str:
        """Fault that the next request for a path meets; empty for none."""
        waiting = self.faults[path]
        return waiting.pop(0) if waiting else self.always.get(path, "")

    def dataset_info(self, repo: str) -> dict[str, Any]:
        """The hub's description of a dataset."""
        siblings = [
            {
                "rfilename": name,
                "size": len(content),
                "blobId": "0" * 40,
                "lfs": {
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 130,
                },
            }
            for name, content in self.datasets[repo].items()
        ]
        return {"_id": "1", "id": repo, "sha": COMMIT, "siblings": siblings}


@contextmanager
def run_web_server() -> Iterator[WebServer]:
    """Run the server in a thread."""
    web = WebServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *values: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            web.requests.append((self.command, path, dict(self.headers.items())))
            fault = web.fault(path)
            self.close_connection = True
            while fault == "hang" and web.always.get(path) == "hang":
                time.sleep(0.005)
            fault = fault.replace("hang", "")
            if fault == "close":
                return
            if fault == "gated":
                self.send(403, b"no", {"X-Error-Code": "GatedRepo"})
            elif fault.startswith("status "):
                self.send(int(fault.split()[1]), b"no", {"Retry-After": "0"})
            elif fault.startswith("redirect "):
                self.send(302, b"", {"Location": fault.split()[1]})
            elif match := re.match(r"/api/datasets/([^/]+/[^/]+)(/revision/[^/]+)?$", path):
                if match[1] not in web.datasets:
                    self.send(401, b"no", {"X-Error-Code": "RepoNotFound"})
                else:
                    content = json.dumps(web.dataset_info(match[1])).encode()
                    self.send(200, content, {"Content-Type": "application/json"})
            elif match := re.match(r"/datasets/([^/]+/[^/]+)/resolve/[^/]+/(.+)$", path):
                content = web.datasets[match[1]][match[2]]
                headers = {"X-Repo-Commit": COMMIT}
                self.send_file(content, fault, body=body, more=headers)
            elif path not in web.files:
                self.send(404, b"no", {})
            else:
                self.send_file(web.files[path], fault, body=body)

        def send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def send_file(
            self, content: bytes, fault: str, *, body: bool, more: dict[str, str] | None = None
        ) -> None:
            if fault == "wrong":
                content = bytes(byte ^ 1 for byte in content)
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            start = 0
            span = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
            if span and fault != "no range" and self.headers.get("If-Range", etag) == etag:
                start = int(span[1])
                if start >= len(content):
                    self.send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                    return
            shift = 1 if fault == "bad range" else 0
            self.send_response(206 if start else 200)
            if start:
                last = len(content) - 1
                self.send_header("Content-Range", f"bytes {start - shift}-{last}/{len(content)}")
            if fault == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
            elif fault != "no length":
                self.send_header("Content-Length", str(len(content) - start))
            self.send_header("ETag", etag)
            self.send_header("Connection", "close")
            for name, value in (more or {}).items():
                self.send_header(name, value)
            self.end_headers()
            content = content[start:]
            if not body:
                return
            if fault.startswith("drop "):
                self.wfile.write(content[: int(fault.split()[1])])
            elif fault.startswith("slow"):
                for i in range(0, len(content), 1000):
                    self.wfile.write(content[i : i + 1000])
                    self.wfile.flush()
                    time.sleep(0.01)
            elif fault == "chunked":
                self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n0\r\n\r\n")
            else:
                self.wfile.write(content)

    with listen(Handler) as url:
        web.url = url
        yield web


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that was killed


@contextmanager
def listen(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on a free port of this machine while the block runs; gives its address."""
    with QuietServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
