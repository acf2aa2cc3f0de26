"""Regular tables: cells as Python's own readers have them, and anything else is refused."""

from __future__ import annotations

import csv
import io
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.files import regular_tables
from contrapose.files.regular_tables import IrregularError, read_regular_table


def read(folder: Path, name: str, content: bytes) -> dict[str, list[object]]:
    path = folder / name
    path.write_bytes(content)
    return {name: array.to_pylist() for name, array in read_regular_table(path).items()}


CELL = st.text(st.sampled_from('ab ",\nä;'), max_size=4)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_cells_are_those_of_the_csv_module(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], end: str
) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end).writerows([("x", "y"), *rows])
    content = stream.getvalue().encode()
    try:
        columns = read(tmp_path_factory.getbasetemp(), "cells.csv", content)
    except IrregularError:
        assert any("\n" in cell for row in rows for cell in row)
        return
    read_rows = zip(columns["x"], columns["y"], strict=True)
    assert [tuple(cell or "" for cell in row) for row in read_rows] == rows


@pytest.mark.parametrize(
    "content",
    [b'x,y\na"b,c\n', b'x,y\n"a"b,c\n', b'x,y\n"a,c\n', b'x,y\n"a\nb",c\n', b"x,y\n\na,b\n",
     b"x,y\na\n", b"x,x\na,b\n", b'"x",y\na,b\n', b"x,y\na\0,b\n", b"x,y\n", b"",
     b"x,y\na," + b"b" * 200_000 + b"\n"],
)  # fmt: skip
def test_irregular_cells(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(IrregularError):
        read(tmp_path, "cells.csv", content)


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1}\n\n{"a": 2}\n', b'{"a": 1} {"a": 2}\n', b'{"a": 1,\n"b": 2}\n', b"",
     b'{"a": 1, "a": 2}\n{"b": 3}\n', b'{"a": 1, "a": null}\n', b'{"a": null, "a": 1}\n',
     b'{"a": {"b": "c", "b": null}, "d": "\\": null"}\n', b'{"a":  null}\n',
     b'{"a": "\\ud83d\\ude00"}\n', b'{"a": [1, null]}\n', b'{"a": 1.5}\n{"a": 2}\n',
     b'{"a": 1.5}\n{"a":  2 , "b": 0}\n', b'{"a/b": 1.5}\n{"a\\/b": 2}\n',
     b'{"a": 1.5}\n{"\\u0061": 2}\n', b'{"a": {"b": -0}}\n{"a": {"b": 0.5}}\n',
     b'{"a": {"b": 1, "b": 1}}\n', b'{"a" :1, "a":1}\n', b'[{"a": 1}]\n', b'{"a": 1}\n{"a": "1"}\n',
     b'{"a": [{"b": 1}, null]}\n', b'{"a": [{"b": 1, "b": 2}]}\n', b'{"a": 1},\n{"a": 2}\n',
     b'{"a": 99999999999999999999}\n'],
)  # fmt: skip
def test_irregular_lines(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(IrregularError):
        read(tmp_path, "lines.jsonl", content)


KINDS = ['"x"', "1", "1.5", "true", "null", "[]", '["x"]', "[1]", '[{"b": 1}]', '[["x"]]', "{}",
         '{"b": 1}', '{"b": "x"}', '{"b": []}', '{"b": null}', '{"b": {}}',
         '{"b": ["x"]}']  # fmt: skip
"""Values whose types differ, as of a field of which the first block of a file tells too little."""


def test_values_of_another_type_in_a_later_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular_tables, "BLOCK_BYTES", 300)
    for first, last in permutations(KINDS, 2):
        for wrapped in ('{"t": %s}', '{"t": {"w": %s}}'):
            lines = [(wrapped % value + "\n") * 20 for value in (first, last)]
            try:
                (column,) = read(tmp_path, "lines.jsonl", "".join(lines).encode()).values()
            except IrregularError:
                continue
            assert [_strip(value) for value in column[::20]] == [
                _strip(json.loads(wrapped % value)["t"]) for value in (first, last)
            ]


def _strip(value: Any) -> Any:
    """Value without fields that are null: a regular table has none."""
    if isinstance(value, dict):
        values = {key: _strip(of) for key, of in value.items()}
        return {key: of for key, of in values.items() if of is not None} or None
    return [_strip(one) for one in value] if isinstance(value, list) else value


def test_deeply_nested_lines_are_irregular(tmp_path: Path) -> None:
    for begin, end in (("[", "]"), ('{"a": ', "}")):
        for depth in (3_000, 100_000):
            line = f'{{"a": {begin * depth}1{end * depth}}}\n'
            with pytest.raises(IrregularError):
                read(tmp_path, "lines.jsonl", b'{"a": 1}\n' + line.encode())


@pytest.mark.parametrize("line", [b"null", b" null", b"null {}"])
def test_a_block_that_begins_with_null_is_irregular(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(regular_tables, "BLOCK_BYTES", 10)
    with pytest.raises(IrregularError):  # Arrow would crash
        read(tmp_path, "lines.jsonl", b'{"a": 1}\n' + line + b'\n{"a": 2}\n')


def test_regular_lines(tmp_path: Path) -> None:
    lines = '{"a": "ä: b\\u0041", "c": {"d": [true]}}\r\n{"a": "{x},", "c": {"d": []}}\n\n'.encode()
    assert read(tmp_path, "lines.jsonl", lines) == {
        "a": ["ä: bA", "{x},"],
        "c": [{"d": [True]}, {"d": []}],
    }
    lines = b'{"a": [{"b": 1, "c": [{"d": "x"}]}, {}]}\n{"a": [{"c": [{}], "b": null}]}\n'
    assert read(tmp_path, "lines.jsonl", lines) == {
        "a": [
            [{"b": 1, "c": [{"d": "x"}]}, {"b": None, "c": None}],
            [{"b": None, "c": [{"d": None}]}],
        ]
    }
    lines = b'{"a": 0.5, "b": null, "c": "\\": null"}\n{"a": 3.0, "b": null}\n{"a":null}\n'
    assert read(tmp_path, "lines.jsonl", lines) == {
        "a": [0.5, 3.0, None],
        "b": [None, None, None],
        "c": ['": null', None, None],
    }
    lines = b'{"a": 1, "c": {"d": "x"}}\n{"b": []}\n{"c": {"e": 2}, "b": [true]}\n{}\n'
    assert read(tmp_path, "lines.jsonl", lines) == {
        "a": [1, None, None, None],
        "c": [{"d": "x", "e": None}, None, {"d": None, "e": 2}, None],
        "b": [None, [], [True], None],
    }
    with pytest.raises(ValueError, match="utf-8"):
        read(tmp_path, "lines.jsonl", b'{"a": "\x80"}\n')


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from('{}\n": a'), max_size=24), st.integers(1, 9))
def test_marks_are_counted_in_blocks_of_any_size(text: str, size: int) -> None:
    content = b"{" + text.encode() + b"}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regular_tables, "MARK_BYTES", size)
        for end in (b"", b"\n"):
            marks = regular_tables._count_marks(content + end)
            assert marks.lines == content.count(b"\n") + 1
            assert marks.objects == content.count(b"}\n{") + 1
            assert marks.keys == content.count(b'":')
            assert marks.spaces == content.count(b'" ')
