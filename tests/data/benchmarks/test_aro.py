from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import Example, Macro, find_single_benchmark, open_image
from contrapose.data.benchmarks import aro
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

Read = Callable[[Path, Problems], Iterator[Example]]

CASES = [
    (aro.read_relation, "visual_genome_relation.json"),
    (aro.read_attribution, "visual_genome_attribution.json"),
]


def record(**fields: Any) -> dict[str, Any]:
    base = {
        "image_id": "7",
        "image_path": "7.jpg",
        "true_caption": "the dog is behind the tree",
        "false_caption": "the tree is behind the dog",
        "relation_name": "behind",
        "attributes": ["white", "tall"],
        "bbox_x": 10,
        "bbox_y": 20,
        "bbox_w": 30,
        "bbox_h": 40,
    }
    return base | fields


def write(root: Path, name: str, records: list[Any]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]")


@pytest.mark.parametrize(("read", "name"), CASES)
def test_the_right_caption_comes_second_as_in_official_arrays(
    tmp_path: Path, read: Read, name: str
) -> None:
    write(tmp_path, name, [record(), record(image_path="8.jpg")])
    examples = list(read(tmp_path, StrictProblems()))
    assert [e.id for e in examples] == ["0", "1"]
    assert examples[0].texts == ("the tree is behind the dog", "the dog is behind the tree")
    assert examples[0].match == ((False, True),)
    assert examples[1].images[0].path == tmp_path / "images" / "8.jpg"


def test_tags(tmp_path: Path) -> None:
    write(tmp_path / "annotations", CASES[0][1], [record()])
    write(tmp_path / "annotations", CASES[1][1], [record()])
    assert [e.tags for e in aro.read_relation(tmp_path, StrictProblems())] == [
        {"relation": "behind"}
    ]
    assert [e.tags for e in aro.read_attribution(tmp_path, StrictProblems())] == [
        {"attributes": "white_tall"}
    ]


def test_the_image_is_cropped_to_the_box(tmp_path: Path) -> None:
    write(tmp_path, CASES[0][1], [record()])
    (tmp_path / "images").mkdir()
    photo = Image.new("RGB", (100, 100), "white")
    photo.paste("red", (10, 20, 40, 60))
    photo.save(tmp_path / "images" / "7.jpg", quality=100, subsampling=0)
    (example,) = aro.read_relation(tmp_path, StrictProblems())
    shown = open_image(example.images[0])
    assert shown.size == (30, 40)
    assert shown.getpixel((15, 20)) == pytest.approx((255, 0, 0), abs=8)


@pytest.mark.parametrize(("read", "name"), CASES)
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"true_caption": ""}, "'true_caption' must be text"),
        ({"bbox_w": 0}, "box of 0 × 40 pixels is empty"),
        ({"bbox_x": "left"}, "'bbox_x' must be a finite number"),
        ({"image_path": "../7.jpg"}, "climbs out"),
        ({"attributes": ["white"], "relation_name": 3}, "must be"),
    ],
)
def test_a_malformed_record_is_named(
    tmp_path: Path, read: Read, name: str, fields: dict[str, Any], says: str
) -> None:
    write(tmp_path, name, [record(), record(**fields), record()])
    with pytest.raises(InputError, match=rf"{name}, line 3: .*{says}"):
        list(read(tmp_path, StrictProblems()))
    problems = ProblemList()
    assert [e.id for e in read(tmp_path, problems)] == ["0", "2"]
    assert [p.kind for p in problems.problems] == ["malformed record"]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of visual_genome_relation"):
        list(aro.read_relation(tmp_path, StrictProblems()))


def test_cards_name_the_official_averages() -> None:
    relation = find_single_benchmark("aro-relation").card.aggregation
    attribution = find_single_benchmark("aro-attribution").card.aggregation
    assert isinstance(relation, Macro)
    assert isinstance(attribution, Macro)
    assert len(relation.drop) == 157
    assert {"next to", "with", "on the other side of"} < relation.drop
    assert not {"on", "behind", "to the left of", "wearing"} & relation.drop
    assert attribution.least == 25
