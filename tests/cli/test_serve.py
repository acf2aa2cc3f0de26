"""`contrapose serve`: the address, the warning, the end, and what it refuses."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.search.server import SearchServer
from tests.conftest import Cli

QUICK = ("--device", "cpu", "--port", "0")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    cp.build_scenes(out=folder, part="replace-color", examples=4, overwrite=True)
    cp.index(folder, model="tiny-clip", device="cpu")
    return folder


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Answers of servers to one request; the user then presses Ctrl-C."""
    seen: list[object] = []

    def wait(server: SearchServer) -> None:
        port = server.url.rstrip("/").rpartition(":")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/index", timeout=60) as answer:
            seen.append(json.load(answer))
        raise KeyboardInterrupt

    monkeypatch.setattr(SearchServer, "wait", wait)
    return seen


def test_the_address_is_printed(cli: Cli, scenes: Path, answers: list[object]) -> None:
    said = cli("serve", scenes, *QUICK)
    assert said.status == 0, said
    assert said.out.startswith("http://127.0.0.1:")
    assert "Ctrl-C" in said.err
    assert "Warning" not in said.err
    (about,) = answers
    assert isinstance(about, dict)
    assert (about["images"], about["model"]) == (4, "tiny-clip")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(said.out.strip(), timeout=60)  # noqa: S310


def test_another_host_is_warned_of(cli: Cli, scenes: Path, answers: list[object]) -> None:
    said = cli("serve", scenes, *QUICK, "--host", "0.0.0.0", "--quiet")  # noqa: S104
    assert said.status == 0, said
    assert "--host 0.0.0.0" in said.err
    assert len(answers) == 1


def test_what_cannot_be_served(cli: Cli, scenes: Path, tmp_path: Path) -> None:
    assert "index" in cli("serve", tmp_path, *QUICK).refused()
    assert "--port" in cli("serve", scenes, *QUICK, "--port", "70000").refused()
    assert "--host" in cli("serve", scenes, *QUICK, "--host", "no.such.host.invalid").refused()
