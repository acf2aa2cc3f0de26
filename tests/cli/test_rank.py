"""`contrapose rank` on real score files and run folders."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import contrapose as cp
from contrapose.results.rankings import Ranking
from tests.conftest import Cli


@pytest.fixture
def winoground(shared: Path) -> list[Path]:
    return [shared / f"winoground_scores/{name}.jsonl" for name in ("clip", "vilt", "human")]


def test_score_files(cli: Cli, winoground: list[Path]) -> None:
    said = cli("rank", *winoground, "--resamples", 200)
    assert said.status == 0, said
    assert "human leads with 85.50 and differs significantly from every other" in said.out
    assert "1 of 3 differences is noise: vilt and clip" in said.out
    found = json.loads(cli("rank", *winoground, "--metric", "text", "--json").out)
    (ranking,) = found["rankings"]
    assert [(m["name"], m["tier"], m["value"]) for m in ranking["models"]] == [
        ("human", 1, 0.895), ("vilt", 2, 0.3475), ("clip", 2, 0.3075),
    ]  # fmt: skip
    assert ranking["groups"] == [["human"], ["vilt", "clip"]]
    alone = json.loads(
        cli("compare", winoground[1], winoground[0], "--metric", "text", "--json").out
    )
    (pair,) = (pair for pair in ranking["pairs"] if pair["a"] == "vilt")
    assert pair["change"]["p"] == alone["metrics"]["text"]["p"]


def test_run_folders_and_output(cli: Cli, winoground: list[Path], tmp_path: Path) -> None:
    runs = [tmp_path / path.stem for path in winoground]
    for path, run in zip(winoground, runs, strict=True):
        cp.measure(path, "winoground", out=run, resamples=100)
    out = tmp_path / "ranked"
    said = cli("rank", *runs, "--resamples", 200, "--out", out, "--json")
    assert said.status == 0, said
    assert sorted(file.name for file in out.iterdir()) == [
        "ranking.html", "ranking.json", "ranking.svg",
    ]  # fmt: skip
    assert json.loads((out / "ranking.json").read_text()) == json.loads(said.out)
    files = json.loads(cli("rank", *winoground, "--resamples", 200, "--json").out)
    assert files["rankings"] == json.loads(said.out)["rankings"]
    drawing = ElementTree.fromstring((out / "ranking.svg").read_text())  # noqa: S314 - our own
    assert drawing.tag.endswith("svg")
    assert "prefers-color-scheme: dark" in (out / "ranking.svg").read_text()
    assert "<svg" in (out / "ranking.html").read_text()
    assert "is not empty" in cli("rank", *runs, "--out", out).refused()
    assert cli("rank", *runs, "--resamples", 200, "--out", out, "--overwrite").status == 0
    assert "not a ranking" in cli("rank", *runs, "--out", runs[0], "--overwrite").refused()


def test_valse(cli: Cli, shared: Path) -> None:
    files = [shared / f"valse/scores/{name}.jsonl" for name in ("x-vlm_4m", "clipcap_coco")]
    found = json.loads(
        cli("rank", *files, "--on", "valse", "--common", "--resamples", 200, "--json").out
    )
    (ranking,) = found["rankings"]
    assert [model["tier"] for model in ranking["models"]] == [1, 2]
    assert ranking["models"][0]["name"] == "x-vlm_4m"


def test_names_and_refusals(cli: Cli, winoground: list[Path], tmp_path: Path) -> None:
    clip, vilt, _ = winoground
    said = cli("rank", f"first={clip}", f"second={clip}", "--resamples", 100, "--json")
    models = json.loads(said.out)["rankings"][0]["models"]
    assert {(model["name"], model["tier"]) for model in models} == {("first", 1), ("second", 1)}
    assert "at least two" in cli("rank", clip).refused()
    assert "does not exist" in cli("rank", clip, tmp_path / "nothing").refused()
    assert "--level" in cli("rank", clip, vilt, "--level", 2).refused()
    half = tmp_path / "half.jsonl"
    half.write_text("".join(clip.read_text().splitlines(keepends=True)[:400]))
    assert cli("rank", half, vilt).refused()
    said = cli("rank", half, vilt, "--common", "--resamples", 100)
    assert said.status == 0, said
    assert "100 examples that all models have" in said.out


def test_a_folder_of_several_runs(tmp_path: Path) -> None:
    runs = cp.evaluate(
        ["tiny", "tiny-clip"], on="scenes/replace-color", score="itc", limit=12, resamples=100,
        cache=False, out=tmp_path / "two",
    )  # fmt: skip
    ranking = cp.rank(tmp_path / "two", resamples=100)
    assert ranking == cp.rank(runs, resamples=100)
    assert {model.name for model in ranking.rankings[0].models} == {"tiny", "tiny-clip"}


def test_markup_in_names_is_escaped(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    name = "<script>alert(1)</script>" + "x" * 60
    runs = {
        label: cp.measure(random.normal(size=(400, 2, 2)), "winoground", resamples=100)
        for label in (name, "other")
    }
    ranking = cp.rank(runs, resamples=100, out=tmp_path / "out")
    assert isinstance(ranking, Ranking)
    shown = ranking._repr_html_()
    assert shown is not None
    for text in (
        shown,
        *((tmp_path / "out" / f"ranking.{x}").read_text() for x in ("html", "svg")),
    ):
        assert "<script>alert" not in text
        assert "&lt;script" in text
