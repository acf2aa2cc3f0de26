"""A user's file by columns: the same examples as record by record, and nothing that is doubtful."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.data import Example
from contrapose.data.benchmarks import user_file
from contrapose.data.benchmarks.user_columns import read_columns
from contrapose.data.benchmarks.user_file import load_user_benchmark
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.example_columns import ExampleColumns, tag_names
from contrapose.files import ProblemList

CHOICE: dict[str, Any] = {"image": "a.png", "texts": ["x", "y", "z"], "right": 2}
PAIR: dict[str, Any] = {
    "images": ["a.png", "b/c.png"],
    "texts": ["a cup", "a cat"],
    "match": [[True, False], [False, True]],
}
FILES: dict[str, list[dict[str, Any]]] = {
    "choice": [{**CHOICE, "id": f"e{i}", "right": i % 3} for i in range(5)],
    "one image in a list": [{**CHOICE, "images": ["a.png"]}, {**CHOICE, "images": ["b.png"]}],
    "no id": [CHOICE, CHOICE],
    "some ids": [{**CHOICE, "id": 7}, {**CHOICE, "id": "x"}, {**CHOICE, "id": ""}, CHOICE],
    "pairs": [PAIR, {**PAIR, "match": [[False, True], [True, False]]}, PAIR],
    "different shapes": [PAIR, {**CHOICE, "images": ["c.png"], "match": [[True, True, False]]}],
    "judgement": [
        {"image": "a.png", "texts": ["x"], "match": [[False]]},
        {"image": "a.png", "texts": ["y"], "match": [[True]]},
    ],
    "label": [
        {"image": "a.png", "text": "x", "label": label} for label in ("1", "TRUE", " false ")
    ],
    "kinds of labels": [{"image": "a.png", "text": "x", "label": label} for label in (True, 0, 1)],
    "ratings": [{"image": "a.png", "text": "x", "label": 1, "tags": {"rating": 3.5}}],
    "tags": [
        {**CHOICE, "tags": {"subset": "a", "kind": ["x", "y"]}},
        {**CHOICE, "tags": {"other": 4, "subset": ""}, "tag_more": "b"},
        {**CHOICE, "tags": {}},
        CHOICE,
    ],
    "numbered": [
        {"image_0": "a.png", "text_0": "x", "text_1": "y", "right": 1},
        {"image_0": "b.png", "text_0": "x", "text_1": "y", "text_2": "z", "right": 2},
    ],
    "negative": [
        {"image": "a.png", "caption": "x", "negative": "y", "tag_kind": "swap"},
        {"id": "n", "image": "b.png", "caption": "z", "negative": "w", "tag_kind": "swap"},
    ],
    "negatives": [
        {"image": "a.png", "caption": "x", "negatives": ["y", "z"]},
        {"id": 3, "image": "b.png", "caption": "z", "negatives": ["w"]},
    ],
    "ignored fields": [{**CHOICE, "note": {"a": [1, {"b": 2}]}}],
    "letters": [{**CHOICE, "id": "ä", "texts": ["Öl", "日本", "x\u2028y"]}],
}


def write(path: Path, records: list[Any]) -> Path:
    """Write records in the format of the suffix; lists and objects as JSON in cells of CSV."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
        return path
    names = list(dict.fromkeys(name for record in records for name in record))
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        for record in records:
            values = [record.get(name, "") for name in names]
            writer.writerow(
                [json.dumps(value) if isinstance(value, list | dict) else value for value in values]
            )
    return path


def read_carefully(path: Path) -> tuple[list[Example], list[str]]:
    problems = ProblemList()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_file, "read_columns", lambda *_: None)
        examples = list(user_file._read_examples(path, path.parent, problems))
    return examples, [str(problem) for problem in problems.problems]


def columns_of(path: Path) -> ExampleColumns | None:
    return read_columns(path, PlainReader(path.parent))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("name", FILES)
def test_every_form_is_read_by_columns(tmp_path: Path, name: str, suffix: str) -> None:
    path = write(tmp_path / f"mine{suffix}", FILES[name])
    columns = columns_of(path)
    assert columns is not None
    assert (list(columns), []) == read_carefully(path)
    with pytest.MonkeyPatch.context() as patch:
        card = load_user_benchmark(path).card
        patch.setattr(user_file, "read_columns", lambda *_: None)
        assert load_user_benchmark(path).card == card


