"""POPE and HallusionBench: questions that are answered with yes or no."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import Example, content_id, find_single_benchmark, open_image
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

POLL = {"question_id": 1, "image": "1.jpg", "text": "Is there a cat?", "label": "yes"}
FIGURE = {
    "category": "VS", "subcategory": "chart", "visual_input": "1", "set_id": "0", "figure_id": "1",
    "question_id": "2", "question": "Is it?", "gt_answer": "1", "filename": "./VS/chart/0_1.png",
}  # fmt: skip


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def test_polls(tmp_path: Path) -> None:
    rows = [POLL, {**POLL, "label": "no", "text": "Is there a dog?"}]
    folder = tmp_path / "output" / "coco"
    folder.mkdir(parents=True)
    (folder / "coco_pope_popular.json").write_text("\n".join(map(json.dumps, rows)))
    first, second = read("pope/popular", tmp_path)
    assert (first.id, first.texts, first.match) == ("0", ("Is there a cat?",), ((True,),))
    assert (second.id, second.match) == ("1", ((False,),))
    assert first.images[0].path == tmp_path / "val2014" / "1.jpg"
    with pytest.raises(InputError, match=r"coco_pope_random\.json"):
        read("pope/random", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"label": "maybe"}, "yes or no"), ({"image": "/x.jpg"}, "absolute"), ({"text": 1}, "text")],
)
def test_malformed_polls(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    rows = [{**POLL, **change}, POLL]
    (tmp_path / "coco_pope_random.json").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=words):
        read("pope/random", tmp_path)
    problems = ProblemList()
    assert len(read("pope/random", tmp_path, problems)) == len(problems.problems) == 1


def test_figures(tmp_path: Path) -> None:
    without = {**FIGURE, "figure_id": "0", "visual_input": "0", "filename": None, "gt_answer": "0"}
    other = {**without, "set_id": "1"}
    (tmp_path / "HallusionBench.json").write_text(json.dumps([without, FIGURE, other]))
    first, second, third = read("hallusionbench", tmp_path)
    assert first.images[0].key != third.images[0].key  # no cluster of all that have no figure
    assert content_id(first.images[0]) == content_id(third.images[0])
    assert (first.id, second.id) == ("VS_chart_0_0_2", "VS_chart_0_1_2")
    assert (first.match, second.match) == (((False,),), ((True,),))
    assert (first.tags["figure"], second.tags["figure"]) == ("", "VS_chart_0_1")
    assert first.tags["question"] == second.tags["question"] == "VS_chart_0_2"
    assert open_image(first.images[0]).size == (224, 224)
    assert second.images[0].path == tmp_path / "hallusion_bench" / "VS" / "chart" / "0_1.png"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"category": "XX"}, "VD or VS"),
        ({"visual_input": "3"}, "visual_input"),
        ({"gt_answer": "2"}, "gt_answer"),
        ({"subcategory": "../../.."}, "climbs"),
        ({"question": None}, "question"),
        ({"set_id": None}, "set_id"),
        ({}, "twice"),
    ],
)
def test_malformed_figures(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "HallusionBench.json").write_text(json.dumps([FIGURE, {**FIGURE, **change}]))
    with pytest.raises(InputError, match=words):
        read("hallusionbench", tmp_path)
