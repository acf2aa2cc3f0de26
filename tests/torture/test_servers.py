"""Hostile servers: whatever they send, a download is the file, or an error and no file."""

from __future__ import annotations

import hashlib
import json
import random
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.engine.chat_replies import parse_choice
from contrapose.errors import ContraposeError
from contrapose.files import download as downloader
from contrapose.files.download import Expectation, download_file
from contrapose.models import Prompt
from tests.chatting import Response, said, serving
from tests.models.endpoint.test_model import endpoint
from tests.torture.conftest import Tally
from tests.torture.mutations import LONGEST, NASTY, ROUNDS, SEED, change_value, time_limit
from tests.web_server import run_web_server

CONTENT = bytes(range(256)) * 40
KNOWN = Expectation(len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
FAULTS = (
    "drop 0", "drop 1", "drop 3000", "status 500", "status 503", "status 429", "status 206",
    "wrong", "no range", "chunked", "no length", "bad range", "redirect /a.bin", "status 404", "",
)  # fmt: skip


def test_any_sequence_of_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr(downloader, "BACKOFF", 0.0)
    rng = random.Random(f"{SEED}faults")  # noqa: S311
    with run_web_server() as web:
        web.files["/a.bin"] = CONTENT
        for turn in range(ROUNDS):
            path = tmp_path / f"{turn}.bin"
            for _ in range(2):  # a second command goes on with what the first one left
                web.faults["/a.bin"] = [rng.choice(FAULTS) for _ in range(rng.randint(0, 6))]
                with suppress(ContraposeError):
                    download_file(f"{web.url}/a.bin", path, KNOWN)
                assert not path.exists() or path.read_bytes() == CONTENT
            web.faults["/a.bin"] = []
            download_file(f"{web.url}/a.bin", path, KNOWN)
            assert path.read_bytes() == CONTENT
    tally.add("downloads from a server with faults", 3 * ROUNDS)


HEADERS = (
    b"Content-Length: " + b"9" * 5000, b"Content-Length: -1", b"Content-Length: 1e9",
    b"Content-Length: 99999999999999999", b"Content-Length: 10240\r\nContent-Length: 7",
    b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n-5", b"Content-Encoding: gzip\r\nContent-Length: 5",
    b"Retry-After: " + b"9" * 400, b"X: " + b"y" * 70_000, b"\xff\xfe: \x00",
    b"Location: file:///etc/passwd", b"Content-Range: bytes 0-" + b"9" * 5000 + b"/*",
    b"ETag: " + b"z" * 60_000, b"X: 1" + b"\r\nY: 1" * 120,
)  # fmt: skip
LINES = (
    b"HTTP/1.1 200 OK", b"HTTP/1.1 206 x", b"HTTP/1.1 302 x", b"HTTP/1.1 999 x", b"HTTP/9.9 200",
    b"\x16\x03\x01\x02", b"HTTP/1.1 -1", b"HTTP/1.1 204 x", b"HTTP/1.1 503 x",
)  # fmt: skip


@contextmanager
def raw_server(answers: Iterator[bytes]) -> Iterator[str]:
    """Server that sends given bytes, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65536)
                        connection.sendall(next(answers))
                        connection.shutdown(socket.SHUT_WR)
                    except (OSError, StopIteration):
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_any_bytes_for_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr(downloader, "BACKOFF", 0.0)
    monkeypatch.setattr("contrapose.files.download.time.sleep", lambda seconds: None)
    rng = random.Random(f"{SEED}raw")  # noqa: S311

    def answers() -> Iterator[bytes]:
        while True:
            head = [rng.choice(LINES), *rng.sample(HEADERS, rng.randint(0, 3))]
            yield b"\r\n".join(head) + b"\r\n\r\n" + CONTENT[: rng.randrange(len(CONTENT))]

    path = tmp_path / "a.bin"
    with raw_server(answers()) as url:
        for turn in range(2 * ROUNDS):
            with time_limit(LONGEST):
                with suppress(ContraposeError):
                    download_file(f"{url}/a.bin", path, KNOWN if turn % 2 else Expectation())
                assert not turn % 2 or not path.exists() or path.read_bytes() == CONTENT
                path.unlink(missing_ok=True)
    tally.add("downloads of arbitrary bytes", 2 * ROUNDS)


FIRST = {"token": "Yes", "logprob": -0.1, "top_logprobs": [{"token": "Yes", "logprob": -0.1}]}
BODIES: tuple[Any, ...] = (said("(1)"), said("1;2", logprobs={"content": [FIRST]}))


def test_any_body_of_a_chat_server(monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    """Replies, or one error for the user: never a traceback, and never a hang."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    rng = random.Random(f"{SEED}chat")  # noqa: S311

    def answer(request: Mapping[str, Any]) -> Response:
        body = change_value(rng.choice(BODIES), rng)
        if rng.random() < 0.2:
            body = rng.choice(NASTY)
        waits = {"Retry-After": rng.choice(("0", "nan", "inf", "-1", "x", "9" * 400))}
        return Response(json.loads(json.dumps(body)), rng.choice((200, 200, 200, 429, 500)), waits)

    prompts = [Prompt((Image.new("RGB", (4, 4)),), f"which? {i}") for i in range(2)]
    with serving(answer) as server:
        for _ in range(ROUNDS):
            with time_limit(LONGEST), suppress(ContraposeError):
                for reply in endpoint(server).reply(prompts):
                    parse_choice(reply.text, ["a cat", "a dog"])
    tally.add("answers of a chat server", 2 * ROUNDS)


@pytest.mark.parametrize("reply", ["9" * 5000, "(" + "9" * 5000 + ")", "0", "²", "(٣)", "-1", "\0"])
def test_numbers_that_are_no_options(reply: str) -> None:
    parse_choice(reply, ["a cat", "a dog"])
