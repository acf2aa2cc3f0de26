"""Tables of captions: each negative is an example, and captions alone are a gallery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import Gallery, find_benchmark
from contrapose.files import ProblemList
from tests.conftest import Cli


def read(file: Path, problems: ProblemList | None = None) -> Any:
    """Read a user's file by its name; examples or a gallery."""
    benchmark: Any = find_benchmark(str(file))
    return benchmark.read(file.parent, problems or ProblemList())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{name}.png")
    return tmp_path


def test_negatives_of_a_table(folder: Path) -> None:
    file = folder / "mine.csv"
    file.write_text(
        "image,caption,negative,tag_subset\n"
        'a.png,"a dog, a cat",a cat and no dog,x\nb.png,one,two,y\nb.png,three,,y\n'
    )
    examples = list(read(file))
    assert [example.texts for example in examples] == [
        ("a dog, a cat", "a cat and no dog"), ("one", "two"),
    ]  # fmt: skip
    assert all(example.match == ((True, False),) for example in examples)
    assert [dict(example.tags) for example in examples] == [{"subset": "x"}, {"subset": "y"}]


def test_pairs_with_kinds(folder: Path) -> None:
    row = {"image": "a.png", "caption": "c", "positives": ["p"], "negatives": ["n", "m"],
           "kinds": {"positives": ["x"], "negatives": ["swap", "negation"]}}  # fmt: skip
    file = folder / "pairs.jsonl"
    file.write_text(json.dumps(row) + "\n")
    first, second = list(read(file))
    assert (first.id, second.id) == ("0-0", "0-1")
    assert (first.texts, second.texts) == (("c", "n"), ("c", "m"))
    assert (first.tags["subset"], second.tags["subset"]) == ("swap", "negation")


def test_captions_alone_are_a_gallery(folder: Path) -> None:
    file = folder / "gallery.csv"
    file.write_text("image,caption\na.png,red\na.png,square\nb.png,red\n")
    gallery = read(file)
    assert isinstance(gallery, Gallery)
    assert gallery.texts == ("red", "square")
    assert gallery.pairs == ((0, 0), (0, 1), (1, 0))
    file.write_text("image,caption\n../x.png,red\n")
    problems = ProblemList()
    read(file, problems)
    assert "climbs out" in str(problems.problems[0])


def test_records_of_a_gallery_that_are_no_objects_are_reported(folder: Path) -> None:
    file = folder / "gallery.jsonl"
    file.write_text('{"image": "a.png", "caption": "red"}\nnull\n["b.png", "x"]\n"x"\n')
    problems = ProblemList()
    assert read(file, problems).texts == ("red",)
    assert [problem.line for problem in problems.problems] == [2, 3, 4]


def test_built_pairs_are_a_benchmark(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions = folder / "captions.csv"
    captions.write_text("image,caption\na.png,a red cube is left of a blue ball\n")
    out = folder / "built" / "pairs.jsonl"
    said = cli("build", "pairs", captions, "--out", out, "--kinds", "negative")
    assert said.status == 0, said
    assert f"--on {out} --root {folder}" in said.err
    monkeypatch.chdir("/")
    assert cli("check", "data", out, "--root", folder).status == 0
    audit = cli("audit", out, "--lm", "none", "--quiet", "--resamples", 100)
    assert audit.status == 0, audit
