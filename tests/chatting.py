"""Fake chat models and servers: replies are a plain function of the patches' colors."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from PIL import Image

from contrapose.models import Prompt, Reply
from tests.fakes import Patch, patch
from tests.web_server import listen

Speaks = Callable[[Image.Image, str], str]

NUMBERS = {source.colour: i for i in range(24) if isinstance(source := patch(i).source, Patch)}


def number_at(image: Image.Image, left: float) -> int:
    """Number of the patch at a horizontal position, from 0 (left) to 1 (right)."""
    pixel = image.getpixel((int(left * image.width), image.height // 2))
    assert isinstance(pixel, tuple)
    return NUMBERS[pixel[0], pixel[1], pixel[2]]


def captions_in(text: str) -> list[str]:
    """The captions of a prompt, in its order."""
    if "left and right" in text:
        result = re.search(r"caption 1: (.*); caption 2: (.*?)\. Please", text)
        assert result is not None
        return list(result.groups())
    return re.findall(r"^ ?\(\d\) (.*)$", text, re.MULTILINE)


def is_of(caption: str, number: int) -> bool:
    return f"patch {number}" in caption and not re.search(rf"patch {number}\d", caption)


def knows(image: Image.Image, text: str) -> str:
    """Always right."""
    captions = captions_in(text)
    if "left and right" in text:
        left = next(i for i, item in enumerate(captions, 1) if is_of(item, number_at(image, 0.2)))
        return f"{left};{3 - left}"
    return (
        f"({next(i for i, item in enumerate(captions, 1) if is_of(item, number_at(image, 0.5)))})"
    )


def likes_the_first(image: Image.Image, text: str) -> str:
    """Always the first option, whatever the image."""
    return "1;2" if "left and right" in text else "(1)"


@dataclass
class Chatter:
    """Chat model; with `after` it raises KeyboardInterrupt after so many calls."""

    speaks: Speaks = knows
    name: str = "chatter"
    fingerprint: str = "chatter-1"
    batch_size: int = 4
    after: int | None = None
    asked: list[str] = field(default_factory=list)

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        if self.after is not None:
            if self.after == 0:
                raise KeyboardInterrupt
            self.after -= 1
        self.asked += [prompt.text for prompt in prompts]
        result: list[Reply] = []
        for prompt in prompts:
            (image,) = prompt.images
            assert isinstance(image, Image.Image)
            result.append(Reply(self.speaks(image, prompt.text), tokens_in=10, tokens_out=2))
        return result


@dataclass(frozen=True)
class Response:
    """Response of the server."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def said(text: str | None, **more: Any) -> dict[str, Any]:
    """A well-formed response body."""
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, **more}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 3},
    }


def shown(request: Mapping[str, Any]) -> tuple[Image.Image, str]:
    """The image and the prompt of a request."""
    picture, text = request["messages"][0]["content"]
    kind, _, data = picture["image_url"]["url"].partition(",")
    assert kind in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"), text["text"]


def speaking(speaks: Speaks) -> Callable[[Mapping[str, Any]], Response]:
    return lambda request: Response(said(speaks(*shown(request))))


@dataclass
class Server:
    """HTTP server; `answer` computes its responses, and can be replaced at any time."""

    url: str
    answer: Callable[[Mapping[str, Any]], Response]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def serving(answer: Callable[[Mapping[str, Any]], Response]) -> Iterator[Server]:
    """A server on this machine, while the block runs."""
    server = Server("", answer)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.requests.append(request)
                server.headers.append(dict(self.headers.items()))
                server.paths.append(self.path)
            response = server.answer(request)
            content = response.content()
            try:
                self.send_response(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # the client did not wait
                pass

        def log_message(self, *_: object) -> None:
            pass

    with listen(Handler) as url:
        server.url = f"{url}/v1"
        yield server
