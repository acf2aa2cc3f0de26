"""Regular records by Arrow: the same examples as record by record, whatever bytes are changed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

from contrapose.data import Example
from contrapose.data.benchmarks import user_file, user_tables
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.benchmarks.user_tables import read_table_columns
from contrapose.data.example_columns import ExampleColumns, tag_names
from contrapose.data.ref_columns import FileColumn, RefColumn
from contrapose.data.video_clips import has_videos
from contrapose.errors import ContraposeError
from contrapose.files import MalformedError, ProblemList
from contrapose.files.regular_tables import IrregularError

CHOICE: dict[str, Any] = {"id": "7", "image": "a.png", "texts": ["x", "y z"], "right": 1}
PAIR: dict[str, Any] = {
    "id": "p", "images": ["a.png", "b/c.png"], "texts": ["a cup", "Öl 日本"],
    "match": [[True, False], [False, True]], "tags": {"subset": "s", "kind": "k"},
}  # fmt: skip
NEGATIVE = {"image": "a.png", "caption": "x", "negative": "y"}
FILES: dict[str, list[dict[str, Any]]] = {
    "choice": [{**CHOICE, "id": f"e{i}", "right": i % 2} for i in range(5)],
    "no id": [{name: value for name, value in CHOICE.items() if name != "id"}] * 2,
    "numbers as ids": [{**CHOICE, "id": 3}, {**CHOICE, "id": -4}],
    "several lengths": [CHOICE, {**CHOICE, "texts": ["a", "b", "c"], "images": ["b.png"]}],
    "pairs": [PAIR, {**PAIR, "match": [[False, True], [True, False]]}, PAIR],
    "judgement": [{"image": "a.png", "text": "x", "label": label} for label in (False, True)],
    "numbers as labels": [{"image": "a.png", "text": "x", "label": label} for label in (1, 0)],
    "words as labels": [{"image": "a.png", "text": "x", "label": word} for word in ("True", "0")],
    "numbered": [{"image_0": "a.png", "text_0": "x", "text_1": word, "right": 0} for word in "yz"],
    "negative": [{"image": "a.png", "caption": "x", "negative": f"y{i}", "tag_a": "b", "right": 9}
                 for i in range(3)],
    "negatives": [{"id": i, "image": "a.png", "caption": f"x{i}", "negatives": ["y", "z", "w"][i:],
                   "tags": {"subset": f"s{i}"}} for i in range(3)],
    "built pairs": [
        {"image": "a.png", "caption": f"x{i}", "positives": ["p"], "negatives": ["y", "z"],
         "kinds": {"positives": ["k"], "negatives": ["swap", f"k{i}"]}, "tag_a": "b",
         "changes": {"positives": [], "negatives": [[{"span": [0, i], "to": "y"}], []]}}
        for i in range(2)
    ],
    "one kind": [{**NEGATIVE, "kinds": {"negatives": ["k"]}}],
    "other kinds": [{**NEGATIVE, "kinds": {"positives": []}}],
    "columns of negatives": [
        {"image": "a.png", "caption": "x", "negative_1": "z", "negative": "y"},
        {"id": "n", "image": "a.png", "negative_0": "w", "caption": "y", "negative_1": None},
    ],
    "JSON in texts": [{**CHOICE, "texts": texts} for texts in ('["x", "y z"]', '["a", "b", "c"]')],
    "one negative each": [{"image": "a.png", "caption": "x", "negatives": ["y"]}] * 2,
    "mixed": [
        {"id": "c", "image": "b.png", "texts": ["x", "y", "z"], "right": 1},
        PAIR,
        {"id": "j", "image": "a.png", "text": "y", "label": False, "tags": {"new": "n"}},
        {"images": ["a.png", "b.png"], "texts": ["x"], "match": [[True], [False]], "tag_a": "b"},
        {"image_0": "a.png", "image_1": "c.png", "text_0": "x", "match": [[True], [False]]},
        {"id": "d", "image": "a.png", "texts": ["y", "x", "w"], "right": 1, "tags": {}},
    ],
    "lists of tags": [{**CHOICE, "tags": {"kinds": kinds, "none": []}, "tag_b": kinds[1:]}
                      for kinds in (["a"], [], ["a", "b"])],
    "nulls": [{**CHOICE, "match": None, "tags": None}, {**CHOICE, "id": None, "tags": {"a": None}}],
    "floats": [{**CHOICE, "tags": {"rating": rating, "n": rating}, "more": rating / 3}
               for rating in (0.5, 3.0, -0.0, 1e22)],
    "some ids": [CHOICE, {"image": "b.png", "texts": ["x"], "right": 0}, {**CHOICE, "id": "e"}],
    "some numbers as ids": [{**CHOICE, "id": 0}, {"image": "b.png", "texts": ["x"], "right": 0}],
    "escapes": [{**CHOICE, "texts": ['a "b" c', "d\ne\tf\\g/ä :"], "tags": {"n": number}}
                for number in (0, 7)],
    "other fields": [{**CHOICE, "note": {"a": [1, 2], "b": {"c": "d"}}, "n": 1}] * 2,
}  # fmt: skip
FILES["several lengths"] = [{**row, "images": ["a.png"]} for row in FILES["several lengths"]]
TABLES = {
    "plain": "id,image,text_0,text_1,right\n1,a.png,x,y,0\n2,b.png,x,z w,1\n",
    "quotes": 'image,caption,negative,tag_k\na.png,"x, y","say ""no""",k\nb.png,a,"""b""",""\n',
    "lengths": "image,text_0,text_1,text_2,right,tag_a,id\na.png,x,y,,1,,7\nb.png,x,y,z,2,b,\n",
    "cells": "images,texts,match,tags\n"
    '"[""a.png""]","[""x, y"", ""z \\u00e4""]","[[true, false]]",{}\n'
    '"[""a.png"", ""b.png""]","[""x""]","[[true], [false]]","{""k"": 2, ""l"": [""m""]}"\n',
    "some cells": 'image,texts,text_0,text_1,right,tags\na.png,"[""x"", ""y""]",,,0,\n'
    'b.png,,x,y,1,"{""k"": ""v""}"\n',
    "lists of negatives": 'image,caption,negatives\na.png,x,"[""y"", ""z""]"\nb.png,y,"[""w""]"\n',
    "columns of negatives": "id,image,caption,negative_10,negative_2,negative_1,note\n"
    "7,a.png,x,d,c,b,\n8,a.png,y,,c,,n\n,b.png,z,d,,b,\n",
    "labels": "image\ttext\tlabel\na.png\tx\ttrue\nb.png\ty\tfalse\n",
}
TABLES["quotes"] = TABLES["quotes"].replace(',""\n', ',"l"\n')


