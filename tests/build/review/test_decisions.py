"""Decisions of a review, applied to sets of every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.build.minimal_pairs import MinimalPair
from contrapose.build.review.decisions import Decisions, apply_review, read_decisions
from contrapose.build.review.pairs import read_pair_set
from contrapose.data.benchmarks import eqben
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from tests.build.review.pair_folder import color_pair, write_set


def nested(number: int) -> MinimalPair:
    one = color_pair(number)
    return MinimalPair(one.id, one.images, one.captions, one.tags, ("table",))


def write_decisions(path: Path, build: str, decisions: dict[str, Any], **more: Any) -> Path:
    content = {"format": "contrapose-decisions", "version": 1, "build": build}
    path.write_text(json.dumps({**content, "decisions": decisions, **more}), encoding="utf-8")
    return path


@pytest.mark.parametrize("subset", ["sd", "ag", "gebc", "mine"])
def test_dropped_pairs_leave_and_the_manifest_counts_them(tmp_path: Path, subset: str) -> None:
    pairs = [nested(i) if subset == "ag" else color_pair(i) for i in range(5)]
    write_set(tmp_path / "set", pairs, subset)
    before = read_pair_set(tmp_path / "set")
    assert [row["id"] for row in before.rows] == [f"pair-{i}" for i in range(5)]
    path = write_decisions(
        tmp_path / "d.json", before.id, {"pair-1": "drop", "pair-3": "drop", "pair-0": "keep"}
    )
    manifest = apply_review(before, tmp_path / "left", decisions=read_decisions(path, before))
    assert manifest["filters"] == {"made": 5, "kept in review": 3}
    (review,) = manifest["parameters"]["reviews"]
    assert review["of"] == before.id
    assert review["decisions"]["undecided"] == 2
    after = read_pair_set(tmp_path / "left")
    assert [row["id"] for row in after.rows] == ["pair-0", "pair-2", "pair-4"]
    assert after.id != before.id
    # Images are the same bytes, and those of dropped pairs are gone.
    same = {row["id"]: row["images"] for row in before.rows}
    for row in after.rows:
        assert row["images"] == same[row["id"]]
        for name in row["images"]:
            old, new = (tmp_path / one / name for one in ("set", "left"))
            assert old.read_bytes() == new.read_bytes()
    assert len(list((tmp_path / "left/images").rglob("*.png"))) == 6
    if subset != "mine":
        examples = list(eqben.read(tmp_path / "left", StrictProblems()))
        assert [list(one.texts) for one in examples] == [row["captions"] for row in after.rows]
    # A second review is counted beside the first.
    rest = Decisions(frozenset(), frozenset(["pair-0"]))
    again = apply_review(after, tmp_path / "less", decisions=rest)
    assert again["filters"] == {"made": 5, "kept in review": 3, "kept in review, 2": 2}
    assert len(again["parameters"]["reviews"]) == 2


def test_undecided_pairs(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [color_pair(i) for i in range(4)])
    pairs = read_pair_set(tmp_path / "set")
    decisions = Decisions(frozenset(["pair-0"]), frozenset(["pair-1"]))
    kept = apply_review(pairs, tmp_path / "a", decisions=decisions)
    strict = apply_review(pairs, tmp_path / "b", decisions=decisions, undecided="drop")
    assert (kept["written"]["pairs"], strict["written"]["pairs"]) == (3, 1)
    with pytest.raises(InputError, match="no pair is left"):
        apply_review(
            pairs, tmp_path / "c", decisions=Decisions(frozenset(), frozenset()), undecided="drop"
        )
    assert not (tmp_path / "c").exists()
    with pytest.raises(InputError, match="set itself"):
        apply_review(pairs, tmp_path / "set", decisions=decisions, overwrite=True)
    with pytest.raises(InputError, match="not empty"):
        apply_review(pairs, tmp_path / "a", decisions=decisions)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "JSON"),
        ("[]", "no decisions"),
        ({"decisions": {}, "format": "other"}, "no decisions"),
        ({"decisions": []}, "no decisions"),
        ({"version": 2}, "version"),
        ({"build": "0" * 32}, "another build"),
        ({"decisions": {"pair-9": "keep"}}, "pair-9"),
        ({"decisions": {"pair-0": "maybe"}}, "maybe"),
    ],
)
def test_files_that_are_no_decisions(tmp_path: Path, content: Any, word: str) -> None:
    write_set(tmp_path / "set", [color_pair(0)])
    pairs, path = read_pair_set(tmp_path / "set"), tmp_path / "d.json"
    if isinstance(content, str):
        path.write_text(content)
    else:
        named = {"build": pairs.id, "decisions": {}, **content}
        write_decisions(path, named.pop("build"), named.pop("decisions"), **named)
    with pytest.raises(InputError, match=word):
        read_decisions(path, pairs)


def test_another_build_of_the_same_pairs_is_told_by_its_images(tmp_path: Path) -> None:
    write_set(tmp_path / "one", [color_pair(0)])
    write_set(tmp_path / "same", [color_pair(0)])
    other = color_pair(0)
    moved = MinimalPair(other.id, color_pair(2).images, other.captions, other.tags)
    write_set(tmp_path / "other", [moved])
    one, same, different = (read_pair_set(tmp_path / name).id for name in ("one", "same", "other"))
    assert one == same != different


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "no set"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "manifest"),
        (lambda folder: (folder / "manifest.json").write_bytes(b"\xff{"), "UTF-8"),
        (lambda folder: (folder / "eqbensd.json").unlink(), "exist"),
        (lambda folder: (folder / "eqbensd.json").write_text("[3]"), "object"),
        (lambda folder: (folder / "eqbensd.json").write_text('[{"id": "x"}]'), "two images"),
        (lambda folder: (folder / "eqbensd.json").write_text("[]"), "no pairs"),
    ],
)
def test_folders_that_are_no_sets(tmp_path: Path, change: Any, word: str) -> None:
    write_set(tmp_path / "set", [color_pair(0)])
    change(tmp_path / "set")
    with pytest.raises(InputError, match=word):
        read_pair_set(tmp_path / "set")


def test_paths_cannot_leave_the_set(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [color_pair(0)])
    file = tmp_path / "set/eqbensd.json"
    value = json.loads(file.read_text())
    value[0]["image0"] = "../../../etc/passwd"
    file.write_text(json.dumps(value))
    with pytest.raises(InputError):
        read_pair_set(tmp_path / "set")


def brightness(image: Image.Image, caption: str) -> float:
    """Model that knows how bright red and green patches are."""
    value = float(np.asarray(image).mean())
    return value if "green" in caption else -value


def test_a_set_is_filtered_by_a_score(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [color_pair(0), color_pair(1)])
    manifest = cp.build_review(
        tmp_path / "set", out=tmp_path / "left", filter_by=brightness, margin=-1e9, cache=False
    )
    assert manifest["filters"]["own caption preferred"] == 2
    rows = read_pair_set(tmp_path / "left").rows
    assert all(float(row["tags"]["margin"]) < 1000 for row in rows)
    with pytest.raises(InputError, match="no pair is left"):
        cp.build_review(
            tmp_path / "set", out=tmp_path / "none", filter_by=brightness, margin=1e9, cache=False
        )
    assert not (tmp_path / "none").exists()
