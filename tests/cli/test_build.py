"""`contrapose build scenes`: what is written is read back by our own readers."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.build import scenes as build_module
from contrapose.data import (
    Benchmark,
    BenchmarkData,
    EditSet,
    Example,
    Gallery,
    find_benchmark,
    open_image,
    open_images,
)
from contrapose.files import StrictProblems
from contrapose.world.benchmark import PARTS
from contrapose.world.benchmark.candidates import Form
from contrapose.world.benchmark.suite import part_data
from contrapose.world.scene import Scene
from tests.conftest import Cli

COUNT = 4


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("build") / "scenes"
    cp.build_scenes(out=out, examples=COUNT, seed=7, size=24, masks=True)
    return out


def made(part: str, form: Form = "balanced") -> BenchmarkData:
    return part_data(part, form, COUNT, 7, 24)


def read_back(folder: Path, manifest: dict[str, Any], part: str) -> BenchmarkData:
    reader = manifest["parts"][part]["read_with"]
    name = str(folder / part / reader) if reader.endswith(".jsonl") else reader
    benchmark = find_benchmark(name)
    assert isinstance(benchmark, Benchmark)
    return benchmark.read(folder / part, StrictProblems())


def captions(examples: Iterator[Example]) -> list[tuple[list[str], list[str]]]:
    """Right and wrong captions of each example; their place in the file may differ."""
    found = [
        (
            sorted(t for t, r in zip(e.texts, e.match[0], strict=True) if r),
            sorted(t for t, r in zip(e.texts, e.match[0], strict=True) if not r),
        )
        for e in examples
    ]
    return sorted(found)


@pytest.mark.parametrize("part", [name for name in PARTS if name not in {"gallery", "edits"}])
def test_examples_are_read_back(built: Path, part: str) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    found = list(read_back(built, manifest, part))  # type: ignore[arg-type]
    ours = list(made(part))  # type: ignore[arg-type]
    assert captions(iter(found)) == captions(iter(ours))
    by_texts = {frozenset(example.texts): example for example in ours}
    for example in found:
        same = by_texts[frozenset(example.texts)]
        for ref, own in zip(example.images, same.images, strict=True):
            assert np.array_equal(np.asarray(open_image(ref)), np.asarray(open_image(own)))


def test_the_gallery_is_read_back(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    found, ours = read_back(built, manifest, "gallery"), made("gallery")
    assert isinstance(found, Gallery)
    assert isinstance(ours, Gallery)
    assert (found.texts, found.pairs) == (ours.texts, ours.pairs)
    assert len(open_images(found.images)) == COUNT


def test_the_edits_are_read_back(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    found, ours = read_back(built, manifest, "edits"), made("edits")
    assert isinstance(found, EditSet)
    assert isinstance(ours, EditSet)
    assert found.captions == ours.captions
    asked = [(q.id, q.caption, q.target_caption, q.weight) for q in found.queries]
    assert asked == [(q.id, q.caption, q.target_caption, q.weight) for q in ours.queries]
    for query, own in zip(found.queries, ours.queries, strict=True):
        assert own.source in query.source.split()
        picture = np.asarray(open_image(found.images[query.image]))
        assert np.array_equal(picture, np.asarray(open_image(ours.images[own.image])))


def test_the_manifest_names_every_file(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    files = {
        path.relative_to(built).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in built.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert manifest["sha256"] == files
    assert manifest["parameters"]["seed"] == 7
    assert set(manifest["parts"]) == set(PARTS)
    for part in manifest["parts"].values():
        filters = part["filters"]
        assert filters["scenes drawn"] >= filters["captions that fit"] >= filters["seen well"]
        assert filters["seen well"] >= COUNT


def test_masks_and_scenes_come_along(built: Path) -> None:
    lines = (built / "location" / "scenes.jsonl").read_text().splitlines()
    assert len(lines) == 2 * COUNT
    for line in lines:
        record = json.loads(line)
        scene = Scene.from_json(json.dumps(record["scene"]))
        place = built / "location" / record["image"].replace("images/", "masks/")
        with Image.open(place) as mask:
            assert set(np.unique(np.asarray(mask))) <= set(range(len(scene.things) + 1))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, cli: Cli) -> None:
    sums = []
    for name in ("one", "two"):
        said = cli("build", "scenes", "--out", tmp_path / name, "--subset", "add,order",
                   "--examples", 3, "--size", 16, "--world", "skewed")  # fmt: skip
        assert said.status == 0
        assert "order: 3 examples, 3 images; read with the file examples.jsonl" in said.out
        sums.append((tmp_path / name / "manifest.json").read_bytes())
    assert sums[0] == sums[1]
    assert json.loads(sums[0])["parameters"]["world"] == "skewed"
    assert not (tmp_path / "one" / "location").exists()


def test_a_folder_that_is_there_is_kept_unless_told(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    words = ("build", "scenes", "--out", out, "--subset", "add", "--examples", 1, "--size", 8)
    assert "is not empty" in cli(*words).refused()
    assert (out / "mine.txt").read_text() == "mine"
    assert cli(*words, "--overwrite").status == 0
    assert not (out / "mine.txt").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--subset", "swap-relations"), "did you mean swap-relation"),
        (("--subset", "add", "--examples", "0"), "at least one example"),
        (("--subset", "add", "--size", "0"), "at least one pixel"),
        (("--subset", "add", "--size", "100000"), "at most 4096 pixels"),
        (("--subset", "add", "--seed", "-1"), "must not be negative"),
        (("--subset", "add", "--all"), "either --subset or --all"),
    ],
)
def test_bad_input_is_refused(words: tuple[str, ...], says: str, tmp_path: Path, cli: Cli) -> None:
    assert says in cli("build", "scenes", "--out", tmp_path / "out", *words).refused()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def full(path: Path, content: bytes) -> None:
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    monkeypatch.setattr(build_module, "write_file", full)
    out = tmp_path / "deep" / "out"
    said = cli("build", "scenes", "--out", out, "--subset", "add", "--examples", 3, "--size", 8)
    assert "No space left on device" in said.refused()
    assert written
    assert not out.exists()
    assert list((tmp_path / "deep").iterdir()) == []


def test_no_permission_is_said(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Path.mkdir

    def refuse(path: Path, *words: Any, **options: Any) -> None:
        if path.name.endswith(".build"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        make(path, *words, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    words = ("build", "scenes", "--out", tmp_path / "out", "--subset", "add", "--examples", 1)
    assert "Permission denied" in cli(*words).refused()
