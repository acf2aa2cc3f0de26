"""BiVLC, ColorSwap and VisMin: tables of 2 × 2 examples, with images inside or beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrapose.data import Example, find_single_benchmark
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

ROWS: dict[str, dict[str, Any]] = {
    "bivlc": {
        "image": {"bytes": b"x"},
        "negative_image": {"bytes": b"y"},
        "caption": "a cat",
        "negative_caption": "a dog",
        "type": "replace",
        "subtype": "obj",
    },
    "colorswap": {
        "id": 4,
        "image_1": {"bytes": b"x"},
        "image_2": {"bytes": b"y"},
        "caption_1": "a cat",
        "caption_2": "a dog",
        "image_source": "midjourney",
        "caption_source": None,
    },
    "vismin": {
        "id": "v4",
        "image_0": {"bytes": b"x"},
        "image_1": {"bytes": b"y"},
        "text_0": "a cat",
        "text_1": "a dog",
        "category": "object",
    },
}
FILES = {"bivlc": "test-0", "colorswap": "test-00000", "vismin": "test-0"}
TAGS = {
    "bivlc": {"type": "replace", "subtype": "obj"},
    "colorswap": {"image_source": "midjourney"},
    "vismin": {"category": "object"},
}
IDS = {"bivlc": "0", "colorswap": "4", "vismin": "v4"}


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


@pytest.mark.parametrize("name", ROWS)
def test_parquet(name: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist([ROWS[name]]), tmp_path / "data" / f"{FILES[name]}.parquet")
    (example,) = read(name, tmp_path)
    assert (example.id, example.texts) == (IDS[name], ("a cat", "a dog"))
    assert example.tags == TAGS[name]
    assert example.match == ((True, False), (False, True))
    assert all(image.cell is not None for image in example.images)


def test_rows_of_several_files_count_on(tmp_path: Path) -> None:
    for i in range(2):
        table = pa.Table.from_pylist([ROWS["bivlc"]] * 3)
        pq.write_table(table, tmp_path / f"test-{i}.parquet")
    examples = read("bivlc", tmp_path)
    assert [example.id for example in examples] == [str(i) for i in range(6)]
    cells = [image.cell for image in examples[4].images]
    assert [cell.row for cell in cells if cell is not None] == [1, 1]


def test_training_examples_of_colorswap_do_not_count(tmp_path: Path) -> None:
    row = {**ROWS["colorswap"], "image_1": "images/1.png", "image_2": "images/2.png"}
    (tmp_path / "train.json").write_text(json.dumps([row] * 3))
    (tmp_path / "test.json").write_text(json.dumps([row]))
    (example,) = read("colorswap", tmp_path)
    assert example.images[1].path == tmp_path / "images" / "2.png"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text_0": ""}, "text_0"),
        ({"text_1": 3}, "text_1"),
        ({"image_0": "../x.png"}, "climbs"),
        ({"image_1": None}, "image_1"),
        ({"id": []}, "id"),
    ],
)
def test_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    row = {**ROWS["vismin"], "image_0": "1.png", "image_1": "2.png"}
    (tmp_path / "a.jsonl").write_text(json.dumps({**row, **change}) + "\n" + json.dumps(row))
    with pytest.raises(InputError, match=words):
        read("vismin", tmp_path)
    problems = ProblemList()
    assert len(read("vismin", tmp_path, problems)) == len(problems.problems) == 1


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no"):
        read("colorswap", tmp_path)
