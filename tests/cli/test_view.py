"""`contrapose view`: the address, the examples of all folders, the end, and what it refuses."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.report.explorer.server import ExplorerServer
from contrapose.results import write_run
from tests.conftest import Cli
from tests.report.html.test_failure_cards import CASES, SCORES, make_run


def test_runs_side_by_side(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, score in (("a", "itc"), ("b", "lm")):
        write_run(make_run(CASES, SCORES, score), tmp_path / name)
    counts: list[int] = []

    def wait(server: ExplorerServer) -> None:
        address = f"{server.url}api/examples?a=1&b=0&outcome=right-right"
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
            counts.append(json.load(answer)["count"])
        raise KeyboardInterrupt

    monkeypatch.setattr(ExplorerServer, "wait", wait)
    said = cli("view", tmp_path / "a", tmp_path / "b")
    assert said.status == 0, said
    assert said.out.startswith("http://127.0.0.1:")
    assert "Ctrl-C" in said.err
    assert counts == [1]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(said.out.strip(), timeout=60)  # noqa: S310


def test_refusals(cli: Cli, tmp_path: Path) -> None:
    assert "does not exist" in cli("view", tmp_path / "none", "-q").refused()
    write_run(make_run(CASES, SCORES), tmp_path / "a")
    assert "--port" in cli("view", tmp_path / "a", "--port", "70000", "-q").refused()


def test_runs_in_memory(tmp_path: Path) -> None:
    write_run(make_run(CASES, SCORES), tmp_path / "a")
    with cp.view(cp.load_run(tmp_path / "a"), tmp_path / "a") as server:
        assert server.is_local
