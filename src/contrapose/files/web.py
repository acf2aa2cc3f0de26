"""Requests to web servers: plain GET, safe redirects, and failures in one sentence."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from contrapose.errors import ContraposeError, first_line, hide_credentials

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as broken."""

GONE = (404, 410)
"""Statuses of a file that is not there."""

PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that another attempt may not meet again."""


class DownloadError(ContraposeError):
    """A file cannot be fetched, or is not the one that was asked for.

    Attributes:
        status: status of the server's answer; None where there was none.
        passing: whether the same may succeed later, as when the network is down.
    """

    def __init__(self, message: str, *, status: int | None = None, passing: bool = False):
        self.status, self.passing = status, passing
        super().__init__(hide_credentials(message))


class PassingError(Exception):
    """Failure that another attempt may overcome."""

    def __init__(self, reason: str, *, wait: float = 0.0, status: int | None = None):
        self.wait, self.status = wait, status
        super().__init__(reason)


class RangeError(Exception):
    """The server has no such range of the file."""


def open_web(url: str, headers: Mapping[str, str]) -> Any:
    """Answer of a web server to a GET; redirects are followed where that is safe.

    Raises:
        DownloadError: there is no such file, it may not be fetched, or a redirect is refused.
        PassingError: the server cannot be reached or is busy.
        RangeError: the range that the headers ask for is not there.
    """
    try:
        return _OPENER.open(Request(_ascii_url(url), headers=dict(headers)), timeout=TIMEOUT)  # noqa: S310 - the opener knows http and https alone
    except HTTPError as error:
        error.close()
        if error.code == 416 and "Range" in headers:
            raise RangeError from None
        if error.code in PASSING:
            reason = f"the server answers {error.code} {error.reason}"
            wait = _retry_after(error.headers)
            raise PassingError(reason, wait=wait, status=error.code) from None
        raise DownloadError(_describe_status(url, error), status=error.code) from None
    except (OSError, http.client.HTTPException) as error:
        raise PassingError(describe_reason(error)) from None
    except ValueError as error:
        raise DownloadError(f"{url} is no address to fetch from ({first_line(error)}).") from None


def require_web_url(url: str) -> None:
    """Require an address of the web.

    Raises:
        DownloadError: its scheme is neither http nor https, or it is no address at all.
    """
    try:
        known = urlsplit(url).scheme.lower() in ("http", "https")
    except ValueError:
        known = False
    if not known:
        raise DownloadError(f"{url} is no address of the web.")


def _describe_status(url: str, error: HTTPError) -> str:
    if error.code in GONE:
        return f"{url} is not there (status {error.code})."
    if error.code in (401, 403):
        return f"{url} may not be fetched (status {error.code}): its owner wants a login or terms."
    return f"{url} cannot be fetched (status {error.code}: {error.reason})."


def _retry_after(headers: Message) -> float:
    """Seconds that the server asks to wait, as a number or a date."""
    text = headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def describe_reason(error: Exception) -> str:
    """Reason of a broken connection, in a few words."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return "the server is silent"
    return first_line(reason) if isinstance(reason, BaseException) else str(reason)


def _ascii_url(url: str) -> str:
    """Address in which other characters than those of addresses are escaped."""
    parts = urlsplit(url)
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~-._")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


class _SafeRedirects(HTTPRedirectHandler):
    """Redirects between web addresses; never to a file, never from https to http."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """Request of the new address."""
        self.require_web(req.full_url, newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(self, req: Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Refuse other schemes before the parent does, in a sentence."""
        target = headers.get("Location", "")
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target):
            try:
                self.require_web(req.full_url, target)
            except DownloadError:
                fp.close()
                raise
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    @staticmethod
    def require_web(old: str, new: str) -> None:
        """Require that a redirect stays on the web, and secure.

        Raises:
            DownloadError: it does not.
        """
        before, after = urlsplit(old).scheme.lower(), urlsplit(new).scheme.lower()
        if after not in ("http", "https") or (before == "https" and after == "http"):
            raise DownloadError(f"{old} redirects to {new}, which is not followed.")


def _build_opener() -> OpenerDirector:
    opener = OpenerDirector()  # only these: the usual one also opens file:, ftp: and data:
    for handler in (
        *(ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler()),
        *(_SafeRedirects(), HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    return opener


_OPENER = _build_opener()
