"""Web server of the search page: the standard library's, bound to this machine by default.

    GET  /                   the page
    GET  /api/index          the index, its model, and the fusions
    GET  /api/images         a page of the index: offset
    GET  /thumbnail/ROW      JPEG copy of an image; /image/ROW is a larger one; v is the edition
    POST /api/search         JSON: path or upload, edit, fusion, lambda, k
    POST /api/upload         the bytes of an image

Nothing else is answered. A request must name this machine in its `Host` header, so that a foreign
page cannot reach the server by a name that it made resolve here (DNS rebinding); a POST must come
from the page itself. The page may run its own script and nothing external.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import sys
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from contrapose.errors import InputError, first_line, option, plain_names
from contrapose.files.pages import inline_page
from contrapose.search.searcher import Searcher
from contrapose.search.service import (
    MAX_UPLOAD_BYTES,
    PREVIEW_SIDE,
    THUMBNAIL_SIDE,
    RequestError,
    SearchService,
)

MAX_QUERY_BYTES = 1 << 16
"""Largest JSON of a search."""

WAIT_SECONDS = 30
"""Seconds that a silent connection is kept."""

IMAGE_ADDRESS = re.compile(r"/(thumbnail|image)/([0-9]{1,9})")

ROUTES = {"/": "GET", "/api/index": "GET", "/api/images": "GET"}
ROUTES |= {"/api/search": "POST", "/api/upload": "POST"}
"""Address → its method; those of images are matched by `IMAGE_ADDRESS`."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
"""Headers of every answer."""


@cache
def load_page() -> tuple[bytes, str]:
    """Load the page as one file, and a content policy that allows its script and style by hash."""
    text, (script, style) = inline_page(files(__package__).joinpath("page"), "page")
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return text.encode(), policy


class SearchServer:
    """Server of the search page, in threads of its own; a context manager that closes it.

    Attributes:
        url: address of the page.
        is_local: whether only this machine can reach it.
    """

    def __init__(self, searcher: Searcher, host: str = "127.0.0.1", port: int = 0):
        """Bind to a port and answer from now on.

        Args:
            searcher: answers the queries.
            host: address or name to listen at; `0.0.0.0` is every network of this machine.
            port: 0 is a free one.

        Raises:
            InputError: the host is not this machine's, or the port is taken.
        """
        if not 0 <= port <= 65535:
            raise InputError(f"{option('port')} must be from 0 to 65535, not {port}.")
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _HttpServer(SearchService(searcher), host, family, address)
        except (OSError, UnicodeError, OverflowError) as error:
            why = getattr(error, "strerror", None) or first_line(error)
            raise InputError(
                f"cannot listen at {host}, port {port} ({why}); choose another {option('port')}, "
                f"0 for a free one, or another {option('host')}."
            ) from None
        bound = ipaddress.ip_address(str(self._server.server_address[0]).partition("%")[0])
        self.is_local = bound.is_loopback
        name = socket.gethostname() if bound.is_unspecified else host
        shown = f"[{name}]" if ":" in name else name
        self.url = f"http://{shown}:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"SearchServer({self.url!r})"

    def wait(self) -> None:
        """Wait until the server is closed, or the user interrupts."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _HttpServer(ThreadingHTTPServer):
    """HTTP server that knows its service and by which names it may be called."""

    daemon_threads = True
    block_on_close = False
    # On Windows the option would let two servers share a port.
    allow_reuse_address = os.name != "nt"

    def __init__(self, service: SearchService, host: str, family: int, address: Any):
        self.address_family = family
        self.service = service
        super().__init__(address, _Handler)
        self.names = {"localhost", host.lower(), socket.gethostname().lower()}

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name."""
        socket.socket.setsockopt(
            self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, int(self.allow_reuse_address)
        )
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that break; browsers close them all the time."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def knows_host(self, header: str) -> bool:
        """Whether a `Host` header names this machine: by a name, or any numeric address."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
            if name in self.names:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class _Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: _HttpServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "contrapose", ""
    timeout = WAIT_SECONDS
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer("POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: queries and names of images are nobody's business."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with one sentence, and close: the rest of the request is not read."""
        self.close_connection = True
        self._send_json({"error": message or "the request cannot be read."}, int(code))

    def _answer(self, method: str) -> None:
        try:
            with plain_names():
                self._route(method)
        except RequestError as error:
            self.send_error(error.status, str(error))
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            self.send_error(500, f"unexpected error ({first_line(error)}).")

    def _route(self, method: str) -> None:
        if not self.server.knows_host(self.headers.get("Host", "")):
            raise RequestError(
                403, f"this server is not known by that name; open it by its {option('host')}."
            )
        try:
            address = urlsplit(self.path)
        except ValueError:
            raise RequestError(400, "the address cannot be read.") from None
        image = IMAGE_ADDRESS.fullmatch(address.path)
        allowed = "GET" if image else ROUTES.get(address.path)
        if allowed is None:
            raise RequestError(404, "there is nothing here.")
        if method != allowed:
            raise RequestError(405, f"this address answers {allowed} only.")
        service = self.server.service
        if image:
            side = THUMBNAIL_SIDE if image[1] == "thumbnail" else PREVIEW_SIDE
            content = service.render_image(int(image[2]), side, _read_edition(address.query))
            self._send(content, "image/jpeg", {"Cache-Control": "private, max-age=86400"})
        elif address.path == "/":
            page, policy = load_page()
            self._send(page, "text/html; charset=utf-8", {"Content-Security-Policy": policy})
        elif address.path == "/api/index":
            self._send_json(service.describe())
        elif address.path == "/api/images":
            self._send_json(service.list_images(_read_offset(address.query)))
        elif address.path == "/api/upload":
            self._send_json(service.keep_upload(self._read_body(MAX_UPLOAD_BYTES)))
        else:
            try:
                values = json.loads(self._read_body(MAX_QUERY_BYTES))
            except (ValueError, RecursionError):
                raise RequestError(400, "a search is a JSON object.") from None
            self._send_json(service.search(values))

    def _read_body(self, most: int) -> bytes:
        """Read the body of a POST that comes from the page, or from no page at all."""
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{self.headers.get('Host')}":
            raise RequestError(403, "another page asked.")
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not re.fullmatch("[0-9]{1,15}", length):
            raise RequestError(411, "the length of the request is missing.")
        if int(length) > most:
            raise RequestError(
                413, f"more than {most >> 20} MiB cannot be uploaded; make the image smaller."
                if most >= 1 << 20 else "the search is too long.",
            )  # fmt: skip
        content = self.rfile.read(int(length))
        if len(content) != int(length):
            raise RequestError(400, "the request ended early.")
        return content

    def _send_json(self, values: object, status: int = 200) -> None:
        self._send(json.dumps(values).encode(), "application/json", {}, status)

    def _send(self, content: bytes, kind: str, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        more = {"Content-Type": kind, "Content-Length": str(len(content))}
        more |= {"Cache-Control": "no-store"} | HEADERS | headers
        if self.close_connection:
            more["Connection"] = "close"
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _read_edition(query: str) -> str | None:
    try:
        return parse_qs(query, max_num_fields=8).get("v", [None])[0]
    except ValueError:
        raise RequestError(400, "the address cannot be read.") from None


def _read_offset(query: str) -> int:
    try:
        value = parse_qs(query, max_num_fields=8).get("offset", ["0"])[0]
    except ValueError:
        value = ""
    if not re.fullmatch("[0-9]{1,9}", value):
        raise RequestError(400, "offset is a whole number.")
    return int(value)
