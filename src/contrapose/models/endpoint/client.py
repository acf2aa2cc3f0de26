"""HTTP client of an endpoint: rate limit, retries with back-off, clear errors."""

from __future__ import annotations

import base64
import http.client
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import NoReturn, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote, unquote, urlunsplit
from urllib.request import Request

from contrapose.errors import InputError
from contrapose.models.capabilities import Reply
from contrapose.models.endpoint.protocol import (
    EndpointError,
    MalformedReplyError,
    parse_error,
    parse_reply,
)
from contrapose.models.endpoint.rate_limit import RateLimit, parse_retry_after
from contrapose.models.endpoint.settings import EndpointSettings
from contrapose.models.endpoint.transport import LONGEST_WAIT, Transport, find_proxy

RETRY_STATUSES = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""HTTP statuses after which a request is retried."""

THROTTLES = frozenset((429, 503, 529))
"""Statuses that ask all requests to slow down; without Retry-After only 429 does."""

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
    """A failed request that may be retried; `status` is 0 where none came."""

    def __init__(self, reason: str, status: int = 0, after: float = 0.0):
        self.reason, self.status, self.after = reason, status, after
        super().__init__(reason)

    @property
    def throttles(self) -> bool:
        """Whether all requests are asked to slow down."""
        return self.status == 429 or (self.after > 0 and self.status in THROTTLES)


class RefusedPromptError(InputError):
    """The server refuses one prompt for its content; the message is the server's."""


class TokenLimitNameError(Exception):
    """The server expects the token limit under its other field name."""


MAX_REPLY = 8 << 20
"""Most bytes of a response that are read."""

MAX_ERROR = 64 << 10
"""Most bytes of an error's response that are read."""

CHAT_PATH = "/chat/completions"
VERSION = re.compile(r"/v\d+\w*(/|$)")
"""Version of the protocol in an address."""

R = TypeVar("R")


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
    _transport: Transport = field(default_factory=Transport)
    _answered: dict[str, bytes] = field(default_factory=dict)
    """By address a request that was answered."""

    def begin(self) -> None:
        """Allow requests, also after a stop."""
        self._transport.begin()
        self.stop.clear()

    def abort(self) -> None:
        """Send no further request, and break off those that wait for a response."""
        self.stop.set()
        self._transport.abort()

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
            InputError: the response to this request cannot be used, or the server fails on it and
                answers others.
            RefusedPromptError: the server refuses the content of this request.
            TokenLimitNameError: the request must use the other field for its token limit.
        """
        before, tried, most = self.rate_limit.successes, 0, self.settings.retries
        while True:
            try:
                response = self._take_turn(body, parse)
            except _RetryError as error:
                failure = error
            else:
                if body is not None:
                    self._answered[self._address()] = body
                return response
            if failure.after > LONGEST_WAIT:
                raise self._final_error(
                    f"asks to wait {failure.after:,.0f} seconds ({failure.reason}); try again later"
                )
            if not failure.throttles:
                tried += 1
                if tried > most:
                    break
                self.rate_limit.sleep(failure.after or self.rate_limit.back_off(tried - 1))
        times = _count_times(tried)
        if failure.status == 500 and (
            self.rate_limit.successes > before or self._answers_another()
        ):
            raise InputError(
                f"the server fails on this request ({times}: {failure.reason}) and answers others."
            )
        raise self._final_error(f"failed {times}: {failure.reason}")

    def _take_turn(self, body: bytes | None, parse: Callable[[bytes], R]) -> R:
        """Send a request when its turn comes; a response that throttles slows all down.

        Raises:
            EndpointError: nothing but such responses came, as often as the settings allow.
        """
        number = self.rate_limit.wait()
        try:
            if self.stop.is_set():
                raise EndpointError("nothing more is asked.")
            response = self._send_once(body, parse)
        except _RetryError as error:
            failure = error
        else:
            self.rate_limit.succeed()
            return response
        finally:
            self.rate_limit.leave(number)
        if failure.throttles and failure.after <= LONGEST_WAIT:
            rounds = self.rate_limit.throttle(number, failure.after)
            if rounds > self.settings.retries:
                raise self._final_error(
                    f"asked to slow down {_count_times(rounds)}: {failure.reason} (rpm=… or "
                    "parallel=… lowers the load)"
                )
        raise failure

    def _answers_another(self) -> bool:
        """Whether the server answers a request again that it has answered before."""
        body = self._answered.get(self._address())
        if body is None:
            return False
        try:
            self._take_turn(body, bytes)
        except (_RetryError, EndpointError, InputError):
            return False
        return True

    def _send_once(self, body: bytes | None, parse: Callable[[bytes], R]) -> R:
        request = Request(self._address(), body, self._headers())  # noqa: S310
        try:
            with self._transport.open(request, self.settings.timeout) as response:
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
        reason = f"status {error.code}, {words}" if words else f"status {error.code}"
        if error.code in RETRY_STATUSES and code != "insufficient_quota":
            after = parse_retry_after(error.headers.get("Retry-After"))
            raise _RetryError(reason, error.code, after)
        if code in CONTENT_FILTER_CODES or error.code in self.refusals:
            raise RefusedPromptError(words or f"the server refuses it ({reason})")
        if error.code == 400 and NEW_TOKEN_LIMIT in words and f'"{TOKEN_LIMIT}"'.encode() in body:
            raise TokenLimitNameError
        if error.code in (401, 403):
            key = self.settings.key_env
            there = "the key in" if os.environ.get(key) else "there is no key in"
            raise self._final_error(f"refuses access ({reason}): {there} {key}, see to it")
        if error.code == 404:
            complete = not self.path or VERSION.search(self.settings.url)
            hint = "" if complete else ": most addresses end with /v1"
            raise self._final_error(
                f"knows no model {self.settings.model!r}, or is not at this address ({reason})"
                f"{hint}"
            )
        raise self._final_error(f"refuses the question ({reason})")

    def _final_error(self, what: str) -> EndpointError:
        proxy = find_proxy(self.settings.target)
        through = f", through the proxy {proxy}," if proxy else ""
        kept = "; answers so far are kept, and the same command goes on from there"
        return EndpointError(
            f"the endpoint {self.settings.url}{through} {what}{kept if self._answered else ''}."
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


def _count_times(count: int) -> str:
    return f"{count} times in a row" if count > 1 else "once"
