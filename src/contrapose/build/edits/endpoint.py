"""Image endpoints: servers that draw a prompt, of OpenAI's protocol or any that takes JSON.

`openai:MODEL,url=http://host/v1` has the settings of chat endpoints. Settings of a plain address
stand behind its `#`, which is never sent: `http://host/draw#timeout=300&retries=2`. An image comes
back as its bytes, or in JSON as Base64. An address in its place is not followed: what a server
names may be any file.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from contrapose.build.edits.generators import GenerationError, to_image
from contrapose.errors import InputError
from contrapose.files import did_you_mean
from contrapose.models.endpoint.client import EndpointClient
from contrapose.models.endpoint.protocol import MalformedReplyError
from contrapose.models.endpoint.rate_limit import RateLimit
from contrapose.models.endpoint.settings import (
    OPENAI_URL,
    PREFIX,
    EndpointSettings,
    parse_settings,
)

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGES_PATH = "/images/generations"
MAX_IMAGE_REPLY = 64 << 20
"""Most bytes of a response that are read."""
TIMEOUT = 300.0
"""Seconds from a request to the end of its image, unless the settings say otherwise."""
SETTINGS = ("key_env", "model", "parallel", "retries", "rpm", "timeout")
"""Settings of a plain address."""
SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"BM")
"""First bytes of images."""
FIELDS = ("b64_json", "base64", "image_base64", "image", "url")
"""Fields of JSON that hold an image."""
LISTS = ("data", "images", "artifacts", "output")
"""Fields of JSON that hold a list of images."""


@dataclass(frozen=True, slots=True)
class ImageEndpoint:
    """Text-to-image generator behind an HTTP address.

    Attributes:
        client: sends requests, with retries and a rate limit.
        workers: concurrent requests.
    """

    client: EndpointClient
    workers: int

    @property
    def name(self) -> str:
        """Address without credentials, and the model."""
        settings = self.client.settings
        if self.client.path:
            return f"{PREFIX}{settings.model},url={settings.url}"
        return settings.url + (f"#model={settings.model}" if settings.model else "")

    def draw(self, text: str, seed: int, size: int) -> Image:
        """Request an image.

        Raises:
            GenerationError: the server refuses the prompt, or what it sends is no image.
            EndpointError: it is down, too slow, or refuses the key.
        """
        try:
            return self.client.request(self._encode(text, seed, size), parse_image)
        except GenerationError:
            raise
        except InputError as error:
            raise GenerationError(f"the prompt {text!r} has no image: {error}") from None

    def _encode(self, text: str, seed: int, size: int) -> bytes:
        settings = self.client.settings
        body: dict[str, Any] = {"prompt": text, "n": 1, "size": f"{size}x{size}"}
        if settings.model:
            body["model"] = settings.model
        if settings.url != OPENAI_URL:  # OpenAI refuses fields that it does not know
            body |= {"seed": seed, "response_format": "b64_json"}
        elif settings.model.startswith("dall-e"):
            body["response_format"] = "b64_json"
        if not self.client.path:
            body |= {"width": size, "height": size}
        return json.dumps(body).encode()


def load_endpoint(name: str, workers: int | None = None) -> ImageEndpoint:
    """Load an image endpoint; no request is sent before the first image.

    Raises:
        InputError: the address or a setting is not valid; credentials are not repeated.
    """
    if name.startswith(PREFIX):
        settings = parse_settings(name)
        if "timeout=" not in name:
            settings = replace(settings, timeout=TIMEOUT)
        path = "" if settings.target.path.endswith(IMAGES_PATH) else IMAGES_PATH
    else:
        settings, path = _parse_address(name), ""
    client = EndpointClient(settings, RateLimit(settings.rpm), path=path, max_reply=MAX_IMAGE_REPLY)
    return ImageEndpoint(client, workers or settings.parallel)


def _parse_address(name: str) -> EndpointSettings:
    """Settings of a plain address."""
    address, _, fragment = name.partition("#")
    address = address.removeprefix("http:") if address.startswith("http:http") else address
    given: dict[str, str] = {}
    for key, value in parse_qsl(fragment, keep_blank_values=True):
        if key not in SETTINGS or key in given:
            hint = did_you_mean(key, SETTINGS)
            raise InputError(f"the image server has an unknown or doubled setting {key!r}: {hint}")
        given[key] = value
    model = given.pop("model", "")
    query = "&".join(f"{key}={value}" for key, value in {"timeout": str(TIMEOUT), **given}.items())
    settings = parse_settings(f"{PREFIX}{model or '-'}?{query}&url=http://localhost")
    try:
        target = urlsplit(address)
        right = target.scheme in ("http", "https") and bool(target.hostname)
        _ = target.port
    except ValueError:
        right = False
    if not right:
        raise InputError("an image server's address is such as http://localhost:8000/draw.")
    host = target.netloc.rpartition("@")[2]
    url = urlunsplit((target.scheme, host, target.path, "", ""))
    return replace(settings, model=model, url=url, target=target._replace(fragment=""))


def parse_image(content: bytes) -> Image:
    """Image of a response: its bytes, or Base64 within JSON.

    Raises:
        MalformedReplyError: the response is neither; another try may help.
        GenerationError: the image cannot be used.
    """
    if content.startswith(SIGNATURES):
        return to_image(content, "the server")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        shown = " ".join(content[:80].decode(errors="replace").split())
        raise MalformedReplyError(f"what came back is no image and no JSON: {shown!r}") from None
    text = next(_image_texts(value), None)
    if text is None:
        raise MalformedReplyError("what came back is JSON without an image")
    if text.startswith(("http:", "https:", "file:", "/")) and len(text) < 4096:
        raise GenerationError(
            "the server sends an address in place of an image, which is not followed: let it send "
            "b64_json."
        )
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedReplyError("the image in the reply is not valid Base64") from None
    return to_image(decoded, "the server")


def _image_texts(value: Any) -> Iterator[str]:
    """Texts of a JSON value that hold an image, the likeliest first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        if value:
            yield from _image_texts(value[0])
    elif isinstance(value, dict):
        for name in FIELDS:
            if isinstance(value.get(name), str) and value[name]:
                yield value[name]
        for name in LISTS:
            if isinstance(value.get(name), list | str):
                yield from _image_texts(value[name])
