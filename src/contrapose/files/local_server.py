"""Web server of a page on this machine: the standard library's, with checks of who asks.

A request must name this machine in its `Host` header, so that a foreign page cannot reach the
server by a name that it made resolve here (DNS rebinding); a POST must come from the page itself.
Answers are sent with headers that keep other pages from framing or reading them.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

from contrapose.errors import ContraposeError, InputError, first_line, option, plain_names

WAIT_SECONDS = 30
"""Seconds that a silent connection is kept."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
"""Headers of every answer."""

KEEP = {"Cache-Control": "private, max-age=86400"}
"""Headers of answers that a browser may keep for a day."""


class RequestError(ContraposeError):
    """Request that cannot be answered; `status` is its HTTP status."""

    def __init__(self, status: int, message: str):
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Answer to a request.

    Attributes:
        content: the bytes.
        kind: media type.
        headers: further headers.
    """

    content: bytes
    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, values: object) -> HttpAnswer:
        """Answer of JSON values."""
        return cls(json.dumps(values).encode(), "application/json")


class Routes(Protocol):
    """Addresses of a server and their answers; called by several threads."""

    def find_method(self, path: str) -> str | None:
        """Method that an address answers; None where there is nothing."""

    def answer(self, address: SplitResult, read_body: Callable[[int], bytes]) -> HttpAnswer:
        """Answer a request; `read_body` reads the body of a POST, up to so many bytes.

        Raises:
            RequestError: it cannot be answered.
        """


class LocalServer:
    """Server in threads of its own; a context manager that closes it.

    Attributes:
        url: address of the page.
        is_local: whether only this machine can reach it.
    """

    def __init__(self, routes: Routes, host: str = "127.0.0.1", port: int = 0):
        """Bind to a port and answer from now on.

        Args:
            routes: answer the requests.
            host: address or name to listen at; `0.0.0.0` is every network of this machine.
            port: 0 is a free one.

        Raises:
            InputError: the host is not this machine's, or the port is taken.
        """
        if not 0 <= port <= 65535:
            raise InputError(f"{option('port')} must be from 0 to 65535, not {port}.")
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _HttpServer(routes, host, family, address)
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
        return f"{type(self).__name__}({self.url!r})"

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
    """HTTP server that knows its routes and by which names it may be called."""

    daemon_threads = True
    block_on_close = False
    # On Windows the option would let two servers share a port.
    allow_reuse_address = os.name != "nt"

    def __init__(self, routes: Routes, host: str, family: int, address: Any):
        self.address_family = family
        self.routes = routes
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
        sentence = {"error": message or "the request cannot be read."}
        self._send(HttpAnswer.json(sentence), int(code))

    def _answer(self, method: str) -> None:
        try:
            with plain_names():
                self._send(self._route(method))
        except RequestError as error:
            self.send_error(error.status, str(error))
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            self.send_error(500, f"unexpected error ({first_line(error)}).")

    def _route(self, method: str) -> HttpAnswer:
        if not self.server.knows_host(self.headers.get("Host", "")):
            raise RequestError(
                403, f"this server is not known by that name; open it by its {option('host')}."
            )
        try:
            address = urlsplit(self.path)
        except ValueError:
            raise RequestError(400, "the address cannot be read.") from None
        allowed = self.server.routes.find_method(address.path)
        if allowed is None:
            raise RequestError(404, "there is nothing here.")
        if method != allowed:
            raise RequestError(405, f"this address answers {allowed} only.")
        return self.server.routes.answer(address, self._read_body)

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

    def _send(self, answer: HttpAnswer, status: int = 200) -> None:
        self.send_response(status)
        more = {"Content-Type": answer.kind, "Content-Length": str(len(answer.content))}
        more |= {"Cache-Control": "no-store"} | HEADERS | dict(answer.headers)
        if self.close_connection:
            more["Connection"] = "close"
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)


def read_query(query: str, most: int = 8) -> dict[str, str]:
    """Words of an address by name, the first of several.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        words = parse_qs(query, keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise RequestError(400, "the address cannot be read.") from None
    return {name: values[0] for name, values in words.items()}


def read_number(words: Mapping[str, str], name: str, default: int = 0) -> int:
    """Whole number of an address.

    Raises:
        RequestError: it is none.
    """
    value = words.get(name, str(default))
    if not re.fullmatch("[0-9]{1,9}", value):
        raise RequestError(400, f"{name} is a whole number.")
    return int(value)