@pytest.mark.parametrize("name", ["choice", "pairs", "negatives", "label"])
def test_parquet(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "mine.parquet", FILES[name])
    columns = columns_of(path)
    assert columns is not None
    assert (list(columns), []) == read_carefully(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_tags_are_in_order_of_first_appearance(tmp_path: Path, suffix: str) -> None:
    records = [{**CHOICE, "tag_a": "", "tags": {"b": "x"}}, {**CHOICE, "tag_a": "y"}]
    path = write(tmp_path / f"mine{suffix}", records)
    columns = columns_of(path)
    assert columns is not None
    examples, _ = read_carefully(path)
    assert tag_names(columns) == tag_names(examples) == ["b", "a"]
    backwards = columns.take(np.array([1, 0]))
    assert tag_names(backwards) == tag_names(list(backwards)) == ["a", "b"]


LINE = json.dumps(CHOICE)


@pytest.mark.parametrize(
    "text",
    [
        f"{LINE}\n{LINE[:-1]}\n",
        f"{LINE},{LINE}\n",
        f"{LINE}{LINE}\n",
        '{"image": "a.png", "texts": ["x}\n{y", "z"], "right": 0}\n' + f"{LINE}, {LINE}\n",
        '{"image": "a.png", "texts": ["x", "y"], "right": 0, "note": [{}\n{}]}\n'
        + f"{LINE},{LINE}",
        f"{LINE}\nnull\n",
        f"[{LINE}]\n",
        LINE[:-1] + ', "right": 1}\n',
        LINE[:-1] + ', "right" : 1}\n',
        LINE[:-1] + ', "r\\u0069ght": 1}\n',
        LINE[:-1] + ', "tags": {"a": "b", "a": "b"}}\n',
        json.dumps({**CHOICE, "texts": ["x", " "]}) + "\n",
        json.dumps({**CHOICE, "texts": ["x", 3]}) + "\n",
        json.dumps({**CHOICE, "texts": []}) + "\n",
        json.dumps({**CHOICE, "texts": {"x": "y"}}) + "\n",
        json.dumps({**PAIR, "images": {"a.png": 1, "b.png": 2}}) + "\n",
        json.dumps({"image": "a.png", "caption": "x", "negatives": {"y": 1}}) + "\n",
        json.dumps({**CHOICE, "right": 3}) + "\n",
        json.dumps({**CHOICE, "right": True}) + "\n",
        json.dumps({**CHOICE, "image": "../a.png"}) + "\n",
        json.dumps({**CHOICE, "image": ["a.png"]}) + "\n",
        json.dumps({**PAIR, "match": [[False, False], [False, False]]}) + "\n",
        json.dumps({**PAIR, "match": [[True, False]]}) + "\n",
        json.dumps({**PAIR, "match": [[True, 2], [False, True]]}) + "\n",
        json.dumps({**CHOICE, "tags": [1]}) + "\n",
        json.dumps({**CHOICE, "tags": {"a": {"b": 1}}}) + "\n",
        json.dumps({**CHOICE, "id": " "}) + "\n",
        LINE.replace('"x"', '"\\ud800"') + "\n",
        "",
    ],
)
def test_what_is_wrong_is_left_to_the_careful_reader(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(text)
    assert columns_of(path) is None
    examples, problems = read_carefully(path)
    assert not text or problems or len(examples) < text.count("{")


@pytest.mark.parametrize(
    "text",
    [
        "image,texts,right\na.png,\"['x', 'y']\",0\n",
        'image,texts,right\na.png,"[""x"", ""y""]",0\nb.png,"[""x"", ""y""]"\n',
        'image,texts,right\na.png,"[""x"",""y""],0,[""z""]",0\n',
        'image,image,texts,right\na.png,b.png,"[""x"",""y""]",0\n',
        'image,texts,right\na.png,"[""x"",""y""]",0.5\n',
    ],
)
def test_cells_that_are_left_to_the_careful_reader(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    assert columns_of(path) is None


ODD = st.sampled_from(
    [None, "", " ", 0, 1, -1, 2.5, True, [], ["a"], {}, {"a": "b"}, "a", [["x"]], [None], "[1]"]
)
USUAL = {
    "id": st.sampled_from(["1", "x", 7]),
    "images": st.sampled_from([["a.png"], ["a.png", "b/c.png"]]),
    "image": st.sampled_from(["a.png", "b.png"]),
    "texts": st.sampled_from([["a", "b"], ["a b", "c", "d"], ["a"]]),
    "right": st.sampled_from([0, 1]),
    "match": st.sampled_from([[[True, False], [False, True]], [[False, True]], [[True]]]),
    "label": st.sampled_from([True, "0"]),
    "tags": st.sampled_from([{}, {"subset": "x", "kind": ["y"]}, {"rating": 3}]),
    "caption": st.sampled_from(["a", "b"]),
    "negative": st.sampled_from(["c", "d"]),
    "negatives": st.sampled_from([["c", "d"], ["e"]]),
    "negative_10": st.sampled_from(["f", ""]),
    "negative_2": st.sampled_from(["g", None]),
    "tag_a": st.sampled_from(["b", ""]),
    "other": ODD,
}


@st.composite
def files(draw: st.DrawFn) -> list[Any]:
    names = draw(st.lists(st.sampled_from(list(USUAL)), unique=True, max_size=6))
    names += [name for name in ("image", "texts", "right") if draw(st.integers(0, 5))]
    odd = draw(st.integers(0, 2)) == 0
    return [
        {
            name: draw(ODD if odd and not draw(st.integers(0, 9)) else USUAL[name])
            for name in names
            if draw(st.integers(0, 19))
        }
        for _ in range(draw(st.integers(1, 4)))
    ]


@settings(max_examples=150, deadline=None)
@given(files(), st.sampled_from([".jsonl", ".csv"]))
def test_as_record_by_record(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], suffix: str
) -> None:
    path = write(tmp_path_factory.getbasetemp() / f"columns{suffix}", records)
    columns = columns_of(path)
    if columns is not None:
        assert (list(columns), []) == read_carefully(path)
