"""`contrapose build graph|boundaries|steps` on videos of rendered scenes with a real codec."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import find_benchmark, open_images
from contrapose.files import StrictProblems
from contrapose.world.render import render
from tests.conftest import ROOT, Cli

EXAMPLE = runpy.run_path(str(ROOT / "examples" / "videos.py"))
VIDEOS = 3
TEMPLATE = "a {object} is {spatial} a ball"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    EXAMPLE["write_demo"](folder, VIDEOS)
    return folder


@pytest.fixture(scope="module")
def sets(demo: Path) -> dict[str, dict[str, Any]]:
    """The three sets, beside the videos."""
    videos = demo / "videos"
    return {
        "graph": cp.build_graph(
            demo / "graph.json", videos=videos, out=demo / "graph", template=TEMPLATE
        ),
        "boundaries": cp.build_boundaries(
            demo / "boundaries.json", videos=videos, out=demo / "boundaries", workers=1
        ),
        "steps": cp.build_steps(demo / "steps.json", videos=videos, out=demo / "steps"),
    }


def read(folder: Path) -> list[Any]:
    benchmark: Any = find_benchmark("eqben")
    return list(benchmark.read(folder, StrictProblems()))


def station_images() -> dict[str, np.ndarray[Any, Any]]:
    """Image of each caption of the boundaries and steps, as rendered."""
    images = {}
    for ball, cube in EXAMPLE["COLORS"][:VIDEOS]:
        scenes = list(dict.fromkeys(EXAMPLE["scenes"](ball, cube)))
        for (words, *_), image in zip(
            EXAMPLE["STATIONS"], render(scenes, EXAMPLE["SIZE"]).images, strict=True
        ):
            images[f"a {cube} cube is {words} a {ball} ball"] = image.numpy().astype(float)
    return images


@pytest.mark.parametrize(("name", "pairs"), [("boundaries", 6), ("steps", 18)])
def test_frames_show_their_captions(
    demo: Path, sets: dict[str, dict[str, Any]], name: str, pairs: int
) -> None:
    assert sets[name]["written"]["pairs"] == pairs
    scenes = station_images()
    examples = read(demo / name)
    assert len(examples) == pairs
    for example in examples:
        for text, image in zip(example.texts, open_images(example.images), strict=True):
            pixels = np.asarray(image, dtype=float)
            errors = {key: np.abs(pixels - scene).mean() for key, scene in scenes.items()}
            best = min(errors, key=lambda key: errors[key])
            assert best == text.lower().rstrip("."), (text, errors)


def test_graph(demo: Path, sets: dict[str, dict[str, Any]]) -> None:
    manifest = sets["graph"]
    assert manifest["filters"]["frames"] == 8 * (VIDEOS + 1)
    assert manifest["filters"]["videos in the folder"] == VIDEOS + 1
    assert manifest["written"]["sources"] == VIDEOS
    texts = {text for example in read(demo / "graph") for text in example.texts}
    assert "a cyan cube is behind a ball" in texts
    assert all(name.startswith(("images/eqbenag/", "eqbenag.json")) for name in manifest["sha256"])


@pytest.mark.parametrize("name", ["graph", "boundaries", "steps"])
def test_sets_are_sound(demo: Path, sets: dict[str, dict[str, Any]], name: str) -> None:
    manifest = sets[name]
    assert json.loads((demo / name / "manifest.json").read_text()) == manifest
    (broken,) = manifest["unreadable"]
    assert broken["source"].removesuffix(".mp4") == "broken"
    assert "0 bytes" in broken["reason"]
    assert str(demo) not in json.dumps(manifest)
    counts = list(manifest["filters"].values())
    assert counts[-1] == manifest["written"]["pairs"]
    assert "cannot solve" in manifest["audit"]["verdict"][0]
    (report,) = cp.check_data("eqben", root=demo / name)
    assert report.ok


def test_models_solve_the_set(demo: Path, sets: dict[str, dict[str, Any]]) -> None:
    assert sets
    run = cp.evaluate("tiny", on="eqben", root=demo / "steps", score="itm", limit=12, cache=False)
    assert isinstance(run, cp.Run)
    assert run.metrics["group"].value > 0.8


def test_command(demo: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "set"
    arguments = ("boundaries", demo / "boundaries.json", "--videos", demo / "videos", "--out", out)
    planned = cli("build", *arguments, "--dry-run", "--quiet")
    assert planned.status == 0, planned.err
    assert "about 6 pairs" in planned.out
    assert list(tmp_path.iterdir()) == []
    done = cli("build", *arguments, "--quiet", "--image-format", "jpeg", "--per-video", 1)
    assert done.status == 0, done.err
    assert "Written: 3 pairs" in done.out
    assert "0 bytes" in done.out
    assert f"--on eqben --root {out}" in done.out.replace("\n", " ")
    assert "not empty" in cli("build", *arguments, "--quiet").refused()
    again = cli("build", *arguments, "--quiet", "--overwrite", "--json")
    assert json.loads(again.out)["written"]["pairs"] == 6


def test_bad_input(demo: Path, tmp_path: Path, cli: Cli) -> None:
    latin, bare, none = (tmp_path / name for name in ("latin.json", "bare.json", "none"))
    latin.write_bytes('{"database": {"a": {"annotations": [{"sentence": "café"'.encode("latin-1"))
    bare.write_text(json.dumps({"scene0.mp4/000001.png": [{"class": "cube", "visible": True}]}))
    none.mkdir()
    videos, out = ("--videos", demo / "videos"), ("--out", tmp_path / "set", "--quiet")
    for arguments, words in (
        (("steps", latin, *videos), "not UTF-8"),
        (("graph", bare, *videos), "no relationship"),
        (("steps", demo / "boundaries.json", *videos), "database"),
        (("steps", tmp_path / "missing.json", *videos), "does not exist"),
        (("steps", demo / "steps.json", "--videos", tmp_path / "nothing"), "not a folder"),
        (("steps", demo / "steps.json", "--videos", none), "no pair is left"),
        (("graph", demo / "graph.json", *videos, "--fps", 0), "--fps"),
        (("graph", demo / "graph.json", *videos, "--fps", 0.01), "ends at"),
        (("graph", demo / "graph.json", *videos, "--template", "{x}"), "--template"),
        (("graph", demo / "graph.json", *videos, "--duplicates", 99), "--duplicates"),
        (("steps", demo / "steps.json", *videos, "--blur", 1e9), "no pair is left"),
    ):
        said = cli("build", *arguments, *out).refused()
        assert words in said, said
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "bare.json", "latin.json", "none",
        ], said  # fmt: skip


def test_boundaries_past_the_end(demo: Path, tmp_path: Path) -> None:
    value = json.loads((demo / "boundaries.json").read_text())
    late = [{**one, "next_timestamp": 99.0} for one in value["scene0"]]
    path = tmp_path / "late.json"
    path.write_text(json.dumps({"scene0": late, "scene1": value["scene1"]}))
    manifest = cp.build_boundaries(path, videos=demo / "videos", out=tmp_path / "set")
    assert manifest["written"]["sources"] == 1
    assert all("ends at 4.00 s" in one["reason"] for one in manifest["unreadable"])
    assert {one["source"] for one in manifest["unreadable"]} == {"scene0"}


def test_faces_are_dropped(demo: Path, tmp_path: Path) -> None:
    from tests.build.video.test_filters import draw_face
    from tests.videos import encode_video

    shutil.copytree(demo / "videos", tmp_path / "videos")
    face = draw_face(128)
    plain = Image.effect_mandelbrot((256, 256), (-2, -1.5, 1, 1.5), 40).convert("RGB")
    turned = plain.transpose(Image.Transpose.ROTATE_90)
    frames = [plain] * 10 + [face] * 10 + [turned] * 10
    encode_video(tmp_path / "videos" / "cook.mp4", frames)
    steps = [
        {"segment": [i, i + 1], "sentence": words}
        for i, words in enumerate(("cut it", "smile", "fry it"))
    ]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"database": {"cook": {"annotations": steps}}}))
    options: dict[str, Any] = {"videos": tmp_path / "videos", "blur": 0, "duplicates": -1}
    manifest = cp.build_steps(path, out=tmp_path / "set", **options)
    assert manifest["filters"]["both frames read"] == 3
    assert manifest["filters"]["no faces"] == manifest["written"]["pairs"] == 1
    kept = cp.build_steps(path, out=tmp_path / "all", faces=False, **options)
    assert kept["written"]["pairs"] == 3
