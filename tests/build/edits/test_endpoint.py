"""Image servers over a real connection: replies of every form, and all that can go wrong."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from contrapose.build.edits.endpoint import ImageEndpoint, load_endpoint
from contrapose.build.edits.generators import GenerationError
from contrapose.errors import InputError
from contrapose.models.endpoint import EndpointError
from contrapose.models.endpoint.rate_limit import RateLimit
from tests.chatting import Response, Server, serving

PNG = {"Content-Type": "image/png"}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-key")


def png(color: str = "red", side: int = 16) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (side, side), color).save(stream, "PNG")
    return stream.getvalue()


def text(content: bytes | None = None) -> str:
    return base64.b64encode(content or png()).decode()


def endpoint(server: Server | str, settings: str = "", *, openai: bool = False) -> ImageEndpoint:
    url = server if isinstance(server, str) else server.url
    name = (
        f"openai:m?url={url}&retries=1{settings}" if openai else f"{url}/draw#retries=1{settings}"
    )
    loaded = load_endpoint(name)
    return replace(loaded, client=replace(loaded.client, rate_limit=RateLimit(0, sleep=_no_sleep)))


def _no_sleep(_: float) -> None:
    return


def then(*responses: Response) -> Callable[[Mapping[str, Any]], Response]:
    left = list(responses)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def red(image: Image.Image) -> bool:
    return image.getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize(
    "body",
    [
        png(),
        {"data": [{"b64_json": text()}]},
        {"images": [text()]},
        {"images": [f"data:image/png;base64,{text()}"]},
        {"artifacts": [{"base64": text()}]},
        {"image": text()},
        [text()],
    ],
)
def test_images_as_bytes_and_in_json(body: object) -> None:
    with serving(lambda request: Response(body)) as server:
        assert red(endpoint(server).draw("a cat", 5, 64))
        (request,) = server.requests
    assert (request["prompt"], request["seed"], request["width"]) == ("a cat", 5, 64)
    assert server.paths == ["/v1/draw"]


def test_openai_s_protocol() -> None:
    with serving(lambda request: Response({"data": [{"b64_json": text()}]})) as server:
        generator = endpoint(server, openai=True)
        assert red(generator.draw("a cat", 5, 64))
        (request,) = server.requests
    assert server.paths == ["/v1/images/generations"]
    assert request == {
        "prompt": "a cat", "n": 1, "size": "64x64", "model": "m", "seed": 5,
        "response_format": "b64_json",
    }  # fmt: skip
    assert server.headers[0]["Authorization"] == "Bearer a-secret-key"
    assert "secret" not in generator.name
    assert generator.workers == 4


def test_errors_then_success() -> None:
    busy = Response({"error": {"message": "busy"}}, 500)
    with serving(then(busy, Response(png(), headers=PNG))) as server:
        assert red(endpoint(server).draw("a cat", 5, 64))
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("responses", "error", "word"),
    [
        ([Response({"error": "busy"}, 503)], EndpointError, "2 times"),
        ([Response(b"<html>hello</html>")], EndpointError, "no image"),
        ([Response({"data": []})], EndpointError, "without an image"),
        ([Response({"data": [{"b64_json": "?!"}]})], EndpointError, "Base64"),
        ([Response({"error": "who?"}, 401)], EndpointError, "refuses access"),
        ([Response(b"", 302, {"Location": "file:///etc/passwd"})], EndpointError, "302"),
        ([Response({"data": [{"url": "file:///etc/passwd"}]})], GenerationError, "not followed"),
        ([Response({"data": [{"url": "http://a/b.png"}]})], GenerationError, "not followed"),
        ([Response(png()[:40])], GenerationError, "known format"),
        ([Response({"image": text(b"no image")})], GenerationError, "no image"),
        (
            [Response({"error": {"code": "content_policy_violation", "message": "no"}}, 400)],
            GenerationError,
            "no",
        ),
    ],
)
def test_servers_that_misbehave(
    responses: list[Response], error: type[Exception], word: str
) -> None:
    with serving(then(*responses)) as server, pytest.raises(error, match=word) as caught:
        endpoint(server).draw("a cat", 5, 64)
    assert "secret" not in str(caught.value)


def test_replies_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda request: Response(png(side=400))) as server:
        small = endpoint(server)
        small = replace(small, client=replace(small.client, max_reply=100))
        with pytest.raises(GenerationError, match="longer"):
            small.draw("a cat", 5, 64)
        monkeypatch.setenv("CONTRAPOSE_MEGAPIXELS", "0.01")
        with pytest.raises(GenerationError, match="too large"):
            endpoint(server).draw("a cat", 5, 64)


def test_a_server_that_is_down() -> None:
    with pytest.raises(EndpointError, match="reached"):
        endpoint("http://127.0.0.1:9").draw("a cat", 5, 64)


def test_a_server_that_is_slow() -> None:
    release = threading.Event()

    def wait(request: Mapping[str, Any]) -> Response:
        release.wait(60)
        return Response(png())

    with serving(wait) as server:
        with pytest.raises(EndpointError, match="within"):
            endpoint(server, "&timeout=0.05").draw("a cat", 5, 64)
        release.set()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("http://", "address"),
        ("http:draw", "address"),
        ("http://host:99999/x", "address"),
        ("http://host/x#speed=3", "speed"),
        ("http://host/x#timeout=soon", "timeout"),
        ("http://host/x#retries=1&retries=2", "retries"),
        ("openai:", "model"),
    ],
)
def test_addresses_are_checked_first(name: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        load_endpoint(name)


def test_credentials_are_not_shown() -> None:
    generator = load_endpoint("http://me:pass-word@host/x?key=abcdef#model=m")
    assert generator.name == "http://host/x#model=m"
