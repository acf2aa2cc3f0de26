"""Served models give the numbers of the same model on this machine, whatever the server does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.models import Answerer, Captioner, Chat, Prompt, QuestionTemplate, check_model
from contrapose.models.capabilities import PromptedCaptioner, TokenCounter
from contrapose.models.endpoint import EndpointError
from contrapose.models.endpoint.rate_limit import RateLimit
from contrapose.models.endpoint.served import ServedModel, load_served
from contrapose.models.endpoint.settings import parse_settings
from tests.models.endpoint.servers import Answer, Serving, served
from tests.models.hf.vlm.small_vlm import CAPTIONS, CHATML, llava, opened, picture, qwen

KINDS = ("vllm", "sglang")
WORD = QuestionTemplate('Is "{}" on it?', "dog")
"""Asks for an answer of one token; Yes has three here."""
YES = QuestionTemplate()


@pytest.fixture(scope="module", params=["llava", "qwen"])
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    llava(folder, template=CHATML) if request.param == "llava" else qwen(folder)
    return folder, opened(folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A LLaVA whose template has no mark after a reply, and a space before it."""
    folder = tmp_path_factory.mktemp("vicuna")
    llava(folder)
    return folder, opened(folder)


@pytest.fixture
def server(small: tuple[Path, Any]) -> Iterator[Serving]:
    with served(Serving(small[1], str(small[0]))) as one:
        yield one


def load(server: Serving, kind: str, settings: str = "", waits: list[float] | None = None) -> Any:
    slept = waits if waits is not None else []
    pace = RateLimit(0, lambda: sum(slept), slept.append, lambda: 1.0)
    settings = f"{kind}:small,url={server.url},retries=3{settings}"
    return load_served(parse_settings(settings), pace)


def pairs() -> tuple[list[Any], list[str]]:
    one, two = picture(40, 32, 1), picture(32, 48, 2)
    return [one, one, two, two], [*CAPTIONS[:3], CAPTIONS[0]]


