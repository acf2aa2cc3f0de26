"""`contrapose eval vllm:…` and `sglang:…` against servers on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import registry as benchmarks
from tests.conftest import Cli
from tests.fakes import made, pairs
from tests.models.endpoint.servers import Answer, Serving, served
from tests.models.hf.vlm.small_vlm import llava, opened

KEY = "not-a-real-key"


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plugins = {"plain": made("plain", "pairs", "2 × 2", pairs()[:3])}
    monkeypatch.setattr(benchmarks, "_plugins", lambda: plugins)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-home"))
    monkeypatch.setenv("VLLM_API_KEY", KEY)


def measure(cli: Cli, model: str, *more: object) -> Any:
    result = cli("eval", model, "--on", "plain", "--quiet", "--json", "--resamples", 200, *more)
    assert result.status == 0, result
    assert KEY not in result.out + result.err
    return json.loads(result.out)["runs"]


def test_a_killed_run_goes_on_and_equals_the_model_on_this_machine(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    llava(folder)
    with served(Serving(opened(folder), str(folder))) as server:
        name = f"vllm:small,url={server.url},parallel=1"
        scored = 0

        def dies(path: str, request: Mapping[str, Any]) -> Answer | None:
            nonlocal scored
            scored += "prompt_logprobs" in request
            return (401, {"error": {"message": f"what is {KEY}?"}}, {}) if scored > 5 else None

        server.fault = dies
        sentence = cli("eval", name, "--on", "plain", "--score", "lm", "--quiet").refused()
        assert "refuses access" in sentence
        assert "the key in VLLM_API_KEY" in sentence
        assert KEY not in sentence
        assert {item["Authorization"] for item in server.headers} == {f"Bearer {KEY}"}
        server.fault = lambda path, request: None
        server.requests.clear()
        (remote,) = measure(cli, name, "--score", "lm")
        asked = [request for _, request in server.requests if "prompt_logprobs" in request]
        assert len(asked) == 12 - 5  # all answers that arrived are in the store
        (local,) = measure(cli, str(folder), "--score", "lm")
    for metric, summary in local["metrics"].items():
        assert remote["metrics"][metric]["value"] == pytest.approx(summary["value"], abs=1e-5)
    assert remote["model"] == f"vllm:small,url={server.url}"


def test_no_such_model_and_no_server_are_one_sentence(cli: Cli, tmp_path: Path) -> None:
    with served(Serving(None, str(tmp_path))) as server:
        sentence = cli("eval", f"vllm:other,url={server.url}", "--on", "plain").refused()
    assert "serves no model 'other': it serves small" in sentence
    down = f"sglang:small,url={server.url},retries=0"
    assert "cannot be reached" in cli("eval", down, "--on", "plain").refused()


def test_listed() -> None:
    from contrapose.models import families

    patterns = " ".join(card.pattern for card in families())
    for pattern in ("vllm:MODEL,url=URL", "sglang:MODEL,url=URL", "st:ORG/NAME"):
        assert pattern in patterns
