"""`eval --out`, `metrics --out` and `demo` write the same report, with what each run has."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.cli import demo
from contrapose.data import registry as benchmarks
from contrapose.models import registry as models
from tests.conftest import Cli
from tests.fakes import Entry, Fake, patches
from tests.report.html.checks import Balanced, explorer_data, finite

SHAPES = Path(__file__).resolve().parents[2] / "examples" / "shapes"
SECTIONS = ("In short", "By part", "Equivariance", "Examples")


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(benchmarks, "_plugins", lambda: {"patches": patches()})
    fake = Entry("fake", "tests:fake", lambda name, device: Fake())
    monkeypatch.setattr(models, "_find_plugins", lambda: {"fake": fake})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-home"))


def read_page(path: Path) -> Balanced:
    markup = path.read_text(encoding="utf-8")
    page = Balanced(markup)
    page.require_self_contained()
    assert finite(markup)
    return page


def test_eval_and_demo_have_the_same_sections(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "MODELS", ("fake",))
    monkeypatch.setattr(demo, "BENCHMARK", "patches")
    assert cli("demo", "--out", tmp_path / "demo", "-q").status == 0
    arguments = ("eval", "fake", "--on", "patches", "--prior", "noise:3", "-q")
    assert cli(*arguments, "--out", tmp_path / "run").status == 0
    pages = [read_page(tmp_path / name / "report.html") for name in ("demo", "run")]
    for page in pages:
        assert {*SECTIONS, "The language prior"} <= set(page.text)
        assert {"pairs · text side", "pairs · image side"} <= set(page.text)
    tables = [
        page.text[page.text.index("In short") : page.text.index("How it was made")]
        for page in pages
    ]
    assert tables[0] == tables[1]
    data = [
        explorer_data((tmp_path / name / "report.html").read_text(encoding="utf-8"))
        for name in ("demo", "run")
    ]
    assert data[0]["rows"] == data[1]["rows"]
    assert data[0]["thumbnails"] == data[1]["thumbnails"] != []
    words = " ".join(pages[1].text)
    assert "contrapose eval fake --on patches" in words
    assert {"command", "date", "versions", "hardware", "skipped"} <= set(pages[1].text)


def test_metrics_without_images_has_text_cards(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "shapes"
    shutil.copytree(SHAPES, folder)
    for image in folder.rglob("*.png"):
        image.unlink()
    arguments = ("metrics", folder / "examples.jsonl", "--scores", folder / "bag-of-words.csv")
    assert cli(*arguments, "--out", tmp_path / "run").status == 0
    page = read_page(tmp_path / "run" / "report.html")
    assert {"In short", "Examples"} <= set(page.text)
    data = explorer_data((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert data["thumbnails"] == []
    assert len(data["rows"]) == data["total"] > 0
    assert all(row["captions"] for row in data["rows"])


def test_metrics_with_images_shows_them(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    Image.new("RGB", (40, 30), "red").save(folder / "a.png")
    row = '{"id": "7", "images": ["a.png"], "texts": ["a <b>dog</b>", "a cat"], "match": [[1, 0]]}'
    (folder / "own.jsonl").write_text(row + "\n")
    (folder / "scores.csv").write_text("example,image,text,score\n7,0,0,0.1\n7,0,1,0.4\n")
    arguments = ("metrics", folder / "own.jsonl", "--scores", folder / "scores.csv")
    said = cli(*arguments, "--out", tmp_path / "run")
    assert said.status == 0, said
    page = read_page(tmp_path / "run" / "report.html")
    data = explorer_data((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert data["rows"][0]["captions"] == ["a <b>dog</b>", "a cat"]
    assert len(data["thumbnails"]) == 1
    assert "Equivariance" not in page.text


def test_metrics_from_scores_alone(cli: Cli, tmp_path: Path) -> None:
    """Without the benchmark's files examples are known by their ids and positions."""
    rng = np.random.default_rng(0)
    keys = ("c0_i0", "c0_i1", "c1_i0", "c1_i1")
    lines = [
        f'{{"label": "{i}_{key}", "score": {rng.normal():.4f}}}' for i in range(20) for key in keys
    ]
    (tmp_path / "wino.jsonl").write_text("\n".join(lines) + "\n")
    said = cli(
        "metrics", "winoground", "--scores", tmp_path / "wino.jsonl",
        "--partial", "--out", tmp_path / "run",
    )  # fmt: skip
    assert said.status == 0, said
    page = read_page(tmp_path / "run" / "report.html")
    assert {"Equivariance", "Examples", "all · image side"} <= set(page.text)
    data = explorer_data((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert len(data["rows"]) == 20
    assert np.shape(data["rows"][0]["runs"][0]["scores"]) == (2, 2)


def test_skipped_examples_are_listed(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    Image.new("RGB", (40, 30), "red").save(folder / "a.png")
    rows = [
        f'{{"id": "{name}", "images": ["{name}.png"], "texts": ["a dog", "a cat"], '
        '"match": [[1, 0]]}'
        for name in ("a", "gone")
    ]
    (folder / "own.jsonl").write_text("\n".join(rows) + "\n")
    arguments = ("eval", "fake", "--on", folder / "own.jsonl", "--score", "itc", "-q")
    said = cli(*arguments, "--out", tmp_path / "run")
    assert said.status == 0, said
    page = read_page(tmp_path / "run" / "report.html")
    assert "Skipped examples" in page.text
    assert any(text.startswith("gone: ") for text in page.text)
