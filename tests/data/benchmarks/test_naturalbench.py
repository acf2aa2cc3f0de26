"""NaturalBench: groups of two questions × two images, from three kinds of files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrapose.data import Example
from contrapose.data.benchmarks import naturalbench
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

Q = ("Is it up?Please answer Yes or No.", "Is it down?Please answer Yes or No.")
ROWS = [
    [Q[0], "1.jpg", "Yes", "yes_no"],
    [Q[0], "2.jpg", "No", "yes_no"],
    [Q[1], "1.jpg", "No", "yes_no"],
    [Q[1], "2.jpg", "Yes", "yes_no"],
]


def chat(row: list[str]) -> dict[str, Any]:
    image = [{"type": "image", "image_path": f"images/{row[1]}"}]
    return {"messages": [{"content": row[0]}, {"content": image}, {"content": row[2]}]}


def read(root: Path) -> list[Example]:
    return list(naturalbench.read(root, StrictProblems()))


def test_rows_and_chats(tmp_path: Path) -> None:
    (tmp_path / "test_set.json").write_text(json.dumps(ROWS))
    (tmp_path / "train_set.jsonl").write_text("\n".join(json.dumps(chat(row)) for row in ROWS))
    first, second = read(tmp_path)
    assert (first.id, second.id) == ("test/0", "train/0")
    for example in (first, second):
        assert example.texts == Q
        assert example.match == ((True, False), (False, True))
        assert example.tags == {"type": "yes_no"}
        paths = [image.path for image in example.images]
        assert paths == [tmp_path / "images" / name for name in ("1.jpg", "2.jpg")]


def test_parquet_of_the_hub(tmp_path: Path) -> None:
    row = {
        "Index": 7,
        "Question_0": "Up?",
        "Question_1": "Down?",
        "Image_0_Question_0": "A",
        "Image_1_Question_0": "B",
        "Image_0_Question_1": "B",
        "Image_1_Question_1": "A",
        "Question_Type": "multiple_choice",
        "Image_0": {"bytes": b"x"},
        "Image_1": {"bytes": b"y"},
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "train-0.parquet")
    (example,) = read(tmp_path)
    assert example.id == "7"
    assert example.match == ((True, False), (False, True))
    assert example.texts[0].endswith("correct option.")
    assert example.images[1].cell is not None
    assert example.images[1].cell.column == "Image_1"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:3], "four"),
        ([ROWS[0], ROWS[2], ROWS[1], ROWS[3]], "two questions"),
        ([*ROWS[:3], [Q[1], "2.jpg", "Maybe", "yes_no"]], "Yes, No"),
        ([*ROWS[:3], [Q[1], "2.jpg", "Yes", "essay"]], "type"),
        ([*ROWS[:3], [Q[1], "2.jpg", "Yes"]], "expected"),
        ([["q", "/etc/passwd", *row[2:]] for row in ROWS], "absolute"),
    ],
)
def test_malformed_rows(rows: list[Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "test_set.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match=words):
        read(tmp_path)
    problems = ProblemList()
    assert not list(naturalbench.read(tmp_path, problems))
    assert problems.problems


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="parquet"):
        read(tmp_path)


def test_the_released_files(shared: Path) -> None:
    examples = read(shared / "naturalbench")
    assert len(examples) == 1900
    assert {example.match for example in examples} == {((True, False), (False, True))}
    assert Counter(example.tags["type"] for example in examples) == {
        "yes_no": 1450,
        "multiple_choice": 450,
    }


def test_retrieval(tmp_path: Path) -> None:
    row = {"index": 3, "image_0": "a.jpg", "image_1": "b.jpg", "caption_0": "x", "caption_1": "y"}
    (tmp_path / "metadata.json").write_text(json.dumps([row]))
    (example,) = naturalbench.read_retrieval(tmp_path, StrictProblems())
    assert (example.id, example.texts) == ("3", ("x", "y"))
