"""CountBench: nine captions that differ in the number word."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from contrapose.data import Example, find_single_benchmark, open_image
from contrapose.errors import InputError
from contrapose.files import Problems, StrictProblems

ROW = {"image_url": "http://x/1.jpg", "text": "Two cats, TWO dogs", "number": 2}


def read(root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark("countbench").read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def test_captions(tmp_path: Path) -> None:
    (tmp_path / "CountBench.json").write_text(json.dumps([ROW, {**ROW, "text": "a two-door car"}]))
    first, second = read(tmp_path)
    assert first.texts[0] == ROW["text"]
    assert first.texts[8] == "Ten cats, TEN dogs"
    assert first.match == ((True, *[False] * 8),)
    assert second.texts[1] == "a three-door car"
    assert second.images[0].path == tmp_path / "images" / "1.jpg"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"number": 11}, "2 to 10"),
        ({"number": 3}, "'three'"),
        ({"number": "many"}, "number"),
        ({"text": " "}, "text"),
        ({"image_url": 4}, "image_url"),
    ],
)
def test_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "CountBench.json").write_text(json.dumps([{**ROW, **change}]))
    with pytest.raises(InputError, match=words):
        read(tmp_path)


def test_images_of_parquet_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither"):
        read(tmp_path)
    sink = io.BytesIO()
    Image.new("RGB", (4, 3)).save(sink, "PNG")
    rows = [{"text": "two cats", "number": 2, "image": {"bytes": sink.getvalue(), "path": "x"}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "test.parquet")
    (example,) = read(tmp_path)
    assert open_image(example.images[0]).size == (4, 3)


def test_released_file(shared: Path) -> None:
    examples = read(shared / "countbench")
    assert len(examples) == 540
    assert {len(set(example.texts)) for example in examples} == {9}
    assert sum(example.tags["number"] == "7" for example in examples) == 60
