"""`contrapose eval openai:… --score chat` against a server on this machine."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contrapose.data import registry as benchmarks
from tests.chatting import Response, knows, likes_the_first, said, serving, shown, speaking
from tests.conftest import Cli
from tests.fakes import made, pairs, patches
from tests.report.html.checks import Balanced, explorer_data

KEY = "not-a-real-key"


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {"patches": patches(), "plain": made("plain", "pairs", "2 × 2", pairs())}
    monkeypatch.setattr(benchmarks, "_plugins", lambda: found)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def run(cli: Cli, url: str, *more: object, settings: str = "", score: str = "chat") -> Any:
    arguments = ("--on", "plain", "--score", score, "--quiet", "--json", "--resamples", 200)
    said = cli("eval", f"openai:m?url={url}{settings}", *arguments, *more)
    assert said.status == 0, said
    assert KEY not in said.out + said.err
    return json.loads(said.out)["runs"][0]


def test_right_answers_tokens_and_costs(cli: Cli, tmp_path: Path) -> None:
    with serving(speaking(knows)) as server:
        found = run(cli, server.url, "--out", tmp_path / "run", settings="&in=2.5&out=10")
        assert len(server.requests) == 48
        again = run(cli, server.url, settings="&in=2.5&out=10")
        assert len(server.requests) == 48
    assert found["metrics"] == again["metrics"]
    assert found["metrics"]["group"]["value"] == 1
    assert found["usage"] == {
        "questions": 48, "uncounted": 0, "tokens_in": 4800, "tokens_out": 144,
        "cost": pytest.approx((4800 * 2.5 + 144 * 10) / 1e6),
    }  # fmt: skip
    assert found["model"] == f"openai:m,url={server.url}"
    assert any("0.0134 at the prices given" in note for note in found["notes"])
    assert pq.read_table(tmp_path / "run" / "replies.parquet").num_rows == 48
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert KEY.encode() not in written


def test_report_shows_wrong_answers(cli: Cli, tmp_path: Path) -> None:
    with serving(speaking(likes_the_first)) as server:
        run(cli, server.url, "--out", tmp_path / "run")
    markup = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    Balanced(markup).require_self_contained()
    data = explorer_data(markup)
    assert data["thumbnails"]
    replies = [reply for row in data["rows"] for reply in row["runs"][0]["replies"]]
    assert {is_right for _, _, is_right in replies} == {True, False}
    assert {"p", "w"} & {row["runs"][0]["outcomes"][0] for row in data["rows"]}


def test_a_taste_for_a_position(cli: Cli) -> None:
    with serving(speaking(likes_the_first)) as server:
        found = run(cli, server.url)["metrics"]
    assert found["group"]["value"] == 0.5
    assert found["consistency"]["value"] == 0
    assert found["parse_rate"]["value"] == 1


def test_the_table(cli: Cli) -> None:
    with serving(speaking(knows)) as server:
        said = cli("eval", f"openai:m?url={server.url}", "--on", "patches", "--no-cache", "--all")
    assert said.status == 0, said
    rows = [line.split()[:2] for line in said.out.splitlines()]
    for row in (["pairs", "group"], ["pairs", "consistency"], ["choices", "parse_rate"]):
        assert row in rows
    assert "84 questions, 8,400 tokens in and 252 out" in said.out
    assert "chat: questions: 48 of 48" in said.err


def test_without_token_counts(cli: Cli) -> None:
    def bare(request: Mapping[str, Any]) -> Response:
        return Response({"choices": [{"message": {"content": knows(*shown(request))}}]})

    with serving(bare) as server:
        found = run(cli, server.url)
    assert found["metrics"]["group"]["value"] == 1
    assert found["usage"]["uncounted"] == 48
    assert any("48 questions (48 replies came without" in note for note in found["notes"])


def test_refusals_count_as_unreadable(cli: Cli) -> None:
    def refuses(request: Mapping[str, Any]) -> Response:
        image, text = shown(request)
        if "patch 4;" in text or "patch 4." in text:
            return Response({"choices": [{"message": {"content": None, "refusal": "No."}}]})
        return Response(said(knows(image, text)))

    with serving(refuses) as server:
        found = run(cli, server.url)["metrics"]
    assert found["parse_rate"]["value"] == pytest.approx(44 / 48)
    assert found["group"]["value"] == pytest.approx(44 / 48)
    assert found["group"]["n"] == 12


def test_an_endpoint_that_goes_down_loses_nothing(cli: Cli) -> None:
    lock = threading.Lock()
    left = [20]

    def dies(request: Mapping[str, Any]) -> Response:
        with lock:
            left[0] -= 1
            if left[0] < 0:
                return Response(b"", 500)
        return Response(said(knows(*shown(request))))

    with serving(dies) as server:
        model = f"openai:m?url={server.url}&retries=0&parallel=1"
        sentence = cli("eval", model, "--on", "plain", "--score", "chat", "--quiet").refused()
        assert "failed once: status 500" in sentence
        assert "answers so far are kept" in sentence
        server.answer = speaking(knows)
        asked = len(server.requests)
        assert run(cli, server.url)["metrics"]["group"]["value"] == 1
        assert len(server.requests) - asked == 28


def test_down_slow_and_garbage_are_one_sentence(cli: Cli, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody else can have this port, and nobody listens to it

        def refused(url: str, seconds: float = 60) -> str:
            arguments = ("--on", "plain", "--score", "chat", "--quiet", "--out", tmp_path / "run")
            model = f"openai:m?url={url}&retries=0&timeout={seconds}"
            return cli("eval", model, *arguments).refused()

        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        assert "cannot be reached (connection refused)" in refused(url)
    release = threading.Event()

    def late(request: Mapping[str, Any]) -> Response:
        release.wait(10)
        return Response(b"")

    with serving(late) as server:
        assert "no answer within 0.05 seconds" in refused(server.url, 0.05)
        release.set()
        server.answer = lambda request: Response(b"<html>Welcome")
        assert "is not JSON: <html>Welcome" in refused(server.url)
        server.answer = lambda request: Response({"error": {"message": "Bad key"}}, 401)
        sentence = refused(server.url)
        assert "the key in OPENAI_API_KEY" in sentence
        assert KEY not in sentence
    assert not (tmp_path / "run").exists()


def test_vqa_from_log_probabilities(cli: Cli) -> None:
    def likely(request: Mapping[str, Any]) -> Response:
        image, text = shown(request)
        if "patch 20" in text:
            top = {"No": 0.99}
        else:
            caption = text.split('"')[1]
            yes = 0.9 if knows(image, f"(1) {caption}\n(2) patch 99") else 0
            top = {"Yes": yes, "No": 1 - yes}
        tokens = [{"token": token, "logprob": math.log(p)} for token, p in top.items()]
        return Response(said("Yes", logprobs={"content": [{**tokens[0], "top_logprobs": tokens}]}))

    def wise(request: Mapping[str, Any]) -> Response:
        try:
            return likely(request)
        except StopIteration:  # the caption is of no such patch
            tokens = [{"token": "No", "logprob": -0.1}, {"token": "yes", "logprob": -2.3}]
            return Response(said("No", logprobs={"content": [{"top_logprobs": tokens}]}))

    with serving(wise) as server:
        found = run(cli, server.url, score="vqa")
        assert len(server.requests) == 48  # those skipped are not asked twice
    assert found["metrics"]["group"]["value"] == 1
    assert found["metrics"]["group"]["n"] == 11
    assert found["skipped"]["examples"] == 1
    assert "'Yes' is not among the 1 likeliest" in found["skipped"]["first"]


def test_list(cli: Cli) -> None:
    assert "openai:MODEL,url=URL" in cli("list", "models").out
    assert "chat:sugarcrepe" in cli("list", "scores").out
