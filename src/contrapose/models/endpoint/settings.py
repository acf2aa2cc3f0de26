"""Settings in an endpoint's model string, and which of them belong to its canonical name.

| setting | default | meaning |
|---|---|---|
| `url` | `OPENAI_BASE_URL`, or OpenAI's | address of the server, up to `/v1` |
| `key_env` | `OPENAI_API_KEY` | the environment variable that holds the key |
| `tokens` | 64 | most tokens of a reply |
| `temperature` | 0 | `default` leaves it out, for models that take none |
| `seed` | 0 | sent with each request |
| `parallel` | 4 | concurrent requests |
| `rpm` | no limit | rate limit, in requests per minute |
| `timeout` | 60 | seconds from a request to the end of its reply |
| `retries` | 6 | retries of a failed request |
| `in`, `out` | unknown | prices per million tokens, for the total |

The first five can change replies and, except `key_env`, are part of the fingerprint.

`vllm:` and `sglang:`, servers that give log-probabilities of prompts, have other defaults (their
port on this machine, `VLLM_API_KEY` or `SGLANG_API_KEY`, 16 concurrent requests, 300 seconds) and
these settings, all of the fingerprint:

| setting | default | meaning |
|---|---|---|
| `tokenizer` | where the server says its model lies | folder or hub id of tokenizer and template |
| `revision` | unknown | the user's word for the version of the served weights |
| `long` | `refuse` | `cut` truncates long captions |
| `video` | `frames` | `own` sends a video, `images` its frames as the images of one turn |
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from contrapose.errors import InputError
from contrapose.files import did_you_mean
from contrapose.models.options import ServerKind, VideoForm, find_server_kind, join_settings

PREFIX = "openai:"
OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
SETTING = re.compile(r"\w+=")
INNER_SETTING = re.compile(r",(?=\w+=[^@]*$)")
"""Comma before what looks like a setting inside a value, but not inside credentials."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_TIMEOUT = 1e6
"""Most seconds that may be waited for a reply, eleven days."""
LEAST_RPM = 1e-3
"""Fewest requests per minute, one in sixteen hours."""

DEFAULTS: Mapping[str, str] = {
    "url": "",
    "key_env": KEY_VARIABLE,
    "tokens": "64",
    "temperature": "0",
    "seed": "0",
    "parallel": "4",
    "rpm": "0",
    "timeout": "60",
    "retries": "6",
    "in": "",
    "out": "",
}
"""Every setting with its default."""

SERVED_DEFAULTS: Mapping[ServerKind, Mapping[str, str]] = {
    "openai": {},
    "vllm": {"url": "http://localhost:8000/v1", "key_env": "VLLM_API_KEY"},
    "sglang": {"url": "http://localhost:30000/v1", "key_env": "SGLANG_API_KEY"},
}
"""Defaults that differ between kinds of servers."""

SCORING_DEFAULTS: Mapping[str, str] = {
    "parallel": "16",
    "timeout": "300",
    "tokenizer": "",
    "revision": "",
    "long": "refuse",
    "video": "frames",
}
"""Defaults of servers that give log-probabilities of prompts."""


