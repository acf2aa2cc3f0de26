"""VSR: single pairs with a label, two releases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import Example, find_single_benchmark
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

ROW = {"image": "1.jpg", "caption": "The cat is on the mat.", "label": 1, "relation": "on"}
NAMES = ("vsr", "vsr-v2", "vsr-v2-zeroshot")


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


@pytest.mark.parametrize("name", [*NAMES, "vsr-zeroshot"])
def test_rows(name: str, tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "label": 0, "reference_frame": 1.0}]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    first, second = read(name, tmp_path)
    assert (first.id, first.match, first.tags) == ("0", ((True,),), {"relation": "on"})
    assert first.images[0].path == tmp_path / "images" / "1.jpg"
    assert second.match == ((False,),)
    assert second.tags["reference_frame"] == "1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": 2}, "0 or 1"),
        ({"label": True}, "0 or 1"),
        ({"label": None}, "0 or 1"),
        ({"image": "../../x.jpg"}, "climbs"),
        ({"caption": " "}, "caption"),
        ({"relation": 3}, "relation"),
        ({"reference_frame": "left"}, "reference_frame"),
    ],
)
def test_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    rows = [{**ROW, **change}, ROW]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=words):
        read("vsr", tmp_path)
    problems = ProblemList()
    kept = read("vsr", tmp_path, problems)
    assert len(kept) == len(problems.problems) == 1


def test_releases_have_the_counts_of_their_cards(shared: Path) -> None:
    folder = shared / "vsr"
    for name, root in zip(NAMES, (folder / "v1", folder, folder / "v2"), strict=True):
        card = find_single_benchmark(name).card
        assert len(read(name, root)) == sum(card.counts.values())


def test_the_releases_of_the_zero_shot_split_are_told_apart(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="vsr-v2-zeroshot"):
        read("vsr-zeroshot", shared / "vsr" / "v2")
    (tmp_path / "zeroshot").mkdir()
    row = {**ROW, "subj": "cat", "obj": "mat", "vote_true_validator_id": [2, 24]}
    (tmp_path / "zeroshot" / "test.jsonl").write_text(json.dumps(row))
    assert len(read("vsr-zeroshot", tmp_path)) == 1
    assert find_single_benchmark("vsr-zeroshot").card.counts == {"test": 731}
    assert find_single_benchmark("vsr-zeroshot").card.download is None  # not the second release's
