"""`contrapose build edits` and `build review` on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.chatting import Response, serving
from tests.conftest import Cli


def png(text: str) -> bytes:
    """Image whose pixels are the letters of a text."""
    stream = io.BytesIO()
    Image.frombytes("RGB", (16, 16), text.encode().ljust(768)[:768]).save(stream, "PNG")
    return stream.getvalue()


def test_from_captions_to_a_reviewed_benchmark(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "edits"
    options = ("--pairs", 6, "--size", 32, "--filter", "tiny-clip", "--margin", -1, "--quiet")
    plan = cli("build", "edits", "scenes", "--out", out, *options, "--dry-run")
    assert plan.status == 0, plan
    assert "6 pairs" in plan.out
    assert not out.exists()
    built = cli("build", "edits", "scenes", "--out", out, *options)
    assert built.status == 0, built
    assert "own caption preferred: 6" in built.out
    assert f"--on eqben --root {out}" in built.out
    again = cli("build", "edits", "scenes", "--out", out, *options)
    assert again.status == 2
    assert "--overwrite" in again.err
    page = cli("build", "review", out, "--quiet", "--json")
    assert page.status == 0, page
    result = json.loads(page.out)
    assert Path(result["page"]) == tmp_path / "edits-review.html"
    decisions = tmp_path / "decisions.json"
    ids = [row["id"] for row in json.loads((out / "eqbensd.json").read_text())]
    content = {
        "format": "contrapose-decisions", "version": 1, "build": result["build"],
        "decisions": {ids[0]: "drop", ids[1]: "keep"},
    }  # fmt: skip
    decisions.write_text(json.dumps(content))
    left = tmp_path / "left"
    applied = cli("build", "review", out, "--decisions", decisions, "--out", left, "--quiet")
    assert applied.status == 0, applied
    assert "kept in review: 5" in applied.out
    assert cli("check", "data", "eqben", "--root", left).status == 0
    run = cli(
        "eval",
        "tiny-clip",
        "--on",
        "eqben",
        "--root",
        left,
        "--resamples",
        100,
        "--quiet",
        "--json",
    )
    assert run.status == 0, run
    other = cli("build", "review", left, "--decisions", decisions, "--out", tmp_path / "x")
    assert other.status == 2
    assert "another build" in other.err
    assert not (tmp_path / "x").exists()


def test_a_server_draws_the_pairs(cli: Cli, tmp_path: Path) -> None:
    def draw(request: Mapping[str, Any]) -> Response:
        return Response(png(request["prompt"]), headers={"Content-Type": "image/png"})

    with serving(draw) as server:
        name = f"{server.url}/draw#retries=0"
        said = cli("build", "edits", name, "--out", tmp_path / "out", "--pairs", 3, "--json", "-q")
        assert said.status == 0, said
        assert {len(server.requests), len({one["seed"] for one in server.requests})} == {6, 3}
    manifest = json.loads(said.out)
    assert manifest["written"]["pairs"] == 3
    assert manifest["parameters"]["generator"] == f"{server.url}/draw"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("edits", "dalle"), "diffusers"),
        (("edits", "http://127.0.0.1:9/x#retries=0"), "reached"),
        (("edits", "scenes", "--kinds", "scene"), "scene"),
        (("edits", "scenes", "--margin", "0.1"), "--filter"),
        (("edits", "scenes", "--lists", "eqben"), "in a row"),
        (("review", "."), "no set"),
    ],
)
def test_one_sentence_for_what_is_wrong(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    said = cli("build", *arguments, "--out", tmp_path / "out", "--quiet")
    assert said.status == 2, said
    assert word in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()
