"""Hostile servers: whatever they send, a download is the file, or an error and no file."""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.engine import AnswerStore, ScoringContext, score_examples
from contrapose.engine.chat_replies import parse_choice
from contrapose.errors import ContraposeError, InputError
from contrapose.files import download as downloader
from contrapose.files.download import Expectation, download_file
from contrapose.models import Prompt, QuestionTemplate
from contrapose.models.endpoint import EndpointError
from contrapose.models.endpoint.served import ServedModel
from tests.chatting import Response, said, serving
from tests.fakes import choices
from tests.models.endpoint.test_model import endpoint
from tests.torture.conftest import Tally
from tests.torture.mutations import (
    LONGEST,
    NASTY,
    ROUNDS,
    SEED,
    change_bytes,
    change_value,
    time_limit,
)
from tests.torture.word_server import CUT, Fault, WordServer, load_words, serve_words
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


KINDS = ("vllm", "sglang")
TEXTS = ["a cat sits on a mat", "two dogs", "a red cube left of a ball", "a cat sits on a mat"]
LONG = QuestionTemplate(answer="Yes indeed")


def words_pairs() -> tuple[list[Image.Image], list[str]]:
    one, two = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
    return [one, one, two, two], TEXTS


def read_all(model: ServedModel) -> list[list[float]]:
    """All numbers of a served model: tokens of captions, and answers of one token and of two."""
    images, texts = words_pairs()
    tokens = model.token_logprobs(images, texts)
    answers = [model.answer_logprobs(images, texts, q) for q in (QuestionTemplate(), LONG)]
    return [tokens.values.tolist(), *(np.asarray(values).tolist() for values in answers)]


def is_scoring(path: str) -> bool:
    return path.endswith(("/chat/completions", "/generate"))


