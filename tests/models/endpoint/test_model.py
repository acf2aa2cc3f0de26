"""An endpoint asked over a real connection: a server that behaves, and all the ways it may not."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.errors import InputError
from contrapose.models import Answerer, CardProvider, Chat, Prompt, QuestionTemplate, check_model
from contrapose.models.capabilities import arrived_positions
from contrapose.models.endpoint import EndpointError
from contrapose.models.endpoint.client import MAX_REPLY, EndpointClient
from contrapose.models.endpoint.model import Endpoint
from contrapose.models.endpoint.rate_limit import RateLimit
from contrapose.models.endpoint.settings import parse_settings
from tests.chatting import Response, Server, said, serving, shown

KEY = "not-a-real-key"
ASKED = QuestionTemplate()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


class Waits:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()
        self.lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.slept.append(seconds)
            self.now += seconds


def endpoint(server: Server | str, settings: str = "", waits: Waits | None = None) -> Endpoint:
    url = server if isinstance(server, str) else server.url
    waits = waits or Waits()
    pace = RateLimit(0, lambda: waits.now, waits.sleep, lambda: 1.0)
    return Endpoint(parse_settings(f"openai:m?url={url}{settings}"), pace)


def prompt(text: str, colour: str = "red") -> Prompt:
    return Prompt((Image.new("RGB", (4, 4), colour),), text)


def echo(request: Mapping[str, Any]) -> Response:
    image, text = shown(request)
    return Response(said(f"{text} {image.getpixel((0, 0))}"))


def then(*responses: Response | Callable[[Mapping[str, Any]], Response]) -> Callable[..., Response]:
    """One response after the other; the last again and again."""
    left = list(responses)
    lock = threading.Lock()

    def answer(request: Mapping[str, Any]) -> Response:
        with lock:
            one = left.pop(0) if len(left) > 1 else left[0]
        return one if isinstance(one, Response) else one(request)

    return answer


def test_one_reply_a_prompt_in_order() -> None:
    with serving(echo) as server:
        model = endpoint(server, "&parallel=3")
        assert isinstance(model, Chat)
        assert isinstance(model, Answerer)
        assert isinstance(model, CardProvider)
        replies = model.reply([prompt(f"q{i}", "blue" if i % 2 else "red") for i in range(10)])
    colours = ["(255, 0, 0)", "(0, 0, 255)"]
    assert [each.text for each in replies] == [f"q{i} {colours[i % 2]}" for i in range(10)]
    assert {(each.tokens_in, each.tokens_out) for each in replies} == {(100, 3)}
    assert Counter(server.paths) == {"/v1/chat/completions": 10}
    assert {each["Authorization"] for each in server.headers} == {f"Bearer {KEY}"}
    assert model.reply([]) == []


def test_credentials_and_query_of_the_address() -> None:
    with serving(echo) as server:
        target = server.url.replace("http://", "http://me:pass%20word@") + "?api-version=1"
        endpoint(target).reply([prompt("q")])
    assert server.paths == ["/v1/chat/completions?api-version=1"]
    assert server.headers[0]["Authorization"] == "Basic bWU6cGFzcyB3b3Jk"


def test_another_variable_for_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "other")
    with serving(echo) as server:
        endpoint(server, "&key_env=OTHER").reply([prompt("q")])
        endpoint(server, "&key_env=NONE_SUCH").reply([prompt("q")])
    assert server.headers[0]["Authorization"] == "Bearer other"
    assert "Authorization" not in server.headers[1]


def test_too_many_requests_and_failures_are_tried_again() -> None:
    busy = Response({"error": {"message": "slow down"}}, 429, {"Retry-After": "7"})
    waits = Waits()
    with serving(then(busy, Response(b"oops", 503), Response(b"<html>", 200), echo)) as server:
        (reply,) = endpoint(server, waits=waits).reply([prompt("q")])
    assert reply.text == "q (255, 0, 0)"
    assert len(server.requests) == 4
    # As long as the server asked, then longer each time.
    assert waits.slept == [7, 0.5, 1]


def test_in_the_end_it_stops() -> None:
    with (
        serving(then(Response({"error": {"message": "Overloaded."}}, 503))) as server,
        pytest.raises(EndpointError, match=r"failed 3 times in a row: status 503, Overloaded\.$"),
    ):
        endpoint(server, "&retries=2").reply([prompt("q")])
    assert len(server.requests) == 3
    later = Response(b"", 429, {"Retry-After": "86400"})
    with serving(then(later)) as server, pytest.raises(EndpointError, match="wait 86,400 seconds"):
        endpoint(server).reply([prompt("q")])


def test_a_server_that_says_nothing_of_its_failure() -> None:
    for status, words in ((302, r"\(status 302\)\.$"), (429, "once: status 429 \\(rpm=")):
        answer = Response(b"", status, {"Retry-After": "inf"})
        with serving(then(answer)) as server, pytest.raises(EndpointError, match=words) as stopped:
            endpoint(server, "&retries=0").reply([prompt("q")])
        assert "nothing" not in str(stopped.value)


def test_a_server_that_throttles_every_request_now_and_then() -> None:
    """As long as others are answered in between, a throttled request is sent again."""
    busy = Response({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"})
    count, lock = [0], threading.Lock()

    def answer(request: Mapping[str, Any]) -> Response:
        with lock:
            count[0] += 1
            return echo(request) if count[0] % 4 == 0 else busy

    prompts = [prompt(f"q{i}") for i in range(40)]
    with serving(answer) as server:
        # Three in a row, and one that was sent before the last answer and is read after it.
        replies = endpoint(server, "&retries=4&parallel=8").reply(prompts)
    assert [reply.text.split()[0] for reply in replies] == [f"q{i}" for i in range(40)]


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "1"}])
@pytest.mark.parametrize("parallel", [1, 8])
def test_a_server_that_only_throttles(headers: dict[str, str], parallel: int) -> None:
    answer = Response({"error": {"message": "slow down"}}, 429, headers)
    prompts = [prompt(f"q{i}") for i in range(16)]
    with (
        serving(then(answer)) as server,
        pytest.raises(EndpointError, match=r"3 times in a row: status 429, slow.*rpm=.*parallel="),
    ):
        endpoint(server, f"&retries=2&parallel={parallel}").reply(prompts)
    assert parallel > 1 or len(server.requests) == 3


def test_a_prompt_on_which_the_server_fails_is_refused_and_others_are_answered() -> None:
    def answer(request: Mapping[str, Any]) -> Response:
        _, text = shown(request)
        return Response(b"oops", 500) if text in failing else echo(request)

    failing = ["q1"]
    prompts = [prompt(f"q{i}") for i in range(3)]
    with serving(answer) as server:
        model = endpoint(server, "&parallel=1&retries=2")
        with pytest.raises(
            InputError, match=r"fails on this request \(3 times in a row: status 500"
        ):
            model.reply(prompts)
        # One before it is sent again, since only an answer proves that the server still works.
        sent = [shown(request)[1] for request in server.requests]
        assert sent == ["q0", "q1", "q1", "q1", "q0", "q2"]
        assert [model.reply([prompts[i]])[0].text.split()[0] for i in (0, 2)] == ["q0", "q2"]
        failing += ["q0", "q2"]
        with pytest.raises(InputError, match="fails on this"):
            model.reply([prompts[1]])
        with pytest.raises(EndpointError, match=r"failed 3 times in a row: status 500, oops; answ"):
            model.reply([prompts[1]])
    with serving(answer) as server, pytest.raises(EndpointError, match="status 500"):
        endpoint(server, "&parallel=1&retries=2").reply(prompts)


def test_an_address_without_a_version() -> None:
    with serving(then(Response(b"", 404))) as server:
        with pytest.raises(EndpointError, match=r"status 404\): most addresses end with /v1\.$"):
            endpoint(server.url.removesuffix("/v1")).reply([prompt("q")])
        with pytest.raises(EndpointError, match=r"\(status 404\)\.$"):
            endpoint(server).reply([prompt("q")])


def test_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is reached without one; an error of another server names the proxy."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens to it
        proxy = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("http_proxy", f"http://me:s3cret@{proxy}/")
        with serving(echo) as server:
            endpoint(server).reply([prompt("q")])
            endpoint(server.url.replace("127.0.0.1", "localhost")).reply([prompt("q")])
            endpoint(server.url.replace("127.0.0.1", "0.0.0.0")).reply([prompt("q")])  # noqa: S104
        with pytest.raises(EndpointError, match=f"through the proxy {proxy}, failed") as stopped:
            endpoint("http://server.invalid/v1", "&retries=1").reply([prompt("q")])
    assert "s3cret" not in str(stopped.value)


def test_down() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else can have this port, and nobody listens to it
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        waits = Waits()
        with pytest.raises(EndpointError, match=r"it cannot be reached \(connection refused\)"):
            endpoint(url, "&retries=2", waits).reply([prompt("q")])
    assert waits.slept == [0.5, 1]


def test_slow() -> None:
    release = threading.Event()

    def late(request: Mapping[str, Any]) -> Response:
        release.wait(10)
        return echo(request)

    with serving(then(late, echo)) as server:
        # A busy machine may be late more than once.
        (reply,) = endpoint(server, "&timeout=0.05&retries=50").reply([prompt("q")])
        assert reply.text.startswith("q")
        server.answer = late
        with pytest.raises(EndpointError, match=r"once: no answer within 0.05 seconds \(timeout="):
            endpoint(server, "&timeout=0.05&retries=0").reply([prompt("q")])
        release.set()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"<html>hello</html>", "what came back is not JSON: <html>hello</html>"),
        ({"answer": 3}, "what came back is no reply: {.answer.: 3}"),
    ],
)
def test_garbage(body: object, sentence: str) -> None:
    with serving(then(Response(body))) as server, pytest.raises(EndpointError, match=sentence):
        endpoint(server, "&retries=1").reply([prompt("q")])
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "words", "sentence"),
    [
        (
            401,
            "Incorrect key",
            r"refuses access \(status 401, Incorrect key\): the key in OPENAI_API",
        ),
        (404, "The model does not exist", "knows no model 'm', or is not at this address"),
        (400, "images not supported", r"refuses the question \(status 400, images not supported\)"),
        (302, "moved", r"refuses the question \(status 302"),
    ],
)
def test_what_trying_again_does_not_help(status: int, words: str, sentence: str) -> None:
    answer = Response({"error": {"message": words}}, status, {"Location": "http://127.0.0.1:9/"})
    with serving(then(answer)) as server, pytest.raises(EndpointError, match=sentence) as stopped:
        endpoint(server).reply([prompt("q")])
    assert len(server.requests) == 1
    assert KEY not in str(stopped.value)


def test_an_empty_purse_is_not_waited_for() -> None:
    body = {"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}
    with serving(then(Response(body, 429))) as server, pytest.raises(EndpointError, match="quota"):
        endpoint(server).reply([prompt("q")])
    assert len(server.requests) == 1


def test_no_key_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with (
        serving(then(Response(b"", 401))) as server,
        pytest.raises(EndpointError, match="there is no key in OPENAI_API_KEY"),
    ):
        endpoint(server).reply([prompt("q")])


def test_a_refusal_is_a_reply() -> None:
    body = {"error": {"code": "content_filter", "message": "Filtered (1)."}}
    refusal = {"choices": [{"message": {"content": None, "refusal": "I won't."}}]}
    with serving(then(Response(body, 400), Response(refusal))) as server:
        model = endpoint(server)
        assert model.reply([prompt("q")])[0].text == "refused: Filtered (1)"
        reply = model.reply([prompt("q")])[0]
    assert (reply.text, reply.tokens_in) == ("I won't.", 0)


def test_what_came_before_it_stopped_is_not_lost() -> None:
    def answer(request: Mapping[str, Any]) -> Response:
        _, text = shown(request)
        return Response(b"", 401) if text == "q2" else echo(request)

    with serving(answer) as server:
        model = endpoint(server, "&parallel=1")
        prompts = [prompt(f"q{i}") for i in range(5)]
        with pytest.raises(EndpointError) as stopped:
            model.reply(prompts)
        assert arrived_positions(stopped.value) == (0, 1)
        sent = len(server.requests)
        for i in (0, 1):
            assert model.reply([prompts[i]])[0].text.startswith(f"q{i}")
        assert len(server.requests) == sent == 3
        model.reply([prompts[0]])  # it may be asked again
        assert len(server.requests) == 4
        with pytest.raises(EndpointError) as stopped:
            model.answer_logprobs([Image.new("RGB", (4, 4))], ["q2"], QuestionTemplate("{}"))
        assert arrived_positions(stopped.value) == ()


def test_a_refused_prompt_costs_no_other_a_second_request() -> None:
    def answer(request: Mapping[str, Any]) -> Response:
        _, text = shown(request)
        return Response(b"x" * (MAX_REPLY + 2)) if text == "q1" else echo(request)

    prompts = [prompt(f"q{i}") for i in range(3)]
    with serving(answer) as server:
        model = endpoint(server, "&parallel=1")
        with pytest.raises(InputError, match="longer than"):
            model.reply(prompts)
        assert [model.reply([prompts[i]])[0].text.split()[0] for i in (0, 2)] == ["q0", "q2"]
        with pytest.raises(InputError, match="longer than"):
            model.reply([prompts[1]])
    assert len(server.requests) == 3


def test_the_other_name_of_the_most_tokens() -> None:
    def answer(request: Mapping[str, Any]) -> Response:
        if "max_tokens" in request:
            words = "Unsupported parameter: use 'max_completion_tokens' instead."
            return Response({"error": {"message": words}}, 400)
        assert request["max_completion_tokens"] == 64
        return echo(request)

    with serving(answer) as server:
        model = endpoint(server)
        model.reply([prompt("a")])
        model.reply([prompt("b")])
    assert ["max_tokens" in each for each in server.requests] == [True, False, False]


def likely(request: Mapping[str, Any]) -> Response:
    """P(yes) is spread over two spellings; of "rare" it is not among the likeliest."""
    assert (request["logprobs"], request["top_logprobs"], request["max_tokens"]) == (True, 20, 1)
    _, text = shown(request)
    top = {"Yes": 0.5, " yes": 0.25, "No": 0.2} if "rare" not in text else {"No": 0.9}
    tokens = [{"token": token, "logprob": math.log(p)} for token, p in top.items()]
    tokens += [{"token": "YES", "logprob": -9999.0}]  # written for minus infinity
    return Response(said("Yes", logprobs={"content": [{**tokens[0], "top_logprobs": tokens}]}))


def test_vqa_from_log_probabilities() -> None:
    with serving(likely) as server:
        model = endpoint(server)
        images = [Image.new("RGB", (4, 4), "red")] * 2
        found = np.asarray(model.answer_logprobs(images, ["a cat", "a dog"], ASKED))
        no = model.answer_logprobs(images[:1], ["a cat"], QuestionTemplate(ASKED.text, "No"))
    assert np.exp(found) == pytest.approx([0.75, 0.75])
    assert np.exp(np.asarray(no)) == pytest.approx([0.2])
    assert sorted(shown(each)[1] for each in server.requests[:2]) == [
        ASKED.about("a cat"), ASKED.about("a dog"),
    ]  # fmt: skip


def test_an_answer_whose_probability_is_not_known() -> None:
    with serving(likely) as server:
        model = endpoint(server)
        image = Image.new("RGB", (4, 4), "red")
        with pytest.raises(InputError, match="'Yes' is not among the 2 likeliest first tokens"):
            model.answer_logprobs([image] * 3, ["a", "rare", "b"], ASKED)
        assert len(server.requests) == 3
        # Whoever then asks one by one, as the engine does, sends nothing twice.
        assert np.exp(np.asarray(model.answer_logprobs([image], ["a"], ASKED))) == pytest.approx(
            0.75
        )
        with pytest.raises(InputError, match="not among"):
            model.answer_logprobs([image], ["rare"], ASKED)
        assert len(server.requests) == 3
        model.answer_logprobs([image], ["a"], ASKED)
        assert len(server.requests) == 4  # asked anew, it is asked


def test_no_log_probabilities() -> None:
    with serving(echo) as server, pytest.raises(EndpointError, match="score='chat'"):
        endpoint(server).answer_logprobs([Image.new("RGB", (4, 4))], ["a"], ASKED)


def test_noise_is_seeded_and_free_of_content() -> None:
    model = endpoint("http://localhost/v1")
    one, two = model.noise_images(2, 0)
    assert np.array_equal(np.asarray(one), np.asarray(model.noise_images(2, 0)[0]))
    assert not np.array_equal(np.asarray(one), np.asarray(two))
    assert not np.array_equal(np.asarray(one), np.asarray(model.noise_images(1, 1)[0]))
    pixels = np.asarray(one) / 255
    assert pixels.shape == (336, 336, 3)
    assert pixels.mean(axis=(0, 1)) == pytest.approx([0.481, 0.458, 0.408], abs=0.02)


def steady(request: Mapping[str, Any]) -> Response:
    """Words and probabilities that are a function of what is shown and asked, and of no more."""
    content = json.dumps(request["messages"]).encode()
    share = int.from_bytes(hashlib.blake2b(content, digest_size=4).digest(), "big") / 2**32
    yes = 0.1 + 0.8 * share
    tokens = [
        {"token": "Yes", "logprob": math.log(yes)},
        {"token": "No", "logprob": math.log(1 - yes)},
    ]
    whole = {"logprobs": {"content": [{**tokens[0], "top_logprobs": tokens}]}}
    return Response(said(f"{share:.6f}", **(whole if request.get("logprobs") else {})))


def test_the_conformance_suite() -> None:
    with serving(steady) as server:
        report = check_model(endpoint(server), load=lambda: endpoint(server))
    assert [(each.name, each.detail) for each in report.findings if each.outcome == "failed"] == []
    passed = {each.name for each in report.findings if each.outcome == "passed"}
    assert {"replies", "steady-replies", "replies-in-order", "templates"} <= passed


def drip(content: bytes, steps: int) -> Callable[[socket.socket], None]:
    """Send bytes in so many steps of 20 ms, so that no single wait is long."""

    def send(connection: socket.socket) -> None:
        size = -(-len(content) // steps)
        for start in range(0, len(content), size):
            connection.sendall(content[start : start + size])
            time.sleep(0.02)

    return send


@contextmanager
def raw_server(send: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that sends bytes of its own to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        connection.recv(1 << 16)
                        send(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


BODY = json.dumps(said("(1)")).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_server_that_drips(part: str) -> None:
    fast, slow = (b"", HEAD + BODY) if part == "head" else (HEAD, BODY)

    def send(connection: socket.socket) -> None:
        connection.sendall(fast)
        drip(slow, 40)(connection)

    with (
        raw_server(send) as url,
        pytest.raises(EndpointError, match=r"no answer within 0.3 seconds"),
    ):
        endpoint(url, "&timeout=0.3&retries=0").reply([prompt("q")])


def test_a_reply_without_end() -> None:
    def send(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * (1 << 20))

    with raw_server(send) as url, pytest.raises(InputError, match="longer than"):
        endpoint(url, "&retries=0").reply([prompt("q")])


@pytest.mark.parametrize("status", [b"200 OK", b"500 x"])
@pytest.mark.parametrize("size", [b"-1", b"-5"])
def test_chunks_of_less_than_nothing(status: bytes, size: bytes) -> None:
    """They would be read to their end, and here there is none."""

    def send(connection: socket.socket) -> None:
        head = b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n" % (status, size)
        connection.sendall(head)
        while True:
            connection.sendall(b" " * (1 << 20))

    words = "the connection broke" if status.startswith(b"200") else "status 500"
    with raw_server(send) as url, pytest.raises(EndpointError, match=f"failed once: {words}"):
        endpoint(url, "&retries=0&timeout=5").reply([prompt("q")])


def test_a_call_that_cannot_be_broken_off_is_the_last_of_its_thread() -> None:
    """It may outlive an interruption; calls that nobody waits for any more are not begun."""
    model, begun, release = endpoint("http://127.0.0.1:9/v1", "&parallel=1"), list[int](), Event()

    def hang(number: int) -> int:
        begun.append(number)
        if number == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            release.wait(30)
        return number

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    threads = set(threading.enumerate())
    try:
        with pytest.raises(KeyboardInterrupt):
            model._run_all([partial(hang, number) for number in range(5)])
    finally:
        signal.signal(signal.SIGINT, before)
    (late,) = set(threading.enumerate()) - threads
    assert model._run_all([lambda: 7]) == [7]
    release.set()
    late.join(10)
    assert begun == [0]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_fewer_threads_than_it_may_have(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []

    class Scarce(threading.Thread):
        def start(self) -> None:
            if len(started) == most:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr("contrapose.models.endpoint.model.Thread", Scarce)
    with serving(echo) as server:
        model = endpoint(server, "&parallel=9")
        if most:
            assert len(model.reply([prompt(str(i)) for i in range(12)])) == 12
        else:
            with pytest.raises(EndpointError, match="gives no thread"):
                model.reply([prompt("q")])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (BODY.replace(b"100", b"NaN"), "not finite"),
        (BODY.replace(b"100", b"-Infinity"), "not finite"),
        (BODY.replace(b"100", b"1e999"), "not finite"),
        (BODY.replace(b"(1)", b"\\ud800"), "surrogate"),
        (b'{"a":' * 50_000, "nested"),
    ],
)
def test_a_reply_that_cannot_be_used_is_the_fault_of_its_prompt(body: bytes, words: str) -> None:
    with serving(lambda _: Response(body)) as server:
        with pytest.raises(InputError, match=words):
            endpoint(server).reply([prompt("q")])
        assert len(server.requests) == 1  # the same would come again


def test_errors_of_a_server_that_are_nested_or_no_unicode() -> None:
    for body in (b'{"a":' * 50_000, b'{"error": "\\ud800"}', b'{"error": {"message": "\\ud800"}}'):
        with serving(then(Response(body, 400))) as server:
            with pytest.raises(EndpointError, match="status 400") as ended:
                endpoint(server).reply([prompt("q")])
            str(ended.value).encode()


def test_credentials_that_a_server_repeats_are_never_shown() -> None:
    basic = base64.b64encode(b"me:pass word").decode()
    settings = parse_settings("openai:m?url=http://me:pass%20word@127.0.0.1:9/v1?token=t0ken-9")
    words = f"{basic} pass word pass%20word t0ken-9"
    reply = EndpointClient(settings, RateLimit())._hide(words)
    assert reply == " ".join(["***"] * 4)
    with serving(lambda request: Response(said(f"your key is {KEY}"))) as server:
        (told,) = endpoint(server).reply([prompt("q")])
        assert told.text == "your key is ***"
        for status, body in ((401, {"error": f"bad key {KEY}"}), (200, f"no JSON {KEY}".encode())):
            server.answer = then(Response(body, status))
            with pytest.raises(EndpointError) as ended:
                endpoint(server, "&retries=0").reply([prompt("q")])
            assert KEY not in str(ended.value)
            assert "***" in str(ended.value)


def test_a_key_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("sk-secret\nX-Other: 1", "sk-secr€t"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(EndpointError, match="cannot be sent") as ended:
            endpoint("http://127.0.0.1:9/v1", "&retries=0").reply([prompt("q")])
        assert "secr" not in str(ended.value)


def test_a_key_in_place_of_its_variable() -> None:
    with pytest.raises(InputError, match="key_env must be the name") as ended:
        parse_settings("openai:m?key_env=sk-secret-1")
    assert "secret" not in str(ended.value)