def list_defaults(kind: ServerKind) -> dict[str, str]:
    """Every setting of a kind of server, with its default."""
    more = {} if kind == "openai" else SCORING_DEFAULTS
    return {**DEFAULTS, **more, **SERVED_DEFAULTS[kind]}


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Settings of an endpoint.

    Attributes:
        model: its name at the endpoint.
        url: the address without credentials and query.
        target: the full address; never shown, since it may hold credentials.
        key_env: the environment variable of the key.
        tokens: most tokens of a reply.
        temperature: 0, or None where the model takes none.
        seed: sent with each request.
        parallel: concurrent requests.
        rpm: rate limit, in requests per minute; 0 for none.
        timeout: seconds from a request to the end of its reply.
        retries: retries of a failed request.
        prices: per million tokens in and out; None where unknown.
        kind: its protocol.
        tokenizer: folder or hub id of tokenizer and chat template; empty for the server's own.
        revision: the user's word for the version of the served weights.
        cut: truncate long captions.
        video: how a video is shown.
    """

    model: str
    url: str
    target: SplitResult
    key_env: str = KEY_VARIABLE
    tokens: int = 64
    temperature: Literal[0] | None = 0
    seed: int = 0
    parallel: int = 4
    rpm: float = 0.0
    timeout: float = 60.0
    retries: int = 6
    prices: tuple[float, float] | None = None
    kind: ServerKind = "openai"
    tokenizer: str = ""
    revision: str = ""
    cut: bool = False
    video: VideoForm = "frames"

    def __repr__(self) -> str:
        return f"EndpointSettings({self.name})"

    @property
    def name(self) -> str:
        """The canonical model string."""
        return f"{self.kind}:{self.model}{join_settings(self.name_settings())}"

    def name_settings(self) -> dict[str, str]:
        """Settings of the canonical name: those that change answers and differ from the default."""
        defaults = list_defaults(self.kind)
        address = {} if self.url == (defaults["url"] or OPENAI_URL) else {"url": self.url}
        settings = {**self.reply_settings(), **self.scoring_settings()}
        return {**address, **{key: text for key, text in settings.items() if text != defaults[key]}}

    def reply_settings(self) -> dict[str, str]:
        """Settings that can change an answer."""
        temperature = "default" if self.temperature is None else "0"
        return {"tokens": str(self.tokens), "temperature": temperature, "seed": str(self.seed)}

    def scoring_settings(self) -> dict[str, str]:
        """Settings that can change a log-probability; none of a chat endpoint."""
        if self.kind == "openai":
            return {}
        long = "cut" if self.cut else "refuse"
        return {
            "tokenizer": self.tokenizer,
            "revision": self.revision,
            "long": long,
            "video": self.video,
        }


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """Split a model string into the model and its settings.

    Raises:
        InputError: there is no model, or a setting is not known or given twice.
    """
    kind = find_server_kind(text) or "openai"
    known = list_defaults(kind)
    body, pairs = _split_pairs(text.removeprefix(f"{kind}:"), known)
    if not body.strip():
        raise InputError(f"an endpoint's model string lacks the model: write {kind}:MODEL,url=….")
    settings: dict[str, str] = {}
    for key, value in pairs:
        if key not in known:
            near = did_you_mean(key, known)
            raise InputError(f"the endpoint {body!r} has an unknown setting {key!r}: {near}")
        if key in settings:
            raise InputError(f"the endpoint {body!r} says {key} twice.")
        settings[key] = value
    return body.strip(), settings


def _split_pairs(text: str, known: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """Model and settings, which follow commas, or a `?` as in the query of a URL."""
    model, comma, rest = text.partition(",")
    if comma and "?" not in model and SETTING.match(rest):
        parts = re.split(rf",(?=(?:{'|'.join(known)})=)", rest)
    else:
        model, _, query = text.partition("?")
        pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
        parts = [f"{key}={value}" for key, value in pairs]
    singles = [single for part in parts for single in INNER_SETTING.split(part)]
    return model, [(key, value) for key, _, value in (one.partition("=") for one in singles)]


def parse_settings(text: str) -> EndpointSettings:
    """Parse the model string of an endpoint.

    Raises:
        InputError: a setting makes no sense; the sentence never repeats the address's credentials.
    """
    model, given = split_name(text)
    kind = find_server_kind(text) or "openai"
    defaults = list_defaults(kind)
    if not given.get("url", "-").strip():
        usual = defaults["url"] or f"OPENAI_BASE_URL or {OPENAI_URL}"
        raise InputError(f"url is empty: give the server's address, or leave url out for {usual}.")
    values = {**defaults, **given}
    url = values["url"] or os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL
    target = _parse_url(url)
    host = target.netloc.rpartition("@")[2]
    if not VARIABLE.fullmatch(values["key_env"]):  # it may be the key itself, so it is not shown
        raise InputError(
            "key_env must be the name of the environment variable that holds the key, such as "
            f"{defaults['key_env']}, and not the key."
        )
    if values["temperature"] not in ("0", "default"):
        raise InputError(
            f"temperature must be 0, or default to leave it out, found {values['temperature']!r}."
        )
    if values.get("long", "refuse") not in ("refuse", "cut"):
        raise InputError(f"long must be refuse or cut, found {values['long']!r}.")
    return EndpointSettings(
        model=model,
        url=urlunsplit((target.scheme, host, target.path, "", "")),
        target=target,
        key_env=values["key_env"],
        tokens=int(_parse_number(values, "tokens", least=1, integer=True)),
        temperature=0 if values["temperature"] == "0" else None,
        seed=int(_parse_number(values, "seed", least=0, integer=True)),
        parallel=int(_parse_number(values, "parallel", least=1, integer=True)),
        rpm=_parse_rpm(values),
        timeout=_parse_number(values, "timeout", least=0.001, most=LONGEST_TIMEOUT),
        retries=int(_parse_number(values, "retries", least=0, integer=True)),
        prices=_parse_prices(values),
        kind=kind,
        tokenizer=values.get("tokenizer", "").strip(),
        revision=values.get("revision", "").strip(),
        cut=values.get("long") == "cut",
        video=_parse_video(values.get("video", "frames"), kind),
    )


def _parse_video(form: str, kind: ServerKind) -> VideoForm:
    """Parse how a video is shown.

    Raises:
        InputError: there is no such form, or the server cannot be told which frames it is.
    """
    if form not in get_args(VideoForm):
        near = did_you_mean(form, get_args(VideoForm))
        raise InputError(f"video must be own, images or frames, found {form!r}: {near}")
    if form == "own" and kind == "sglang":
        raise InputError(
            "SGLang chooses the frames of a video itself and is not told their times: write "
            "video=images to send frames as the images of one turn, or video=frames for the mean "
            "of their scores."
        )
    return cast(VideoForm, form)


def _parse_url(url: str) -> SplitResult:
    """Parse the URL, without a trailing `/chat/completions`."""
    try:
        target = urlsplit(url)
        right = target.scheme in ("http", "https") and bool(target.hostname)
        (target.hostname or "").encode("idna")  # an empty label, or a long one
        _ = target.port
    except ValueError:
        right = False
    if not right:
        raise InputError("url must be the endpoint's address, such as http://localhost:8000/v1.")
    shown = f"{target.netloc.rpartition('@')[2]}{target.path}{target.query}"
    if not shown.isascii() or not shown.isprintable() or " " in shown:
        raise InputError(
            "url must be written in ASCII without spaces: a host with other letters as xn--…, "
            "anything else as %20 and the like."
        )
    path = target.path.rstrip("/").removesuffix("/chat/completions")
    return target._replace(path=path, fragment="")


def _parse_prices(values: Mapping[str, str]) -> tuple[float, float] | None:
    if not values["in"] and not values["out"]:
        return None
    if not values["in"] or not values["out"]:
        raise InputError("in and out, the prices of a million tokens, go together.")
    return _parse_number(values, "in", least=0), _parse_number(values, "out", least=0)


def _parse_rpm(values: Mapping[str, str]) -> float:
    rpm = _parse_number(values, "rpm", least=0)
    if 0 < rpm < LEAST_RPM:
        raise InputError(f"rpm must be 0, for no limit, or at least {LEAST_RPM:g}.")
    return rpm


def _parse_number(
    values: Mapping[str, str],
    key: str,
    *,
    least: float,
    most: float = math.inf,
    integer: bool = False,
) -> float:
    try:
        number = int(values[key]) if integer else float(values[key])
    except ValueError:
        number = -1
    if not least <= number <= most or number == math.inf:
        kind = "a whole number" if integer else "a number"
        limit = f" and at most {most:,.0f}" if most < math.inf else ""
        raise InputError(
            f"{key} must be {kind} of at least {least:g}{limit}, found {values[key]!r}."
        )
    return number