FLAKY: dict[str, list[Fault]] = {
    "429 with Retry-After": [(429, {"error": {"message": "busy"}}, {"Retry-After": "7"})] * 3,
    "500s": [(500, b"oops", {}), (502, b"", {}), (503, b"<html>", {})],
    "reset in mid-body": [(CUT, {"choices": [{"message": {"content": "x" * 3000}}]}, {})] * 3,
    "half JSON": [(200, b'{"choices": [{"message": {"cont', {}), (200, b"", {})],
    "429 with a date that has passed": [
        (429, b"", {"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"})
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flaky_server_gives_the_same_numbers(kind: str, tally: Tally) -> None:
    """Every fault that may pass is tried again, and no number changes."""
    with serve_words() as server:
        expected = read_all(load_words(server, kind))
        for name, faults in FLAKY.items():
            waits: list[float] = []
            model = load_words(server, kind, ",retries=4,parallel=1", waits)
            left = list(faults)
            server.fault = lambda path, _, left=left: (  # type: ignore[misc]
                left.pop(0) if is_scoring(path) and left else None
            )
            assert read_all(model) == expected, name
            assert not left
            if name.startswith("429 with Retry"):
                assert waits[:3] == [7, 7, 7]
        tally.add("faults of a flaky model server", sum(map(len, FLAKY.values())))


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_server(kind: str) -> None:
    """A request has its timeout and is sent again; a server that stays slow is named."""
    images, texts = words_pairs()
    release = threading.Event()
    with serve_words() as server:
        expected = load_words(server, kind).token_logprobs(images, texts).values.tolist()
        # A busy machine may be late more than once.
        model = load_words(server, kind, ",retries=9,timeout=0.1,parallel=1")
        late = [True]

        def wait(path: str, request: Mapping[str, Any]) -> Fault | None:
            if is_scoring(path) and late and (late[0] is None or late.pop()):
                release.wait(10)
            return None

        server.fault = wait
        assert model.token_logprobs(images, texts).values.tolist() == expected
        late[:] = [None]  # type: ignore[list-item]
        with pytest.raises(EndpointError, match=r"no answer within 0\.1 seconds"):
            model.token_logprobs([Image.new("RGB", (8, 8))], ["a slow caption"])
        release.set()


def stop_after(server: WordServer, count: int, stop: Callable[[], Fault]) -> None:
    """Let a server answer so many requests for log-probabilities; `stop` answers the others."""
    given: list[str] = []

    def answer(path: str, request: Mapping[str, Any]) -> Fault | None:
        if not {"prompt_logprobs", "logprob_token_ids", "return_logprob"} & request.keys():
            return None
        with server.lock:
            given.append(path)
            late = len(given) > count
        return stop() if late else None

    server.fault = answer


STOPS = ("vqa", "vllm", 13), ("lm", "vllm", 30), ("lm", "sglang", 5), ("vqa", "sglang", 1)


@pytest.mark.parametrize(("score", "kind", "count"), STOPS)
def test_answers_before_a_server_goes_away_are_stored(
    tmp_path: Path, score: str, kind: str, count: int, tally: Tally
) -> None:
    """Every answer that was given counts: the next run asks for the rest, and for nothing twice."""
    examples = choices(12)
    with serve_words() as server:
        expected = score_examples(ScoringContext(load_words(server, kind)), score, examples)
        server.scored.clear()
        stop_after(server, count, lambda: (503, b"gone", {}))
        model = load_words(server, kind, ",retries=0,parallel=8")
        with pytest.raises(EndpointError, match="goes on from there"):
            score_examples(ScoringContext(model, AnswerStore(tmp_path)), score, examples)
        assert len(server.scored) == count
        server.fault = lambda path, request: None
        again = ScoringContext(load_words(server, kind, ",parallel=8"), AnswerStore(tmp_path))
        answers = score_examples(again, score, examples)
        assert np.array_equal(answers.scores, expected.scores)
        assert len(server.scored) == len(set(server.scored)) == 36
    tally.add("answers of servers that went away", count)


@pytest.mark.parametrize(("score", "kind"), [("vqa", "vllm"), ("lm", "vllm"), ("lm", "sglang")])
def test_a_pair_on_which_the_server_fails_ends_no_run(
    tmp_path: Path, score: str, kind: str
) -> None:
    """It is skipped and named; the next run asks for it again, and for nothing else."""
    examples = choices(6)
    bad = examples[2].texts[0]
    with serve_words() as server:
        expected = score_examples(ScoringContext(load_words(server, kind)), score, examples)
        server.fault = lambda path, request: (
            (500, b"oops", {}) if is_scoring(path) and bad in str(request) else None
        )
        for _ in range(2):  # in the second run no other request is left
            model = load_words(server, kind, ",retries=2,parallel=4")
            context = ScoringContext(model, AnswerStore(tmp_path))
            answers = score_examples(context, score, examples)
            assert set(answers.skipped) == {examples[2].id}
            (skip,) = answers.skipped.values()
            assert "fails on this request (3 times in a row: status 500, oops)" in skip.detail
        server.fault = lambda path, request: None
        server.scored.clear()
        again = ScoringContext(load_words(server, kind), AnswerStore(tmp_path))
        answers = score_examples(again, score, examples)
        assert np.array_equal(answers.scores, expected.scores)
        assert len(server.scored) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_with_requests_in_flight(tmp_path: Path, kind: str) -> None:
    """The program waits for no answer, and what came is stored."""
    examples, count, asked = choices(12), 11, threading.Semaphore(0)
    release = threading.Event()

    def hang() -> Fault:
        asked.release()
        release.wait(60)
        return 503, b"", {}

    def interrupt() -> None:
        for _ in range(8):  # all threads of the client wait, so that each has read what it got
            asked.acquire()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=interrupt, daemon=True)
    with serve_words() as server:
        stop_after(server, count, hang)
        model = load_words(server, kind, ",retries=3,parallel=8,timeout=60")
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
        presser.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                score_examples(ScoringContext(model, AnswerStore(tmp_path)), "lm", examples)
            assert not release.is_set()
            presser.join()
        finally:
            release.set()
            signal.signal(signal.SIGINT, before)
        assert len(server.scored) == count
        server.fault = lambda path, request: None
        again = ScoringContext(load_words(server, kind, ",parallel=8"), AnswerStore(tmp_path))
        score_examples(again, "lm", examples)
        assert len(server.scored) == len(set(server.scored)) == 36


def cut_positions(body: Any, cut: int) -> Any:
    """An answer with so many log-probabilities fewer at its end, or more."""
    body = json.loads(json.dumps(body))
    for place in (body, body.get("meta_info", {})):
        for name in ("prompt_logprobs", "input_token_logprobs"):
            if place.get(name):
                rows = place[name]
                place[name] = rows[:-cut] if cut > 0 else rows + rows[-1:]
    return body


@pytest.mark.parametrize("kind", KINDS)
def test_answers_with_too_few_or_too_many_numbers_are_refused(kind: str) -> None:
    images, texts = words_pairs()
    with serve_words() as server:
        model = load_words(server, kind, ",retries=0")
        for cut in (1, 3, 100, -1):
            server.fault = lambda path, request, cut=cut: (  # type: ignore[misc]
                (200, cut_positions(server.answer(path, request), cut), {})
                if is_scoring(path) and ("prompt_logprobs" in request or "logprob_start_len" in
                request) else None
            )  # fmt: skip
            with pytest.raises(InputError, match=r"other tokens|no log-probabilities"):
                model.token_logprobs(images[:1], texts[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_to_another_prompt_is_refused(kind: str) -> None:
    """A proxy that mixes answers up: their tokens are not those of this caption."""
    images, texts = words_pairs()
    with serve_words() as server:
        model = load_words(server, kind, ",retries=0,parallel=1")
        seen: list[Mapping[str, Any]] = []

        def mix(path: str, request: Mapping[str, Any]) -> Fault | None:
            if "prompt_logprobs" not in request and "logprob_start_len" not in request:
                return None
            seen.append(request)
            return (200, server.answer(path, seen[0]), {}) if len(seen) > 1 else None

        server.fault = mix
        model.token_logprobs(images[:1], texts[:1])
        with pytest.raises(InputError, match="other tokens"):
            model.token_logprobs(images[:1], texts[1:2])
        with pytest.raises(InputError, match="other tokens"):
            model.token_logprobs(images[:1], ["a dog sits on a mat"])  # as long as the first


@pytest.mark.parametrize(
    "value", [None, "NaN", "-Infinity", "null", 3.5, True, "x", [], {}, -9999.0]
)
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_no_log_probabilities(kind: str, value: Any) -> None:
    """NaN, infinities, none, positive and other values are refused wherever they stand."""
    with serve_words() as server:
        model = load_words(server, kind, ",retries=0")

        def spoil(path: str, request: Mapping[str, Any]) -> Fault | None:
            body = json.dumps(server.answer(path, request))
            said = value if value in ("NaN", "-Infinity", "null") else json.dumps(value)
            body = re.sub(r'"logprob": -[\d.e-]+', f'"logprob": {said}', body)
            body = re.sub(r"\[-[\d.e-]+, ", f"[{said}, ", body)
            return (200, body.encode(), {}) if is_scoring(path) else None

        server.fault = spoil
        images, texts = words_pairs()
        for ask in (
            lambda: model.token_logprobs(images[:1], texts[:1]),
            lambda: model.answer_logprobs(images[:1], texts[:1], QuestionTemplate()),
        ):
            with pytest.raises(ContraposeError, match=r"cannot be used|no log-prob|other tokens"):
                ask()


@pytest.mark.parametrize("kind", KINDS)
def test_any_body_of_a_model_server(kind: str, tally: Tally) -> None:
    """Numbers of a sound answer, or one error for the user: never a traceback."""
    rng = random.Random(f"{SEED}{kind} words")  # noqa: S311
    images, texts = words_pairs()
    with serve_words() as server:
        for turn in range(ROUNDS):
            server.fault = lambda path, _: None

            def spoil(path: str, request: Mapping[str, Any]) -> Fault | None:
                if rng.random() < 0.3:
                    return None
                body = change_value(server.answer(path, request), rng)
                if rng.random() < 0.1:
                    return 200, change_bytes(json.dumps(body).encode(), rng), {}
                return rng.choice((200, 200, 200, 200, 400, 503)), body, {}

            with time_limit(LONGEST), suppress(ContraposeError):
                if turn % 4 == 0:  # what the server says of its model is spoiled too
                    server.fault = spoil
                model = load_words(server, kind, ",retries=1")
                server.fault = spoil
                ask = turn % 3
                if ask == 0:
                    model.token_logprobs(images[:1], texts[:1])
                else:
                    question = LONG if ask == 1 else QuestionTemplate()
                    model.answer_logprobs(images[:1], texts[:1], question)
    tally.add("answers of model servers", ROUNDS)