def write(folder: Path, name: str) -> Path:
    if name in TABLES:
        path = folder / ("mine.tsv" if "\t" in TABLES[name] else "mine.csv")
        path.write_text(TABLES[name], encoding="utf-8")
        return path
    path = folder / "mine.jsonl"
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in FILES[name]]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def read_carefully(path: Path) -> tuple[list[Example], list[str]]:
    problems = ProblemList()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_file, "read_columns", lambda *_: None)
        examples = list(user_file._read_examples(path, path.parent, problems))
    return examples, [str(problem) for problem in problems.problems]


def read_by_arrow(path: Path) -> ExampleColumns | None:
    try:
        return read_table_columns(path, PlainReader(path.parent))
    except (IrregularError, MalformedError, ContraposeError, ValueError, TypeError, LookupError):
        return None


@pytest.mark.parametrize("name", [*FILES, *TABLES])
def test_regular_files_are_read_by_arrow(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)
    columns = read_by_arrow(path)
    assert columns is not None
    assert (list(columns), []) == read_carefully(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    columns = read_by_arrow(path)
    assert columns is not None
    assert (list(columns), []) == read_carefully(path)


@pytest.mark.parametrize(
    "name", ["choice", "judgement", "numbered", "negatives", "some ids", "mixed"]
)
def test_regular_parquet_is_read_by_arrow(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.parquet"
    fields = dict.fromkeys(field for row in FILES[name] for field in row)
    rows = [{field: row.get(field) for field in fields} for row in FILES[name]]
    pq.write_table(pa.Table.from_pylist(rows), path)
    columns = read_by_arrow(path)
    assert columns is not None
    assert (list(columns), []) == read_carefully(path)


@pytest.mark.parametrize(
    "line",
    [
        '{"image": "a.png", "texts": ["x", "y"], "right": 0, "right": 1}',
        '{"image": "a.png", "texts": ["x", ": y"], "right" : 0, "right": 1}',
        '{"image": "a.png", "texts": ["x", "y"], "right": 0, "note": {"a": "b", "a": "b"}}',
        '{"image": "a.png", "texts": ["x", "y"], "right": NaN}',
        '{"image": "a.png", "texts": ["x", "y"], "right": 0, "note": 1' + "0" * 5000 + "}",
        '{"image": "a.png", "texts": ["x", "y"], "right": 00}',
        '{"image": "a.png", "texts": ["x", "\\ud800"], "right": 0}',
        '{"image": "a.png", "texts": ["x", "\\" :", ":"], "right" : 0, "right": 1}',
        '{"image": "a.png", "texts": ["x", "y"], "right": 0, "r\\u0069ght": 1}',
        '{"image": "a.png", "texts": ["x", " "], "right": 0}',
        '{"image": "a.png", "texts": ["x", "\u2003"], "right": 0}',
        '{"image": "a.png", "texts": ["x", ""], "right": 0}',
        '{"image": "a.png", "texts": ["x", "y"], "right": 0} {"a": 1}',
        '\ufeff{"image": "a.png", "texts": ["x", "y"], "right": 0}',
        '{"image": "../a.png", "texts": ["x", "y"], "right": 0}',
        '{"image": "a.mp4", "caption": "x", "negative": "y", "start": 1}',
        '{"image": "a.png", "caption": "x", "negatives": ["y"], "video": "a.mp4"}',
        json.dumps({**NEGATIVE, "kinds": {"negatives": ["k", "l"]}}),
        json.dumps({**NEGATIVE, "kinds": {"negatives": []}}),
        json.dumps({**NEGATIVE, "kinds": {"negatives": ["k"]}, "tags": {"subset": "s"}}),
        json.dumps({**NEGATIVE, "kinds": {"negatives": ["k"]}, "tag_subset": "s"}),
        '{"image": "a.png", "caption": "x", "negatives": ["y"], "kinds": {"negatives": [1.5]}}',
        '{"id": "", "image": "a.png", "caption": "x", "negatives": ["y", "z"]}',
        '{"id": " ", "image": "a.png", "caption": "x", "negatives": ["y", "z"]}',
        json.dumps({**NEGATIVE, "note": [{"a": 1, "b": 2}]})[:-3] + ', "a": 1}]}',
        '{"image": "a.png", "caption": "x", "negative_0": null, "text": "y", "label": true}',
        '{"image": "a.png", "texts": "null", "text": "y", "label": true}',
        '{"image": "a.png", "texts": "[\\"x\\"], \\"right\\": [\\"y\\"]", "right": 0}',
        '{"image": "a.png", "texts": "[\\"x\\"]}\\n{\\"texts\\": [\\"y\\"]", "right": 0}',
        '{"image": "a.png", "texts": "[\'x\', \'y\']", "right": 0}',
        '{"id": "2020-01-01", "image": "a.png", "texts": ["x", "y"], "right": 0}',
    ],
)
def test_irregular_lines_are_left_to_others(tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(f"{line}\n{line}\n", encoding="utf-8")
    assert read_by_arrow(path) is None


PIECES = st.sampled_from(
    [b'"', b'""', b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\r\n", b"\t", b" ", b"\\",
     b"\\u0041", b"\\ud800", b"null", b"true", b"NaN", b"Infinity", b"-0", b"0", b"1e2", b".5",
     b"9" * 30, b"\xef\xbb\xbf", b"\x80", b"\xc3\xa4", b"\xed\xa0\x80", b"\0", b"\x1f", b"//",
     b'"id":', b'"right": 1', b"'", b"\xe2\x80\xa8", b"\xc2\xa0", b"}\n{", b'{"a": 1}']
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from([*FILES, *TABLES]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), PIECES), min_size=1, max_size=3),
)
def test_changed_bytes_never_change_an_example(
    tmp_path_factory: pytest.TempPathFactory, name: str, changes: list[tuple[int, int, bytes]]
) -> None:
    path = write(tmp_path_factory.getbasetemp(), name)
    content = path.read_bytes()
    for number, removed, piece in changes:
        at = number % (len(content) + 1)
        content = content[:at] + piece + content[at + removed :]
    path.write_bytes(content)
    columns = read_by_arrow(path)
    if columns is not None:
        assert (list(columns), []) == read_carefully(path)


LISTED = [
    record
    for name in ("choice", "no id", "several lengths", "pairs", "judgement", "numbered", "mixed")
    for record in FILES[name]
]
FLAT: list[dict[str, Any]] = [
    {"id": "c", "image": "a.png", "text_0": "x", "text_1": "y", "right": "0", "tag_a": "b"},
    {"id": "7", "image": "b.png", "text_0": "x", "text_1": "y", "text_2": "z", "right": "2"},
    {"image_0": "a.png", "text": "x", "label": "true", "tag_rating": "3"},
    {"image": "a.png", "text": "x", "label": "0"},
    {"image": "a.png", "caption": "x", "text_0": "y", "right": "0"},
]
ODD: list[dict[str, Any]] = [
    NEGATIVE,
    {"image": "a.mp4", "caption": "x", "negative": "y", "end": 3},
    {"image": "a.png", "caption": "x", "negatives": ["y", "z"], "id": "n"},
    {"image": "a.png", "text_0": "x", "text_2": "y", "right": 0},
    {"images": ["a.png"], "texts": ["x"], "label": True, "right": 0, "match": [[False]]},
    {"image": "a.png", "texts": ["x", "y"], "label": True, "right": 0},
    {"id": 7, "image": "a.png", "texts": ["x"], "right": 0},
    {"image": "a.png", "texts": ["x"], "text": "y", "right": 0, "start": 2},
    {"image": "a.mp4", "texts": ["x"], "right": 0},
    {"image": "a.png", "texts": ["x"], "right": 0, "tags": {"kind": None}, "match": None},
    {"image": "a.png", "caption": None, "negative": None, "texts": ["x"], "right": 0},
    {"image": "a.png", "texts": ["x"], "right": 0, "tags": {"rating": 3}, "tag_n": 0.5},
    {"image": "a.png", "texts": ["x"], "right": 0, "tags": {"kinds": ["a", ""]}},
    {"image": "a.png", "texts": ["x"], "right": 0, "tags": {"rating": 3.0}, "tag_n": 2},
    {"image": "a.png", "texts": [], "text": "x", "right": 0},
    {},
]


LACKING = st.sampled_from(["id", "tags", "texts", "right"])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([LISTED, FLAT]),
    st.lists(st.integers(0, 99), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from(ODD)), max_size=1),
    st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from(["id", "tags", "texts", "right"])), max_size=2
    ),
    st.sampled_from([".jsonl", ".parquet", ".csv"]),
)
def test_forms_in_any_mixture(
    tmp_path_factory: pytest.TempPathFactory,
    forms: list[dict[str, Any]],
    chosen: list[int],
    odd: list[tuple[int, dict[str, Any]]],
    lacking: list[tuple[int, str]],
    suffix: str,
) -> None:
    records = [dict(forms[k % len(forms)]) for k in chosen]
    for k, name in lacking:
        records[k % len(records)].pop(name, None)
    for k, record in odd:
        records.insert(k, record)
    path = tmp_path_factory.getbasetemp() / f"forms{suffix}"
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [{name: record.get(name) for name in names} for record in records]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([names, *map(dict.values, rows)])
    else:
        try:
            pq.write_table(pa.Table.from_pylist(rows), path)
        except (pa.ArrowException, TypeError):
            reject()  # numbers beside texts, or no fields
    columns = read_by_arrow(path)
    if columns is not None:
        event(f"{suffix}, {min(3, len(set(map(tuple, records))))} forms")
        examples, problems = read_carefully(path)
        assert (list(columns), []) == (examples, problems)
        if not odd:  # a tag that is null at first stands where it was named first
            assert list(columns.tags) == tag_names(examples)


def test_very_many_images_are_no_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "pairs")
    plain = path.read_text(encoding="utf-8")
    monkeypatch.setattr(user_tables, "MANY_IMAGES", 1)
    kinds: list[type] = []
    for name, most in (("a.png", 9), ("./a.png", 9), ("./a.png", 1), ("a.mp4", 9)):
        path.write_text(plain.replace("a.png", name), encoding="utf-8")
        monkeypatch.setattr(user_tables, "MOST_OBJECTS", most)
        columns = read_by_arrow(path)
        assert columns is not None
        examples, _ = read_carefully(path)
        assert list(columns) == examples
        assert columns.refs[:] == list(dict.fromkeys(ref for e in examples for ref in e.images))
        assert has_videos(columns) == (name == "a.mp4")
        kinds.append(type(columns.refs))
    assert kinds == [FileColumn, list, RefColumn, list]
    monkeypatch.setattr(user_tables, "MOST_OBJECTS", 1)
    assert read_by_arrow(path) is None
