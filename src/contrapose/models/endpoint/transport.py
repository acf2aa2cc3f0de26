"""Transport of requests: connections with a deadline, which another thread can break off."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from threading import Lock
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
    getproxies,
    proxy_bypass,
)
from weakref import WeakSet

LONGEST_WAIT = 600.0
"""Longest wait for a response or after a Retry-After, in seconds."""

WatchSocket = Callable[[socket.socket], None]
"""Told of every socket that is opened."""


class _DeadlineReader(io.RawIOBase):
    """Reader of a socket that fails at a deadline, however slowly the bytes drip in."""

    def __init__(self, raw: io.RawIOBase, sock: Any, deadline: float):
        self._raw, self._socket, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, waiting no longer than the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return cast("int | None", self._raw.readinto(buffer))

    def close(self) -> None:
        """Close the socket's reader."""
        self._raw.close()
        super().close()


class _DeadlineResponse(http.client.HTTPResponse):
    """Response, from its status line on, that must have arrived at a deadline."""

    def __init__(self, sock: Any, *arguments: Any, deadline: float, **options: Any):
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, deadline))

    def _read_next_chunk_size(self) -> int:
        """Size of the next chunk; a negative one would read everything, however much it is."""
        size = int(super()._read_next_chunk_size())  # type: ignore[misc]
        if size < 0:
            raise ValueError
        return size


class _DeadlineConnection(http.client.HTTPConnection):
    """Connection whose timeout is for everything: connecting, sending, and the whole response."""

    def __init__(self, *arguments: Any, watch: WatchSocket, **options: Any):
        super().__init__(*arguments, **options)
        self._watch = watch
        self._deadline = time.monotonic() + float(self.timeout or LONGEST_WAIT)
        self.response_class = partial(_DeadlineResponse, deadline=self._deadline)  # type: ignore[assignment]

    def connect(self) -> None:
        """Connect; sending has the time that is left."""
        super().connect()
        self.sock.settimeout(max(self._deadline - time.monotonic(), 0.001))
        self._watch(self.sock)


class _DeadlineSecureConnection(_DeadlineConnection, http.client.HTTPSConnection):
    """Connection by TLS whose timeout is for everything."""


class _DeadlineHandler(HTTPHandler):
    """Handler that opens connections with a deadline."""

    def __init__(self, watch: WatchSocket):
        super().__init__()
        self._watch = watch

    def http_open(self, req: Request) -> Any:
        """Open a plain connection."""
        return self.do_open(partial(_DeadlineConnection, watch=self._watch), req)


class _DeadlineSecureHandler(HTTPSHandler):
    """Handler that opens TLS connections with a deadline."""

    def __init__(self, watch: WatchSocket):
        super().__init__()
        self._watch = watch

    def https_open(self, req: Request) -> Any:
        """Open a TLS connection."""
        return self.do_open(partial(_DeadlineSecureConnection, watch=self._watch), req)


class _NoRedirect(HTTPRedirectHandler):
    """Redirect handler that follows none, since a redirect would leak the key."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow no redirect, so that it becomes an HTTP error."""


class _RemoteProxyHandler(ProxyHandler):
    """Proxy handler that leaves servers on this machine alone: a proxy could not reach them."""

    def proxy_open(self, req: Request, proxy: str, type: str) -> Any:  # noqa: A002
        """Hand a request to the proxy, unless it is for this machine."""
        if is_loopback(urlsplit(req.full_url).hostname or ""):
            return None
        return super().proxy_open(req, proxy, type)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine; 0.0.0.0, which servers print as their address, is it too."""
    try:
        address = ip_address(host)
        return address.is_loopback or address.is_unspecified
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def find_proxy(target: SplitResult) -> str:
    """Host and port of the proxy through which an address is reached; empty for none."""
    host = target.netloc.rpartition("@")[2]
    if is_loopback(target.hostname or "") or proxy_bypass(host):
        return ""
    proxy = getproxies().get(target.scheme, "")
    return proxy.rpartition("://")[2].rpartition("@")[2].rstrip("/")


class Transport:
    """Opener of connections; thread-safe. `abort` breaks off those of all threads."""

    def __init__(self) -> None:
        handlers = _DeadlineHandler(self._watch), _DeadlineSecureHandler(self._watch)
        self._opener: OpenerDirector = build_opener(_NoRedirect, _RemoteProxyHandler, *handlers)
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lock = Lock()
        self._aborted = False

    def open(self, request: Request, timeout: float) -> Any:
        """Send a request; the response must have arrived after so many seconds."""
        return self._opener.open(request, timeout=timeout)

    def begin(self) -> None:
        """Allow connections, also after an abort."""
        with self._lock:
            self._aborted = False

    def abort(self) -> None:
        """Break off all connections, so that no thread waits for a response; allow no others."""
        with self._lock:
            self._aborted = True
            for sock in list(self._sockets):
                _break_off(sock)

    def _watch(self, sock: socket.socket) -> None:
        with self._lock:
            if self._aborted:
                _break_off(sock)
            self._sockets.add(sock)


def _break_off(sock: socket.socket) -> None:
    """End both directions of a connection; a thread that reads from it wakes up."""
    with suppress(OSError):  # it is closed
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
