"""What'sUp: six parts; photographs of the same things are pairs and sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import Example, Suite, find_benchmark, find_single_benchmark
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

CAPTIONS = ["mug on table", "mug under table", "mug left of table", "mug right of table"]


def row(relation: str, thing: str = "mug") -> dict[str, Any]:
    words = {"left": "left_of", "right": "right_of", "in-front": "in-front_of"}
    name = f"data/controlled_images/{thing}_{words.get(relation, relation)}_table.jpeg"
    return {"image_path": name, "caption_options": CAPTIONS}


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def write_controlled(root: Path, things: int) -> None:
    rows = [
        row(relation, f"mug{i}")
        for relation in ("on", "left", "right", "under")
        for i in range(things)
    ]
    (root / "controlled_images_dataset.json").write_text(json.dumps(rows))


def test_photographs(tmp_path: Path) -> None:
    write_controlled(tmp_path, 2)
    examples = read("whatsup/a", tmp_path)
    assert len(examples) == 8
    assert examples[0].images[0].path == tmp_path / "controlled_images" / "mug0_on_table.jpeg"
    assert examples[2].tags == {
        "relation": "left",
        "pair": "mug0, table: left or right",
        "set": "mug0, table",
    }
    assert examples[0].tags["pair"] == examples[6].tags["pair"] == "mug0, table: on or under"


def test_pairs_and_sets_of_scores(tmp_path: Path) -> None:
    write_controlled(tmp_path, 103)
    scores = np.zeros((412, 1, 4))
    scores[:, 0, 0] = 1
    scores[103, 0, 1] = 2  # left of the first thing
    run = cp.measure(scores, "whatsup/a", root=tmp_path, resamples=100)
    values = [run.metrics[name].value for name in ("accuracy", "pair", "set")]
    assert values == pytest.approx([411 / 412, 205 / 206, 102 / 103])


@pytest.mark.parametrize("part", ["coco-one", "coco-two", "vg-one", "vg-two"])
def test_questions(part: str, tmp_path: Path) -> None:
    kind, count = part.split("-")
    file = tmp_path / f"{kind}_qa_{count}_obj.json"
    file.write_text(json.dumps([[397133, "a cat on the left", "a cat on the right"]]))
    (example,) = read(f"whatsup/{part}", tmp_path)
    assert example.texts == ("a cat on the left", "a cat on the right")
    name = "000000397133.jpg" if kind == "coco" else "397133.jpg"
    assert example.images[0].key == name
    file.write_text(json.dumps([[1, "a"], [True, "a", "b"], ["../x", "a", "b"], [2, "a", " "]]))
    problems = ProblemList()
    assert read(f"whatsup/{part}", tmp_path, problems) == []
    assert len(problems.problems) == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image_path": "mug.jpeg"}, "named"),
        ({"image_path": "mug_above_table.jpeg"}, "named"),
        ({"image_path": 3}, "image_path"),
        ({"caption_options": CAPTIONS[:3]}, "four"),
        ({"caption_options": [*CAPTIONS[:3], 4]}, "caption"),
    ],
)
def test_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    rows = [{**row("on"), **change}]
    (tmp_path / "controlled_images_dataset.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match=words):
        read("whatsup/a", tmp_path)


def test_counts_are_those_of_the_released_rows(shared: Path) -> None:
    suite = find_benchmark("whatsup")
    assert isinstance(suite, Suite)
    files = {
        "a": "Controlled_Images_A_with_answer_four_options",
        "b": "Controlled_Images_B_with_answer_four_options",
        "coco-one": "COCO_QA_one_obj_with_answer_four_options",
        "coco-two": "COCO_QA_two_obj_with_answer_four_options",
        "vg-one": "VG_QA_one_obj_with_answer_six_options",
        "vg-two": "VG_QA_two_obj_with_answer_six_options",
    }
    for part, name in files.items():
        lines = (shared / "whatsup_questions" / f"{name}.jsonl").read_text().split("\n")
        assert sum(suite.parts[part].card.counts.values()) == sum(map(bool, lines)), part
