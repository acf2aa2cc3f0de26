"""Winoground from its own lines, from the hub's Parquet, with Diwan's tags."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from contrapose.data import Example, open_image
from contrapose.data.benchmarks.winoground import read
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "image_0": f"ex_{number}_img_0",
        "image_1": f"ex_{number}_img_1",
        "caption_0": f"some plants surrounding a lightbulb {number}",
        "caption_1": f"a lightbulb surrounding some plants {number}",
        "tag": "Adjective-Size",
        "secondary_tag": "",
        "num_main_preds": 1,
        "collapsed_tag": "Object",
    }


def lines(root: Path, records: list[Any]) -> Path:
    path = root / "examples.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in records))
    return path


def examples(root: Path, problems: Problems | None = None) -> list[Example]:
    return list(read(root, problems or StrictProblems()))


def test_lines(tmp_path: Path) -> None:
    lines(tmp_path, [record(0), record(7)])
    (tmp_path / "images").mkdir()
    Image.new("RGB", (3, 3), (255, 0, 0)).save(tmp_path / "images" / "ex_7_img_1.png", "JPEG")
    first, second = examples(tmp_path)
    assert (first.id, second.id) == ("0", "7")
    assert second.texts == (record(7)["caption_0"], record(7)["caption_1"])
    assert second.match == ((True, False), (False, True))
    assert [image.key for image in second.images] == ["ex_7_img_0", "ex_7_img_1"]
    assert open_image(second.images[1]).size == (3, 3)
    assert second.tags == {
        "tag": "Adjective-Size",
        "num_main_preds": "1",
        "collapsed_tag": "Object",
    }


def test_parquet_of_the_hub(tmp_path: Path) -> None:
    rows = []
    for number in range(4):
        row = record(number)
        for side in range(2):
            buffer = io.BytesIO()
            Image.new("RGB", (2 + number, 2 + side)).save(buffer, "JPEG")
            row[f"image_{side}"] = {"bytes": buffer.getvalue(), "path": f"{number}.png"}
        rows.append(row)
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=3)
    result = examples(tmp_path)
    assert [example.id for example in result] == ["0", "1", "2", "3"]
    assert [open_image(image).size for image in result[3].images] == [(5, 2), (5, 3)]
    assert result[3].images[1].key == "ex_3_img_1"
    assert result[0].tags["collapsed_tag"] == "Object"


@pytest.mark.parametrize("name", ["diwan_tags.json", "new_tag_assignments.json"])
def test_diwan_tags(tmp_path: Path, name: str) -> None:
    lines(tmp_path, [record(0), record(1), record(2)])
    tags = {"0": ["Unusual Image", "Complex Reasoning"], "1": []}
    (tmp_path / name).write_text(json.dumps(tags))
    result = [example.tags.get("diwan") for example in examples(tmp_path)]
    assert result == [("Unusual Image", "Complex Reasoning"), ("No Tag",), None]


def test_diwan_tags_that_are_no_lists(tmp_path: Path) -> None:
    lines(tmp_path, [record(0), record(1)])
    (tmp_path / "diwan_tags.json").write_text('{"0": "Unusual Image",\n"1": ["Non Minimal"]}')
    with pytest.raises(InputError, match=r"diwan_tags\.json, line 1: example 0"):
        examples(tmp_path)
    problems = ProblemList()
    result = examples(tmp_path, problems)
    assert [example.tags.get("diwan") for example in result] == [None, ("Non Minimal",)]
    assert len(problems.problems) == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"caption_1": ""}, "'caption_1' must be text"),
        ({"image_0": "../../secret"}, "climbs out of the root"),
        ({"id": None}, "'id' must be text"),
    ],
)
def test_a_malformed_record(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    path = lines(tmp_path, [record(0), record(1) | change, record(2)])
    with pytest.raises(InputError) as refused:
        examples(tmp_path)
    assert f"{path}, line 2" in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    assert [example.id for example in examples(tmp_path, problems)] == ["0", "2"]
    assert [problem.line for problem in problems.problems] == [2]


def test_folders_without_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"examples\.jsonl nor"):
        examples(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        examples(tmp_path / "none")


def test_real_diwan_tags(tmp_path: Path, shared: Path) -> None:
    lines(tmp_path, [record(number) for number in range(400)])
    tags = (shared / "winoground_scores" / "diwan_tags.json").read_bytes()
    (tmp_path / "diwan_tags.json").write_bytes(tags)
    counted = Counter(tag for example in examples(tmp_path) for tag in example.tags["diwan"])
    assert counted == {
        "No Tag": 172,
        "Complex Reasoning": 78,
        "Unusual Image": 56,
        "Unusual Text": 50,
        "Ambiguously Correct": 46,
        "Visually Difficult": 38,
        "Non Minimal": 30,
    }
