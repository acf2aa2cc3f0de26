"""Captions from every sort of file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrapose.build.captions import CaptionRecord, read_captions
from contrapose.errors import InputError

ROWS = [CaptionRecord("a cat", "1.jpg"), CaptionRecord("a dog", "2.jpg")]


def as_json(value: object) -> str:
    return json.dumps(value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"caption": "a cat", "image": "1.jpg"}\n\n'
                    '{"caption": "a dog", "image": "2.jpg"}'),
        ("a.jsonl", '{"text": "a cat", "file_name": "1.jpg"}\n'
                    '{"text": "a dog", "file_name": "2.jpg"}'),
        ("a.csv", "image,caption\n1.jpg,a cat\n2.jpg,a dog\n"),
        ("a.tsv", "filename\tcaption\n1.jpg\ta cat\n2.jpg\ta dog\n"),
        ("list.json", as_json([{"caption": "a cat", "image": "1.jpg"},
                               {"captions": ["a dog"], "image": "2.jpg"}])),
        ("dict.json", as_json({"0": {"caption": "a cat", "filename": "1.jpg"},
                               "1": {"caption": "a dog", "filename": "2.jpg"}})),
        ("coco.json", as_json({
            "images": [{"id": 7, "file_name": "1.jpg"}, {"id": 8, "file_name": "2.jpg"}],
            "annotations": [{"image_id": 7, "caption": "a cat"},
                            {"image_id": 8, "caption": "a dog"}],
        })),
        ("karpathy.json", as_json({"images": [
            {"filename": "1.jpg", "sentences": [{"raw": "a cat"}]},
            {"filename": "2.jpg", "sentences": [{"raw": "a dog"}]},
        ]})),
    ],
)  # fmt: skip
def test_with_images(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert list(read_captions(tmp_path / name)) == ROWS


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"caption": [["a cat", "a tabby"], ["a dog"]], "image": ["1.jpg", "2.jpg"]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = list(read_captions(tmp_path / "a.parquet"))
    assert found == [ROWS[0], CaptionRecord("a tabby", "1.jpg"), ROWS[1]]


def test_plain_text_and_lists_have_no_images(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffa cat\n\n  a dog \n")
    (tmp_path / "a.json").write_text('["a cat", "a dog"]')
    for name in ("a.txt", "a.json"):
        assert [*read_captions(tmp_path / name)] == [CaptionRecord("a cat"), CaptionRecord("a dog")]


def test_other_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("pic,said,caption\n1.jpg,a cat,no\n2.jpg,a dog,no\n")
    found = read_captions(tmp_path / "a.csv", caption_field="said", image_field="pic")
    assert list(found) == ROWS


def test_numbers_of_images_are_names(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"annotations": [{"image_id": 5, "caption": "a cat"}]}')
    assert list(read_captions(tmp_path / "a.json")) == [CaptionRecord("a cat", "5")]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.xlsx", "", "must be a .jsonl"),
        ("a.jsonl", '{"image": "1.jpg"}', "'caption' is missing"),
        ("a.jsonl", '{"caption": 5}', "must be text"),
        ("a.jsonl", '{"caption": "a', "not valid JSON"),
        ("a.json", "5", "must hold a list"),
        ("a.json", '{"images": [{"id": 1, "file_name": "x"}], "annotations": [{"image_id": 2, '
         '"caption": "a"}]}', "no image 2"),
        ("a.json", '{"images": [{"filename": "x", "sentences": 5}]}', "must be a list"),
        ("a.json", '{"annotations": [5]}', "expected an object"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says):
        list(read_captions(tmp_path / name))
