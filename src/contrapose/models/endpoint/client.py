"""HTTP client of an endpoint: rate limit, retries with back-off, clear errors."""

from __future__ import annotations

import base64
import http.client
import io
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from threading import Event, Lock
from typing import Any, NoReturn, TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote, unquote, urlunsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)

from contrapose.errors import InputError
from contrapose.models.capabilities import Reply
from contrapose.models.endpoint.protocol import (
    EndpointError,
    MalformedReplyError,
    parse_error,
    parse_reply,
)
from contrapose.models.endpoint.settings import EndpointSettings

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class RateLimit:
    """Rate limit shared by all threads that send requests.

    Attributes:
        rpm: requests per minute; 0 for no limit.
        clock: monotonic time in seconds.
        sleep: sleeps for so many seconds.
        chance: random number in [0, 1) for jitter.
    """

    rpm: float = 0.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    _free: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> None:
        """Wait for the next free slot and take it."""
        with self._lock:
            now = self.clock()
            turn = max(self._free, now)
            self._free = turn + (60.0 / self.rpm if self.rpm else 0.0)
        if turn > now:
            self.sleep(turn - now)

    def hold(self, seconds: float) -> None:
        """Delay all requests by so many seconds."""
        with self._lock:
            self._free = max(self._free, self.clock() + seconds)

    def back_off(self, tried: int) -> float:
        """Exponential back-off with jitter, in seconds."""
        pause = min(FIRST_PAUSE * 2.0**tried, LONGEST_PAUSE)
        return pause * (0.5 + 0.5 * self.chance())


def parse_retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header, given as a number or a date; 0 for none."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


RETRY_STATUSES = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""HTTP statuses after which a request is retried."""

LONGEST_WAIT = 600.0
"""Longest Retry-After that is obeyed, in seconds."""

TOKEN_LIMIT, NEW_TOKEN_LIMIT = "max_tokens", "max_completion_tokens"
"""Field of the most tokens of a reply: of nearly all servers, and of OpenAI's newer models."""

CONTENT_FILTER_CODES = frozenset(
    (
        "content_filter",
        "content_policy_violation",
        "moderation_blocked",
        "ResponsibleAIPolicyViolation",
    )
)
"""Error codes of a refusal of one prompt."""


HIDDEN = "***"
"""Replacement of credentials."""

SHORTEST_SECRET = 4
"""Characters of the shortest credential that is blotted out; a shorter one is part of words."""


class _RetryError(Exception):
    """A failed request that may be retried."""

    def __init__(self, reason: str, after: float = 0.0):
        self.reason, self.after = reason, after
        super().__init__(reason)


class RefusedPromptError(InputError):
    """The server refuses one prompt for its content; the message is the server's."""


class TokenLimitNameError(Exception):
    """The server expects the token limit under its other field name."""


class _NoRedirect(HTTPRedirectHandler):
    """Redirect handler that follows none, since a redirect would leak the key."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow no redirect, so that it becomes an HTTP error."""


MAX_REPLY = 8 << 20
"""Most bytes of a response that are read."""

MAX_ERROR = 64 << 10
"""Most bytes of an error's response that are read."""

CHAT_PATH = "/chat/completions"

R = TypeVar("R")


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


