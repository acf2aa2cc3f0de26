"""Sending one question: try again where that may help, stop with a clear sentence where not."""

from __future__ import annotations

import base64
import http.client
import os
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlunsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from contrapose.models.capabilities import Reply
from contrapose.models.endpoint.pace import Pace, retry_after
from contrapose.models.endpoint.settings import EndpointSettings
from contrapose.models.endpoint.stopped import StoppedError
from contrapose.models.endpoint.wire import GarbageError, reply_of, said_wrong

AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same question may well be answered."""

LONGEST_WAIT = 600.0
"""Seconds; a server that asks for more is not waited for."""

CAP, OTHER_CAP = "max_tokens", "max_completion_tokens"
"""What servers call the most tokens of a reply: nearly all the first, OpenAI's newer the other."""

FILTERED = frozenset(("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"))
"""Codes of a refusal of one prompt."""


class _AgainError(Exception):
    """A try that failed and may be repeated."""

    def __init__(self, reason: str, after: float = 0.0):
        self.reason, self.after = reason, after
        super().__init__(reason)


class OtherCapError(Exception):
    """The server wants the most tokens of a reply under another name."""


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would carry the key to another place."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the redirect is then an error like any other."""


@dataclass(frozen=True, slots=True)
class Client:
    """One endpoint; any number of threads may send.

    Attributes:
        settings: which, and how.
        pace: when.
        stop: set when nothing more is to be sent.
    """

    settings: EndpointSettings
    pace: Pace
    stop: Event = field(default_factory=Event)
    _opener: OpenerDirector = field(default_factory=lambda: build_opener(_NoRedirect))

    def send(self, body: bytes) -> Reply:
        """The reply to a request.

        Raises:
            StoppedError: there is none, and asking again does not help.
            OtherCapError: the request must be written in another way.
        """
        reason = "nothing was sent"
        for tried in range(self.settings.retries + 1):
            if self.stop.is_set():
                raise StoppedError("nothing more is asked.")
            self.pace.wait()
            try:
                return self._once(body)
            except _AgainError as again:
                reason = again.reason
                if again.after > LONGEST_WAIT:
                    raise self._stopped(
                        f"asks to wait {again.after:,.0f} seconds ({reason}); try again later"
                    ) from None
                if again.after:
                    self.pace.hold(again.after)
                elif tried < self.settings.retries:
                    self.pace.sleep(self.pace.back_off(tried))
        tries = self.settings.retries + 1
        times = f"{tries} times in a row" if tries > 1 else "once"
        raise self._stopped(f"failed {times}: {reason}")

    def _once(self, body: bytes) -> Reply:
        request = Request(self._address(), body, self._headers(), method="POST")  # noqa: S310
        try:
            with self._opener.open(request, timeout=self.settings.timeout) as response:
                return reply_of(response.read())
        except HTTPError as error:
            with error:
                return self._failed(error, body)
        except GarbageError as error:
            raise _AgainError(str(error)) from None
        except TimeoutError:
            raise _AgainError(self._slow()) from None
        except URLError as error:
            late = isinstance(error.reason, TimeoutError)
            reason = str(getattr(error.reason, "strerror", None) or error.reason).lower()
            raise _AgainError(
                self._slow() if late else f"it cannot be reached ({reason})"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise _AgainError(f"the connection broke ({type(error).__name__})") from None

    def _failed(self, error: HTTPError, body: bytes) -> Reply:
        """What a status other than success means."""
        try:
            code, words = said_wrong(error.read())
        except (OSError, http.client.HTTPException):
            code, words = "", ""
        if error.code in AGAIN and code != "insufficient_quota":
            said = f"status {error.code}, {words}" if words else f"status {error.code}"
            raise _AgainError(said, retry_after(error.headers.get("Retry-After")))
        if code in FILTERED:
            return Reply(f"refused: {words}")
        if error.code == 400 and OTHER_CAP in words and f'"{CAP}"'.encode() in body:
            raise OtherCapError
        if error.code in (401, 403):
            key = self.settings.key_env
            there = "the key in" if os.environ.get(key) else "there is no key in"
            raise self._stopped(
                f"refuses access (status {error.code}, {words}): {there} {key}, see to it"
            )
        if error.code == 404:
            raise self._stopped(
                f"knows no model {self.settings.model!r}, or is not at this address (status 404, "
                f"{words})"
            )
        raise self._stopped(f"refuses the question (status {error.code}, {words})")

    def _stopped(self, what: str) -> StoppedError:
        return StoppedError(
            f"the endpoint {self.settings.url} {what}; answers so far are kept, and the same "
            "command goes on from there."
        )

    def _slow(self) -> str:
        return f"no answer within {self.settings.timeout:g} seconds (timeout=… gives it more)"

    def _address(self) -> str:
        target = self.settings.target
        host = target.netloc.rpartition("@")[2]
        path = f"{target.path}/chat/completions"
        return urlunsplit((target.scheme, host, path, target.query, ""))

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        target, key = self.settings.target, os.environ.get(self.settings.key_env, "").strip()
        if target.username is not None:
            pair = f"{unquote(target.username)}:{unquote(target.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif key:
            headers["Authorization"] = f"Bearer {key}"
        return headers
