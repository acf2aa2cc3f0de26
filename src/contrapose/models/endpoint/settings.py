"""Settings in an endpoint's model string, and which of them belong to its canonical name.

| setting | left out | what it is |
|---|---|---|
| `url` | `OPENAI_BASE_URL`, or OpenAI's own | address of the server, up to `/v1` |
| `key_env` | `OPENAI_API_KEY` | the environment variable that holds the key |
| `tokens` | 64 | most tokens of a reply |
| `temperature` | 0 | `default` leaves it out, for models that take none |
| `seed` | 0 | sent with each question |
| `parallel` | 4 | questions on their way at once |
| `rpm` | no limit | questions a minute |
| `timeout` | 60 | seconds until a question counts as lost |
| `retries` | 6 | how often it is asked again |
| `in`, `out` | unknown | prices of a million tokens, for the total |

The first five can change answers and are in the fingerprint, the key's variable aside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from contrapose.errors import InputError
from contrapose.files import did_you_mean

PREFIX = "openai:"
OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"

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
"""Every setting, and what it is when left out."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Settings of an endpoint.

    Attributes:
        model: its name there.
        url: the address without credentials and query.
        target: the address as it is called; never shown, for it may hold credentials.
        key_env: the environment variable of the key.
        tokens: most tokens of a reply.
        temperature: 0, or None where the model takes none.
        seed: sent with each question.
        parallel: questions on their way at once.
        rpm: questions a minute; 0 for no limit.
        timeout: seconds.
        retries: how often a question is asked again.
        prices: of a million tokens in and out; None when the user does not say.
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

    def __repr__(self) -> str:
        return f"EndpointSettings({self.name})"

    @property
    def name(self) -> str:
        """The canonical model string."""
        said = "&".join(f"{key}={value}" for key, value in sorted(self.said().items()))
        return f"{PREFIX}{self.model}{f'?{said}' if said else ''}"

    def said(self) -> dict[str, str]:
        """Settings of the canonical name: those that change answers and differ from the default."""
        address = {} if self.url == OPENAI_URL else {"url": self.url}
        unusual = {key: value for key, value in self.named().items() if value != DEFAULTS[key]}
        return {**address, **unusual}

    def named(self) -> dict[str, str]:
        """Settings that can change an answer."""
        temperature = "default" if self.temperature is None else "0"
        return {"tokens": str(self.tokens), "temperature": temperature, "seed": str(self.seed)}


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """Split a model string into the model and its settings.

    Raises:
        InputError: there is no model, or a setting is not known or given twice.
    """
    body, _, said = text.removeprefix(PREFIX).partition("?")
    if not body.strip():
        raise InputError("an endpoint's model string lacks the model: write openai:MODEL?url=….")
    settings: dict[str, str] = {}
    for key, value in parse_qsl(said.replace("+", "%2B"), keep_blank_values=True):
        if key not in DEFAULTS:
            near = did_you_mean(key, DEFAULTS)
            raise InputError(f"the endpoint {body!r} has an unknown setting {key!r}: {near}")
        if key in settings:
            raise InputError(f"the endpoint {body!r} says {key} twice.")
        settings[key] = value
    return body.strip(), settings


def parse_settings(text: str) -> EndpointSettings:
    """Parse the model string of an endpoint.

    Raises:
        InputError: a setting makes no sense; the sentence never repeats the address's credentials.
    """
    model, given = split_name(text)
    said = {**DEFAULTS, **given}
    url = said["url"] or os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL
    target = _parse_url(url)
    host = target.netloc.rpartition("@")[2]
    if said["temperature"] not in ("0", "default"):
        raise InputError(
            f"temperature must be 0, or default to leave it out, found {said['temperature']!r}."
        )
    return EndpointSettings(
        model=model,
        url=urlunsplit((target.scheme, host, target.path, "", "")),
        target=target,
        key_env=said["key_env"],
        tokens=int(_parse_number(said, "tokens", least=1, whole=True)),
        temperature=0 if said["temperature"] == "0" else None,
        seed=int(_parse_number(said, "seed", least=0, whole=True)),
        parallel=int(_parse_number(said, "parallel", least=1, whole=True)),
        rpm=_parse_number(said, "rpm", least=0),
        timeout=_parse_number(said, "timeout", least=0.001),
        retries=int(_parse_number(said, "retries", least=0, whole=True)),
        prices=_parse_prices(said),
    )


def _parse_url(url: str) -> SplitResult:
    """Parse the URL, without a trailing `/chat/completions`."""
    try:
        target = urlsplit(url)
        right = target.scheme in ("http", "https") and bool(target.hostname)
        _ = target.port
    except ValueError:
        right = False
    if not right:
        raise InputError("url must be the endpoint's address, such as http://localhost:8000/v1.")
    path = target.path.rstrip("/").removesuffix("/chat/completions")
    return target._replace(path=path, fragment="")


def _parse_prices(said: Mapping[str, str]) -> tuple[float, float] | None:
    if not said["in"] and not said["out"]:
        return None
    if not said["in"] or not said["out"]:
        raise InputError("in and out, the prices of a million tokens, go together.")
    return _parse_number(said, "in", least=0), _parse_number(said, "out", least=0)


def _parse_number(said: Mapping[str, str], key: str, *, least: float, whole: bool = False) -> float:
    try:
        value = int(said[key]) if whole else float(said[key])
    except ValueError:
        value = -1
    if not least <= value < float("inf"):
        kind = "a whole number" if whole else "a number"
        raise InputError(f"{key} must be {kind} of at least {least:g}, found {said[key]!r}.")
    return value
