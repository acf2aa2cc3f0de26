"""`contrapose index` and `contrapose search`: tables, sheets, JSON, and what they refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

import contrapose as cp
from contrapose.models.joined import JoinedSpec, Side, save_joined, save_side
from contrapose.report.contact_sheet import render_sheet
from contrapose.search.queries import SearchQuery
from contrapose.search.searcher import Searcher
from contrapose.search.writer import IndexRequest, build_index
from tests.conftest import Cli
from tests.search.photos import ColorModel, write_photos

QUICK = ("--quiet", "--device", "cpu")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    cp.build_scenes(out=folder, part="replace-color", examples=30, overwrite=True)
    cp.index(folder, model="tiny-clip", device="cpu")
    return folder


def test_an_index_is_made_and_updated(cli: Cli, tmp_path: Path) -> None:
    cp.build_scenes(out=tmp_path / "photos", part="replace-color", examples=4)
    photos = tmp_path / "photos"
    (photos / "broken.jpg").write_bytes(b"no image")
    said = cli("index", photos, "--model", "tiny-clip", "--device", "cpu")
    assert said.status == 0, said
    assert "4 images" in said.out
    assert "broken.jpg" in said.out
    assert str(photos / ".contrapose" / "tiny-clip") in said.err
    said = cli("index", photos, "--model", "tiny-clip", "--json", *QUICK)
    counts = json.loads(said.out)
    assert (counts["unchanged"], counts["added"]) == (4, 0)
    assert list(counts["skipped"]) == ["broken.jpg"]


def test_image_with_a_change(cli: Cli, scenes: Path, tmp_path: Path) -> None:
    said = cli("search", scenes, "--text", "a red cube", "-k", "3", "--json", *QUICK)
    first = json.loads(said.out)["hits"][0]["path"]
    sheet = tmp_path / "sheet.png"
    arguments = ("--image", scenes / first, "--change", "red -> blue")
    said = cli("search", scenes, *arguments, "-k", "4", "--out", sheet, *QUICK)
    assert said.status == 0, said
    assert "red -> blue" in said.out
    assert "calibrated" in said.out
    assert f"left out, the query itself: {first}" in said.out
    with Image.open(sheet) as image:
        assert image.width > image.height > 224
    said = cli("search", scenes, *arguments, "--lambda", "0.5", "--json", *QUICK)
    result = json.loads(said.out)
    assert (result["lambda"], result["fusion"], len(result["hits"])) == (0.5, "delta", 10)
    assert first not in [hit["path"] for hit in result["hits"]]


def test_captions_and_word_lists(cli: Cli, scenes: Path, tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_text("a red cube\na red ball\n")
    (tmp_path / "subjects.txt").write_text("a cube\na ball\na cone\n")
    (tmp_path / "styles.txt").write_text("dark\nbright\n")
    image = next(scenes.rglob("*.png"))
    said = cli(
        "search", scenes, "--image", image, "--change", "red -> green",
        "--captions", tmp_path / "captions.txt", *QUICK,
    )  # fmt: skip
    assert "2 captions" in said.out
    said = cli(
        "search", scenes, "--image", image, "--text", "green", "--fusion", "basic", "--subjects",
        tmp_path / "subjects.txt", "--styles", tmp_path / "styles.txt", "--without", "red", *QUICK,
    )  # fmt: skip
    assert said.status == 0, said
    assert "BASIC" in said.out


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 6)
    hostile = photos / "<img src=x onerror=alert(1)>\x1b[31m\n.png"
    shutil.copy(photos / "green-1.png", hostile)
    model = ColorModel()
    searcher = Searcher(build_index(IndexRequest(photos), model).index, model)
    result = searcher.search(SearchQuery(text="green <script>"), 3)
    page = render_sheet(result)
    assert "<script>" not in page
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    assert "\x1b" not in page
    for suffix in ("html", "png", "json"):
        out = tmp_path / f"sheet.{suffix}"
        cp.search(searcher, text="green", k=3, out=out)
        assert out.stat().st_size > 100


def test_a_deleted_hit_is_an_empty_tile(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    model = ColorModel()
    searcher = Searcher(build_index(IndexRequest(photos), model).index, model)
    (photos / "green-1.png").unlink()
    result = cp.search(searcher, text="green", out=tmp_path / "sheet.png")
    assert result.hits[0].path == "green-1.png"
    assert "cannot be opened" in render_sheet(result)


def test_joined_heads_are_a_dual_encoder(cli: Cli, scenes: Path, tmp_path: Path) -> None:
    side = Side("tiny-clip", kind="model")
    heads = {"image.weight": torch.eye(128)[:16], "text.weight": torch.eye(128)[:16]}
    save_joined(tmp_path / "heads", JoinedSpec(side, side), heads)
    index, name = tmp_path / "index", f"joined:{tmp_path / 'heads'}"
    said = cli("index", scenes, "--model", name, "--out", index, *QUICK)
    assert said.status == 0, said
    said = cli("search", index, "--text", "a red cube", "--json", *QUICK)
    hits = json.loads(said.out)["hits"]
    assert len(hits) == 10
    assert json.loads(cli("search", index, "a red cube", "--json", *QUICK).out)["hits"] == hits
    # Its two sides apart: one indexes, the other searches.
    for one in ("image", "text"):
        save_side(tmp_path / "heads", one, tmp_path / one)
    apart = tmp_path / "apart"
    said = cli("index", scenes, "--model", f"joined:{tmp_path / 'image'}", "--out", apart, *QUICK)
    assert said.status == 0, said
    assert "--model" in cli("search", apart, "--text", "a red cube", *QUICK).refused()
    by_text = ("--model", f"joined:{tmp_path / 'text'}", "--json", *QUICK)
    said = cli("search", apart, "--text", "a red cube", *by_text)
    assert [hit["path"] for hit in json.loads(said.out)["hits"]] == [hit["path"] for hit in hits]
    outside = scenes.parent / "outside.png"
    Image.new("RGB", (96, 96), "red").save(outside)
    said = cli("search", apart, "--image", outside, "--change", "red -> blue", *by_text)
    assert json.loads(said.out)["fusion"] == "delta"
    said = cli("search", scenes, "--text", "a red cube", *by_text)
    assert "space" in said.refused()


def test_refusals(cli: Cli, scenes: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no image" in cli("index", empty, "--model", "tiny-clip", *QUICK).refused()
    assert not list(empty.iterdir())
    assert "no index" in cli("search", empty, "--text", "a", *QUICK).refused()
    assert "--text" in cli("search", scenes, *QUICK).refused()
    assert "twice" in cli("search", scenes, "a", "--text", "b", *QUICK).refused()
    said = cli("search", scenes, "--text", "a", "--lambda", "1", *QUICK)
    assert "--lambda" in said.refused()
    said = cli("search", scenes, "--text", "a", "--out", tmp_path / "sheet.gif", *QUICK)
    assert ".png" in said.refused()
    said = cli("search", scenes, "--text", "a", "--model", "tiny", *QUICK)
    assert "index of tiny-clip" in said.refused()