def close(values: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(values), np.asarray(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_its_numbers_are_those_of_the_model_on_this_machine(
    kind: str, local: tuple[Path, Any]
) -> None:
    folder, model = local
    images, texts = pairs()
    with served(Serving(model, str(folder))) as server:
        remote = load(server, kind)
        assert isinstance(remote, Captioner)
        assert isinstance(remote, Answerer)
        assert isinstance(remote, Chat)
        assert isinstance(remote, TokenCounter)
        assert isinstance(remote, PromptedCaptioner)
        assert remote.lm_tokens == model.lm_tokens
        assert remote.token_counts(texts) == model.token_counts(texts)
        expected = model.token_logprobs(images, texts)
        values = remote.token_logprobs(images, texts)
        assert list(values.offsets) == list(expected.offsets)
        close(values.values, expected.values)
        for question in (WORD, YES):
            answers = remote.answer_logprobs(images, texts, question)
            close(answers, model.answer_logprobs(images, texts, question))
        other = remote.with_prompt("Say it.")
        same = model.with_prompt("Say it.")
        assert other.lm_tokens == same.lm_tokens != remote.lm_tokens
        close(other.token_logprobs(images, texts).values, same.token_logprobs(images, texts).values)
    if kind == "sglang":  # the tokens of an image are counted once, by a request of their own
        counts = [request for path, request in server.requests if "return_logprob" not in request]
        assert len([request for request in counts if request.get("image_data")]) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_without_marks(kind: str, server: Serving) -> None:
    images, texts = pairs()
    remote = load(server, kind)
    close(
        remote.token_logprobs(images, texts).values,
        server.model.token_logprobs(images, texts).values,
    )
    close(
        remote.answer_logprobs(images, texts, YES), server.model.answer_logprobs(images, texts, YES)
    )
    assert remote.reply([Prompt((images[0],), "?")])[0].text == "x"


def test_cached_positions_are_asked_for_again_without_the_cache(server: Serving) -> None:
    images, texts = pairs()
    expected = server.model.token_logprobs(images, texts).values
    remote = load(server, "vllm")
    server.cached = 30  # those of the image: none of a caption
    close(remote.token_logprobs(images, texts).values, expected)
    assert not [request for _, request in server.requests if "cache_salt" in request]
    server.cached = 70  # the whole prompt of short captions, a part of the long one
    close(remote.token_logprobs(images, texts).values, expected)
    salts = [request["cache_salt"] for _, request in server.requests if "cache_salt" in request]
    assert len(salts) == len(set(salts)) > 0


def test_an_older_vllm_without_listed_tokens(server: Serving) -> None:
    images, texts = pairs()
    remote = load(server, "vllm")
    server.lists = False
    close(
        remote.answer_logprobs(images, texts, WORD),
        server.model.answer_logprobs(images, texts, WORD),
    )


def test_one_request_for_an_answer_of_one_token_with_the_prefix_cache(server: Serving) -> None:
    images, texts = pairs()
    remote = load(server, "vllm")
    server.requests.clear()
    remote.answer_logprobs(images, texts, WORD)
    assert len(server.requests) == len(texts)
    for _, request in server.requests:
        assert len(request["logprob_token_ids"]) == 1
        assert "prompt_logprobs" not in request  # vLLM would not read its prefix cache


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_caption_is_skipped_and_the_others_are_not_sent_again(
    kind: str, server: Serving
) -> None:
    images, texts = pairs()
    remote = load(server, kind)
    expected = server.model.token_logprobs(images, texts)

    def refuse(path: str, request: Mapping[str, Any]) -> Answer | None:
        refused = CAPTIONS[2] in str(request)
        return (400, {"error": {"message": "too long for me"}}, {}) if refused else None

    server.fault = refuse
    with pytest.raises(InputError, match="too long for me"):
        remote.token_logprobs(images, texts)
    sent = len(server.requests)
    for i, (image, text) in enumerate(zip(images, texts, strict=True)):
        if text == CAPTIONS[2]:
            with pytest.raises(InputError, match="too long for me"):
                remote.token_logprobs([image], [text])
        else:
            close(remote.token_logprobs([image], [text]).values, expected[i])
    assert len(server.requests) == sent


def test_several_requests_are_in_flight(server: Serving) -> None:
    remote = load(server, "vllm", ",parallel=3")
    meeting = threading.Barrier(3)

    def wait(path: str, request: Mapping[str, Any]) -> Answer | None:
        meeting.wait(timeout=20)  # broken unless three requests are there at once
        return None

    server.fault = wait
    image = picture(32, 32)
    texts = ["a red cube", "two dogs", "a cat"] * 2
    assert len(remote.token_logprobs([image] * 6, texts)) == 6


def test_a_prompt_that_begins_otherwise_is_noted(server: Serving) -> None:
    assert len(load(server, "vllm").card.notes) == 2
    answer = server.answer

    def ignores(path: str, request: Mapping[str, Any]) -> Answer | None:
        return answer(path, {**request, "add_special_tokens": False}) if request else None

    server.fault = ignores
    assert "begins with other tokens" in load(server, "vllm").card.notes[2]


class Faults:
    """Answers with one fault after the other, then lets the server answer."""

    def __init__(self, *faults: Answer):
        self.faults = list(faults)

    def __call__(self, path: str, request: Mapping[str, Any]) -> Answer | None:
        scoring = path in ("/v1/chat/completions", "/generate")
        return self.faults.pop(0) if scoring and self.faults else None


@pytest.mark.parametrize("kind", KINDS)
def test_failures_are_tried_again(kind: str, server: Serving) -> None:
    images, texts = pairs()
    waits: list[float] = []
    remote = load(server, kind, ",parallel=1", waits)
    busy = (429, {"error": {"message": "slow down"}}, {"Retry-After": "7"})
    first: list[Answer] = [busy, (500, b"oops", {}), (0, b"", {})]
    for i, faults in enumerate((first, list[Answer]([(200, b"<html>", {})]))):
        server.fault = Faults(*faults)
        values = remote.token_logprobs(images[i : i + 1], texts[i : i + 1])
        expected = server.model.token_logprobs(images[i : i + 1], texts[i : i + 1])
        close(values.values, expected.values)
    # After the first the requests follow each other more slowly, by a twentieth of a second.
    assert [round(seconds, 1) for seconds in waits if seconds > 0.1] == [7, 0.5, 1, 0.5]


ABORTED = {
    "choices": [{"message": {"content": ""}, "finish_reason": "abort"}],
    "meta_info": {"prompt_tokens": 0, "finish_reason": {"type": "abort", "message": "paused"}},
}
"""Response to a request that the server broke off, of both servers."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        ((401, {"error": {"message": "no"}}, {}), EndpointError, "refuses access"),
        ((404, {"error": {"message": "gone"}}, {}), EndpointError, "knows no model 'small'"),
        ((500, b"oops", {}), EndpointError, "failed 4 times in a row: status 500"),
        ((0, b"", {}), EndpointError, "failed 4 times in a row: the connection broke"),
        ((200, {"object": "error"}, {}), EndpointError, "what came back is no reply"),
        ((200, [1], {}), EndpointError, "what came back is no reply"),
        ((200, ABORTED, {}), EndpointError, "4 times in a row: the server broke off the request"),
        ((422, {"detail": "unprocessable"}, {}), InputError, "unprocessable"),
        ((200, b'{"x": NaN}', {}), InputError, "not finite"),
    ],
)
def test_failures_that_stay(
    kind: str, answer: Answer, error: type[Exception], match: str, server: Serving
) -> None:
    remote = load(server, kind)
    server.fault = lambda path, request: answer
    with pytest.raises(error, match=match):
        remote.token_logprobs(*pairs())


EMPTY = {"choices": [{"message": {"content": "x"}}], "meta_info": {"prompt_tokens": 99}}


def positions(entry: Any) -> dict[str, Any]:
    """A response of both servers whose every position holds this value."""
    return {
        **EMPTY,
        "prompt_logprobs": [None, *[entry] * 200],
        "meta_info": {"prompt_tokens": 99, "input_token_logprobs": [entry] * 200},
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("body", "error", "match"),
    [
        (EMPTY, EndpointError, "gives no log-probabilities of prompts: is it a server of"),
        (positions({"1": {"logprob": -1}}), InputError, "other tokens than the tokenizer here"),
        (positions([-1.0, 1, None]), InputError, "other tokens than the tokenizer here"),
        (positions("x"), InputError, "other tokens than the tokenizer here"),
        (positions(None), InputError, "no log-probabilities of some|other tokens"),
    ],
)
def test_responses_without_the_numbers(
    kind: str, body: dict[str, Any], error: type[Exception], match: str, server: Serving
) -> None:
    remote = load(server, kind)
    server.fault = lambda path, request: (200, body, {})
    with pytest.raises(error, match=match):
        remote.token_logprobs(*pairs())


@pytest.mark.parametrize("value", [1.5, "high", None, True])
def test_values_that_are_no_log_probabilities(value: Any, server: Serving) -> None:
    images, texts = pairs()
    remote = load(server, "vllm")
    row = {"token": f"token_id:{remote.prompts.answer_tokens('a', WORD)[0]}", "logprob": value}
    choice = {"message": {"content": "x"}, "logprobs": {"content": [{**row, "top_logprobs": []}]}}
    server.fault = lambda path, request: (200, {"choices": [choice]}, {})
    with pytest.raises(InputError, match="cannot be used"):
        remote.answer_logprobs(images, texts, WORD)


@pytest.mark.parametrize("kind", KINDS)
def test_captions_that_the_model_refuses(kind: str, server: Serving) -> None:
    images, _ = pairs()
    remote = load(server, kind)
    server.requests.clear()
    for text, match in ((" ", "empty"), ("a dog " * 200, "tokens"), ("a </s>", "a mark of")):
        for score in (remote.token_logprobs, lambda *pair: remote.answer_logprobs(*pair, WORD)):
            with pytest.raises(InputError, match=match):
                score(images[:1], [text])
    assert not server.requests
    cut = load(server, kind, ",long=cut")
    assert cut.cuts
    assert len(cut.token_logprobs(images[:1], ["a dog " * 200])[0]) == cut.context


def test_a_passing_fault_makes_no_other_model(server: Serving) -> None:
    remote = load(server, "sglang")
    faults: list[tuple[int, Any, dict[str, str]]] = [(500, {}, {}), (503, {}, {})]
    server.fault = lambda path, _: faults.pop() if path == "/model_info" and faults else None
    assert load(server, "sglang").fingerprint == remote.fingerprint
    assert not faults
    server.fault = lambda path, _: (500, {}, {}) if path == "/model_info" else None
    with pytest.raises(EndpointError, match="failed 4 times in a row: status 500"):
        load(server, "sglang")
    server.fault = lambda path, _: (404, {}, {}) if path == "/model_info" else None
    assert load(server, "sglang").fingerprint != remote.fingerprint  # too old to state a version


def test_the_server_is_asked_what_it_serves(server: Serving, small: tuple[Path, Any]) -> None:
    remote = load(server, "vllm")
    assert Counter(path for path, _ in server.requests) == {
        "/v1/models": 1,
        "/v1/chat/completions": 1,
    }
    assert remote.name == f"vllm:small,url={server.url}"
    assert remote.card.context == remote.context < 256
    assert str(small[0]) in remote.card.notes[0]
    assert load(server, "vllm").fingerprint == remote.fingerprint
    others = [
        load(server, "sglang").fingerprint,
        load(server, "vllm", ",revision=2").fingerprint,
        load(server, "vllm", ",long=cut").fingerprint,
    ]
    server.folder = "org/other"
    others.append(load(server, "vllm", f",tokenizer={small[0]}").fingerprint)
    assert len({remote.fingerprint, *others}) == 5
    for folder in ("/no/such/folder", "x" * 300, "a\0b"):
        server.folder = folder
        with pytest.raises(InputError, match="tokenizer="):
            load(server, "vllm")
    server.fault = lambda path, _: (200, {"data": [{"id": "large"}]}, {})
    with pytest.raises(EndpointError, match="serves no model 'small': it serves large"):
        load(server, "vllm")
    many = {"data": [{"id": f"{i:04}{'x' * 500}"} for i in range(3000)]}
    server.fault = lambda path, _: (200, many, {})
    with pytest.raises(EndpointError, match=r"it serves 0000x+, .* and 2,980 more") as stopped:
        load(server, "vllm")
    assert len(stopped.value.message) < 1200
    server.fault = lambda path, _: (401, {}, {})
    with pytest.raises(EndpointError, match="there is no key in SGLANG_API_KEY"):
        load(server, "sglang")


def test_another_template_here_than_there(server: Serving, tmp_path: Path) -> None:
    llava(tmp_path, template=CHATML)
    with pytest.raises(InputError, match="other tokens than the tokenizer here"):
        load(server, "vllm", f",tokenizer={tmp_path}")
    # SGLang gets the text in this template, so that there is nothing to compare.
    assert isinstance(load(server, "sglang", f",tokenizer={tmp_path}"), ServedModel)


def test_it_conforms(server: Serving) -> None:
    report = check_model(load(server, "vllm"), load=lambda: load(server, "vllm"))
    assert not report.failed, report.failed