class _DeadlineConnection(http.client.HTTPConnection):
    """Connection whose timeout is for everything: connecting, sending, and the whole response."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._deadline = time.monotonic() + float(self.timeout or LONGEST_WAIT)
        self.response_class = partial(_DeadlineResponse, deadline=self._deadline)  # type: ignore[assignment]

    def connect(self) -> None:
        """Connect; sending has the time that is left."""
        super().connect()
        self.sock.settimeout(max(self._deadline - time.monotonic(), 0.001))


class _DeadlineSecureConnection(_DeadlineConnection, http.client.HTTPSConnection):
    """Connection by TLS whose timeout is for everything."""


class _DeadlineHandler(HTTPHandler):
    """Handler that opens connections with a deadline."""

    def http_open(self, req: Request) -> Any:
        """Open a plain connection."""
        return self.do_open(_DeadlineConnection, req)


class _DeadlineSecureHandler(HTTPSHandler):
    """Handler that opens TLS connections with a deadline."""

    def https_open(self, req: Request) -> Any:
        """Open a TLS connection."""
        return self.do_open(_DeadlineSecureConnection, req)


@dataclass(frozen=True, slots=True)
class EndpointClient:
    """HTTP client of one endpoint; thread-safe.

    Attributes:
        settings: of the endpoint.
        rate_limit: shared rate limit.
        stop: set when no further request may be sent.
        path: what requests are sent to, below the endpoint's address.
        max_reply: most bytes of a response that are read.
        refusals: statuses that refuse the content of one request, as a content filter does.
    """

    settings: EndpointSettings
    rate_limit: RateLimit
    stop: Event = field(default_factory=Event)
    path: str = CHAT_PATH
    max_reply: int = MAX_REPLY
    refusals: frozenset[int] = frozenset()
    _opener: OpenerDirector = field(
        default_factory=lambda: build_opener(_NoRedirect, _DeadlineHandler, _DeadlineSecureHandler)
    )

    def send(self, body: bytes) -> Reply:
        """Send a chat request with retries and return the reply; a refusal is a reply too.

        Credentials that the server repeats are blotted out.

        Raises:
            EndpointError: there is none, and a retry does not help.
            InputError: the reply to this prompt cannot be used.
            TokenLimitNameError: the request must use the other field for its token limit.
        """
        try:
            reply = self.request(body, parse_reply)
        except RefusedPromptError as error:
            return Reply(f"refused: {error.message}")
        first = {self._hide(token): value for token, value in reply.first.items()}
        return replace(reply, text=self._hide(reply.text), first=first)

    def request(self, body: bytes | None, parse: Callable[[bytes], R]) -> R:
        """Send a request with retries and return the parsed response.

        Args:
            body: JSON; None for a GET request.
            parse: parser of the response; a `MalformedReplyError` that it raises is retried.

        Raises:
            EndpointError: there is no valid response, and a retry does not help.
            InputError: the response to this request cannot be used.
            RefusedPromptError: the server refuses the content of this request.
            TokenLimitNameError: the request must use the other field for its token limit.
        """
        reason = "nothing was sent"
        for tried in range(self.settings.retries + 1):
            if self.stop.is_set():
                raise EndpointError("nothing more is asked.")
            self.rate_limit.wait()
            try:
                return self._send_once(body, parse)
            except _RetryError as again:
                reason = again.reason
                if again.after > LONGEST_WAIT:
                    raise self._final_error(
                        f"asks to wait {again.after:,.0f} seconds ({reason}); try again later"
                    ) from None
                if again.after:
                    self.rate_limit.hold(again.after)
                elif tried < self.settings.retries:
                    self.rate_limit.sleep(self.rate_limit.back_off(tried))
        tries = self.settings.retries + 1
        times = f"{tries} times in a row" if tries > 1 else "once"
        raise self._final_error(f"failed {times}: {reason}")

    def _send_once(self, body: bytes | None, parse: Callable[[bytes], R]) -> R:
        request = Request(self._address(), body, self._headers())  # noqa: S310
        try:
            with self._opener.open(request, timeout=self.settings.timeout) as response:
                content = response.read(self.max_reply + 1)
            if len(content) > self.max_reply:
                raise InputError(
                    f"the reply to the prompt is longer than {self.max_reply:,} bytes."
                )
            return parse(content)
        except HTTPError as error:
            with error:
                self._handle_error(error, body or b"")
        except MalformedReplyError as error:
            raise _RetryError(self._hide(str(error))) from None
        except TimeoutError:
            raise _RetryError(self._timeout_reason()) from None
        except URLError as error:
            late = isinstance(error.reason, TimeoutError)
            reason = str(getattr(error.reason, "strerror", None) or error.reason).lower()
            raise _RetryError(
                self._timeout_reason() if late else f"it cannot be reached ({reason})"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise _RetryError(f"the connection broke ({type(error).__name__})") from None

    def _handle_error(self, error: HTTPError, body: bytes) -> NoReturn:
        """Turn an HTTP error into a retry, a refusal, or a final error."""
        try:
            code, words = parse_error(error.read(MAX_ERROR))
            words = self._hide(words)
        except (OSError, http.client.HTTPException):
            code, words = "", ""
        if error.code in RETRY_STATUSES and code != "insufficient_quota":
            reason = f"status {error.code}, {words}" if words else f"status {error.code}"
            raise _RetryError(reason, parse_retry_after(error.headers.get("Retry-After")))
        if code in CONTENT_FILTER_CODES or error.code in self.refusals:
            raise RefusedPromptError(words)
        if error.code == 400 and NEW_TOKEN_LIMIT in words and f'"{TOKEN_LIMIT}"'.encode() in body:
            raise TokenLimitNameError
        if error.code in (401, 403):
            key = self.settings.key_env
            there = "the key in" if os.environ.get(key) else "there is no key in"
            raise self._final_error(
                f"refuses access (status {error.code}, {words}): {there} {key}, see to it"
            )
        if error.code == 404:
            raise self._final_error(
                f"knows no model {self.settings.model!r}, or is not at this address (status 404, "
                f"{words})"
            )
        raise self._final_error(f"refuses the question (status {error.code}, {words})")

    def _final_error(self, what: str) -> EndpointError:
        return EndpointError(
            f"the endpoint {self.settings.url} {what}; answers so far are kept, and the same "
            "command goes on from there."
        )

    def _timeout_reason(self) -> str:
        return f"no answer within {self.settings.timeout:g} seconds (timeout=… gives it more)"

    def _address(self) -> str:
        target = self.settings.target
        host = target.netloc.rpartition("@")[2]
        path = f"{target.path}{self.path}"
        return urlunsplit((target.scheme, host, path, target.query, ""))

    def _hide(self, text: str) -> str:
        """Text of the server without the key or other credentials, which it may repeat."""
        target = self.settings.target
        secrets = {os.environ.get(self.settings.key_env, "").strip(), self._headers_key()}
        password = unquote(target.password or "")
        secrets |= {password, quote(password), target.password or ""}
        secrets |= {value for _, value in parse_qsl(target.query)}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, HIDDEN)
        return text

    def _headers_key(self) -> str:
        """Credentials as they are sent."""
        return self._headers().get("Authorization", "").partition(" ")[2]

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        target, key = self.settings.target, os.environ.get(self.settings.key_env, "").strip()
        if target.username is not None:
            pair = f"{unquote(target.username)}:{unquote(target.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif not key.isascii() or not key.isprintable():
            raise EndpointError(
                f"the key in {self.settings.key_env} holds characters that cannot be sent: see to "
                "it."
            )
        elif key:
            headers["Authorization"] = f"Bearer {key}"
        return headers
