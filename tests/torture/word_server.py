"""vLLM and SGLang without a network: tokens are words, and log-probabilities are hashes.

They speak the fields of the real servers, so that a served model can be tortured with thousands of
requests. A value depends on the image, on all tokens before it and on the token itself.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any, cast

from contrapose.models.capabilities import QuestionTemplate
from contrapose.models.endpoint.rate_limit import RateLimit
from contrapose.models.endpoint.served import ServedModel, ask_facts
from contrapose.models.endpoint.settings import parse_settings
from tests.web_server import listen

END, END_TOKEN, IMAGE_TOKENS = "</s>", 2, [1, 3, 3, 3, 3]
VOCABULARY = 30_000
CUT = -1
"""Status of an answer that breaks off in the middle of its body."""

Fault = tuple[int, Any, Mapping[str, str]]


def split_tokens(text: str) -> list[int]:
    """Tokens of a text: one for each word, and one for each end of a reply."""
    words = text.replace(END, f" {END} ").split()
    return [END_TOKEN if w == END else 10 + zlib.crc32(w.encode()) % VOCABULARY for w in words]


def logprob(image: str, tokens: Sequence[int]) -> float:
    """Log-probability of the last token behind the image and all others."""
    return -5 * zlib.crc32(f"{zlib.crc32(image.encode())} {list(tokens)}".encode()) / 2**32


class WordPrompts:
    """Chat template and tokenizer of the words, as a served model asks them."""

    prompt, end_text, identity, cut, bare = "Describe it.", END, "words", False, True

    def __init__(self) -> None:
        self.context = 1024
        self.tail = self.tail_tokens(self.render_question(self.prompt))

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [len(split_tokens(text)) + 1 for text in texts]

    def read_texts(self, texts: Sequence[str]) -> list[str]:
        return list(texts)

    def captions(self, texts: Sequence[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(ids=(*split_tokens(text), END_TOKEN)) for text in texts]

    def render_question(self, question: str, images: int = 1) -> str:
        return f"USER {question} ASSISTANT "

    def render_reply(self, turn: str, reply: str) -> str:
        return f"{turn}{reply}"

    def head_tokens(self, turn: str) -> tuple[int, ...]:
        return tuple(IMAGE_TOKENS[:1])

    def tail_tokens(self, turn: str) -> tuple[int, ...]:
        return tuple(split_tokens(turn))

    def answer_tokens(self, turn: str, question: QuestionTemplate) -> tuple[int, ...]:
        return tuple(split_tokens(question.answer))


@dataclass
class WordServer:
    """The server; `fault` may answer in its place, None lets it answer.

    Attributes:
        url: its address.
        fault: called with path and request.
        seconds: that an answer takes.
        scored: image and text of each request for log-probabilities.
        busiest: most requests that were in flight at once.
    """

    url: str = ""
    fault: Callable[[str, Mapping[str, Any]], Fault | None] = lambda path, request: None
    seconds: float = 0.0
    scored: list[tuple[int, str]] = field(default_factory=list)
    busiest: int = 0
    running: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, request: Mapping[str, Any]) -> Any:
        """Body of the answer that a sound server gives."""
        if path.endswith("/models"):
            return {"object": "list", "data": [{"id": "words", "max_model_len": 4096}]}
        if path.endswith("/chat/completions"):
            return self.chat(request)
        if path.endswith("/generate"):
            return self.generate(request)
        return {"weight_version": "1"}

    def chat(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer as vLLM does."""
        first, *replies = request["messages"]
        image = first["content"][0]["image_url"]["url"]
        turn = WordPrompts().render_question(first["content"][1]["text"])
        ids = IMAGE_TOKENS + split_tokens(turn + "".join(reply["content"] for reply in replies))
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": "x"}}
        body: dict[str, Any] = {"choices": [choice], "usage": {"prompt_tokens": len(ids)}}
        if request.get("return_token_ids"):
            body["prompt_token_ids"] = ids
        if request.get("logprob_token_ids"):
            self.note(image, turn)
            rows = [
                {"token": f"token_id:{token}", "logprob": logprob(image, [*ids, token])}
                for token in (7, *request["logprob_token_ids"])
            ]
            choice["logprobs"] = {"content": [{**rows[0], "top_logprobs": rows}]}
        if request.get("prompt_logprobs") is not None:
            self.note(image, replies[0]["content"])
            body["prompt_logprobs"] = [None] + [
                {str(ids[k]): {"logprob": logprob(image, ids[: k + 1]), "rank": 1}}
                for k in range(1, len(ids))
            ]
        return body

    def generate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer as SGLang does."""
        image, text = request["image_data"][0], request["text"]
        ids = IMAGE_TOKENS + split_tokens(text)
        info: dict[str, Any] = {"prompt_tokens": len(ids), "completion_tokens": 1}
        if request.get("return_logprob"):
            self.note(image, text)
            start = request.get("logprob_start_len", len(ids))
            info["input_token_logprobs"] = [
                [None if k == start else logprob(image, ids[: k + 1]), ids[k], None]
                for k in range(start, len(ids))
            ]
            listed = request.get("token_ids_logprob") or []
            rows = [[logprob(image, [*ids, token]), token, None] for token in listed]
            info["output_token_ids_logprobs"] = [rows]
        return {"text": "x", "meta_info": info}

    def note(self, image: str, text: str) -> None:
        """Count a request for log-probabilities."""
        with self.lock:
            self.scored.append((zlib.crc32(image.encode()), text))


def load_words(
    server: WordServer, kind: str, settings: str = "", waits: list[float] | None = None
) -> ServedModel:
    """The served model of a server, which waits for nothing in earnest."""
    slept = [] if waits is None else waits
    pace = RateLimit(0, lambda: sum(slept), slept.append, lambda: 1.0)
    options = parse_settings(f"{kind}:words,url={server.url}{settings}")
    facts = ask_facts(options, pace)
    return ServedModel(options, pace, facts, "words", cast(Any, WordPrompts()), None)


class _Handler(BaseHTTPRequestHandler):
    words: WordServer

    def do_POST(self) -> None:
        self.respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        self.respond({})

    def respond(self, request: dict[str, Any]) -> None:
        with self.words.lock:
            self.words.running += 1
            self.words.busiest = max(self.words.busiest, self.words.running)
        try:
            status, body, headers = self.words.fault(self.path, request) or (
                200, self.words.answer(self.path, request), {}
            )  # fmt: skip
            time.sleep(self.words.seconds)
            self.write(status, body, headers)
        except OSError:  # the client was killed, or did not wait
            self.close_connection = True
        finally:
            with self.words.lock:
                self.words.running -= 1

    def write(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200 if status == CUT else status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status != CUT:
            self.wfile.write(content)
            return
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        # Closing with unsent data forbidden to linger resets the connection.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_words(seconds: float = 0.0) -> Iterator[WordServer]:
    """The server on a free port of this machine, while the block runs."""
    words = WordServer(seconds=seconds)
    handler = type("WordHandler", (_Handler,), {"words": words})
    with listen(handler) as url:
        words.url = f"{url}/v1"
        yield words
