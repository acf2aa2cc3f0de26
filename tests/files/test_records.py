"""Records know their line, and what is wrong with a file is one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contrapose.data import ImageRef, open_image
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    ProblemList,
    Record,
    StrictProblems,
    parse_json,
    parse_records,
    read_csv_records,
    read_json,
    read_json_records,
    read_jsonl_records,
    read_lines,
    read_parquet_records,
    read_table_records,
)
from contrapose.scores.arrays import read_array

SLOW = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


def record(value: object) -> Record:
    return Record(value, Path("f.json"), 3, "k")


def test_entries_of_a_list_know_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[\n {"a": 1},\n\n {"a":\n 2}, 3\n]\n')
    result = [(r.key, r.line, r.value) for r in read_json_records(path, StrictProblems())]
    assert result == [("0", 2, {"a": 1}), ("1", 4, {"a": 2}), ("2", 5, 3)]


def test_entries_of_an_object_are_named_by_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"x": 1,\n"y"\n:\n [2]}')
    assert [(r.key, r.line, r.value) for r in read_json_records(path, StrictProblems())] == [
        ("x", 1, 1),
        ("y", 2, [2]),
    ]


@pytest.mark.parametrize("text", ["[]", " {} ", "[\n]"])
def test_nothing_in_it_is_no_record(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert list(read_json_records(path, StrictProblems())) == []


def test_entries_under_a_key(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"info": {"images": 0},\n "images": [\n {"id": 4},\n {"id": 5}],\n "z": 1}')
    result = list(read_json_records(path, StrictProblems(), under="images"))
    assert [(r.key, r.line, r.value["id"]) for r in result] == [("0", 3, 4), ("1", 4, 5)]
    with pytest.raises(InputError, match="with the key 'annotations'"):
        list(read_json_records(path, StrictProblems(), under="annotations"))


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('[\n{"a": 1},\n{"a": ', 3, "Expecting value"),
        ('[\n{"a": 1}\n', 3, "it ends in the middle"),
        ('[{"a": 1}\n{"a": 2}]', 2, "expected ','"),
        ('{"a": 1,\n', 2, "Expecting value"),
        ('{"a" 1}', 1, "expected a key"),
        ("{1: 2}", 1, "expected a key"),
        ("[1, 2,\n]", 2, "a comma before the end"),
        ("[1]\n[2]", 2, "extra data"),
        ('[\n"a\nb"]', 2, "Invalid control character"),
        ("[" + "[" * 100_000, 1, "nested too deeply"),
        (f"[{'9' * 5000}]", 1, "a number is too long"),
    ],
)
def test_json_that_is_none(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        list(read_json_records(path, StrictProblems()))
    assert str(refused.value).startswith(f"{path}, line {line}: is not valid JSON")
    assert what in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(suppress_health_check=SLOW, deadline=None)
@given(
    value=st.lists(JSON) | st.dictionaries(st.text(), JSON),
    indent=st.sampled_from([None, 0, 2]),
    cut=st.integers(0, 40),
    junk=st.sampled_from(["", ",", "]", "}", "1", " ", '"']),
)
def test_what_json_itself_takes(
    tmp_path: Path, value: Any, indent: int | None, cut: int, junk: str
) -> None:
    """Entry by entry means the same as all at once, for good files and for damaged ones."""
    text = json.dumps(value, indent=indent)
    path = tmp_path / "a.json"
    for written in (text, text[:cut] + junk + text[cut:], text[:cut] + text[cut + 1 :]):
        path.write_text(written)
        try:
            expected = parse_json(written)
        except ValueError:
            with pytest.raises(InputError):
                list(read_json_records(path, StrictProblems()))
            continue
        if isinstance(expected, list):
            assert [r.value for r in read_json_records(path, StrictProblems())] == expected
        elif isinstance(expected, dict):
            assert {r.key: r.value for r in read_json_records(path, StrictProblems())} == expected


def test_records_before_the_cut_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": 2}, {"a')
    records = read_json_records(path, StrictProblems())
    assert [next(records).value["a"], next(records).value["a"]] == [1, 2]
    with pytest.raises(InputError):
        next(records)


@pytest.mark.parametrize(("text", "what"), [("", "is empty"), ("  \n", "is empty"), ("7", "list")])
def test_json_without_entries(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=what):
        list(read_json_records(path, StrictProblems()))


def test_whole_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert read_json(path) == {"a": [1]}
    path.write_text('{"a":\n')
    with pytest.raises(InputError, match=r"line 2: is not valid JSON"):
        read_json(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read_json(path)
    with pytest.raises(InputError, match="does not exist"):
        read_json(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path)


def test_a_doubled_key_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": {"x": "{", "b": 1},\n "b": [{"x": 1,\n "x": 2}]}')
    with pytest.raises(InputError, match=r"line 3: .*'x' comes twice"):
        read_json(path)
    path.write_text('{"a": {"x": 1},\n "b": {"x": 2},\n "a": {"x": 3}}')
    with pytest.raises(InputError, match=r"line 3: .*'a' comes twice"):
        list(read_json_records(path, StrictProblems()))
    path.write_text('[{"x": 1},\n {"x": 1, "x": 2}]')
    with pytest.raises(InputError, match=r"line 2: .*'x' comes twice"):
        list(read_json_records(path, StrictProblems()))
    path.write_text('{"x": 1}\n{"x": 1, "y": 1, "x": 2}\n')
    with pytest.raises(InputError, match=r"line 2: .*'x' comes twice\)\.$"):
        list(read_jsonl_records(path, StrictProblems()))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.json", read_json),
        *(
            (f"a{end}", lambda path: list(read_table_records(path, StrictProblems())))
            for end in (".jsonl", ".csv", ".parquet")
        ),
        ("a.npy", read_array),
        ("a.png", lambda path: open_image(ImageRef("a", path))),
    ],
)
def test_pipes_are_refused_and_do_not_block(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="not a regular file"):
        read(tmp_path / name)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfid,text\n1,a\n")
    assert [r.value for r in read_csv_records(path, StrictProblems())] == [{"id": "1", "text": "a"}]


def test_bytes_that_are_not_utf8_are_a_problem_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "x"}\n{"a": "caf\xe9"}\n')
    with pytest.raises(InputError, match=r"line 2: .*not UTF-8"):
        list(read_jsonl_records(path, StrictProblems()))
    problems = ProblemList()
    result = [r.value["a"] for r in read_jsonl_records(path, problems)]
    assert result == ["x", "caf�"]
    assert [(p.kind, p.line) for p in problems.problems] == [("not UTF-8", 2)]


def test_lines_that_are_not_json_are_problems_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2\n{"a": 3}\r\n{"a": 4')
    problems = ProblemList()
    result = [(r.line, r.key, r.value["a"]) for r in read_jsonl_records(path, problems)]
    assert result == [(1, "0", 1), (4, "2", 3)]
    assert [p.line for p in problems.problems] == [3, 5]
    assert "cut off" in str(problems.problems[1])


def test_csv_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text\r\n1,"a, b"\r\n2,"two\nlines"\r\n\r\n3,c\r\n')
    result = [(r.line, r.value["text"]) for r in read_csv_records(path, StrictProblems())]
    assert result == [(2, "a, b"), (3, "two\nlines"), (6, "c")]


def test_only_line_ends_end_a_csv_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text\n1,a\u2028b\u0085c\x0bd\n", encoding="utf-8")
    assert [r.value["text"] for r in read_csv_records(path, StrictProblems())] == [
        "a\u2028b\u0085c\x0bd"
    ]


def test_csv_line_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,image,text\n1,a.png,x\n2,b.p\n3,c.png,z\n")
    problems = ProblemList()
    assert [r.value["id"] for r in read_csv_records(path, problems)] == ["1", "3"]
    assert [p.line for p in problems.problems] == [3]
    assert "2 fields where the header has 3" in problems.problems[0].message
    with pytest.raises(InputError, match="line 3"):
        list(read_csv_records(path, StrictProblems()))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("id,text,id\n1,a,2\n", "two columns named 'id'"),
        (f"id,text\n1,{'x' * 200_000}\n", "is not valid CSV"),
    ],
)
def test_csv_that_is_none(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=what):
        list(read_csv_records(path, StrictProblems()))


def test_parquet_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": [["x"], []]}), path)
    assert [(r.line, r.key, r.value) for r in read_parquet_records(path)] == [
        (1, "0", {"a": 1, "b": ["x"]}),
        (2, "1", {"a": 2, "b": []}),
    ]
    assert [r.value for r in read_parquet_records(path, ["a"])] == [{"a": 1}, {"a": 2}]


def test_parquet_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(InputError, match="does not exist"):
        list(read_parquet_records(path))
    path.write_bytes(b"PAR1 no, not really PAR1")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        list(read_parquet_records(path))
    pq.write_table(pa.table({"a": list(range(100_000))}), path)
    full = path.read_bytes()
    path.write_bytes(full[:100] + bytes(2000) + full[2100:])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        list(read_parquet_records(path))


def test_tables_are_told_apart_by_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.TSV").write_text("a\tb\n1\t2,3\n")
    assert [r.value for r in read_table_records(tmp_path / "a.TSV", StrictProblems())] == [
        {"a": "1", "b": "2,3"}
    ]
    (tmp_path / "a.ndjson").write_text('{"a": 1}')
    assert [r.value for r in read_table_records(tmp_path / "a.ndjson", StrictProblems())] == [
        {"a": 1}
    ]
    with pytest.raises(InputError, match=r"must end in \.jsonl"):
        read_table_records(tmp_path / "a.txt", StrictProblems())


def test_lines_of_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf one\r\n\r\n two \n")
    assert read_lines(path, StrictProblems()) == [(1, "one"), (3, "two")]


def test_fields() -> None:
    value = {"t": " a ", "n": 7, "f": 2.0, "s": "3.5", "i": "4"}
    assert record(value).text("t") == " a "
    assert record(value).name("n") == "7"
    assert record(value).number("s") == 3.5
    assert (record(value).integer("f"), record(value).integer("i")) == (2, 4)


@pytest.mark.parametrize(
    ("value", "getter", "what"),
    [
        ({}, "text", "'x' is missing"),
        ([], "text", "expected an object with fields, found a list"),
        ({"x": None}, "text", "must be text, found nothing"),
        ({"x": "  "}, "text", "must be text, found empty text"),
        ({"x": 3}, "text", "must be text, found a number"),
        ({"x": "\ud800"}, "text", "half of a surrogate pair"),
        ({"x": True}, "name", "must be text, found true or false"),
        ({"x": float("nan")}, "number", "must be a finite number, found nan"),
        ({"x": 10**400}, "number", "must be a finite number"),
        ({"x": True}, "number", "must be a finite number"),
        ({"x": "1e999"}, "number", "must be a finite number"),
        ({"x": "1_0"}, "number", "must be a finite number, found '1_0'"),
        ({"x": "1_0"}, "integer", "must be a finite number, found '1_0'"),
        ({"x": "\uff11\uff10"}, "number", "must be a finite number"),
        ({"x": [1]}, "number", "must be a finite number, found a list"),
        ({"x": 2.5}, "integer", "must be a whole number, found 2.5"),
    ],
)
def test_fields_that_are_not_what_they_should_be(value: object, getter: str, what: str) -> None:
    with pytest.raises(MalformedError) as raised:
        getattr(record(value), getter)("x")
    assert what in str(raised.value)
    assert "record k" in str(raised.value)


def test_a_malformed_record_is_a_problem_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"t": t}) + "\n" for t in ("a", None, "c")))
    problems = ProblemList()
    result = list(
        parse_records(read_jsonl_records(path, problems), lambda r: r.text("t"), problems)
    )
    assert result == ["a", "c"]
    assert str(problems.problems[0]).startswith(f"{path}, line 2: record 1: 't' must be text")
    with pytest.raises(InputError, match="line 2"):
        list(
            parse_records(
                read_jsonl_records(path, StrictProblems()), lambda r: r.text("t"), StrictProblems()
            )
        )


LINES = st.sampled_from(
    ['{"a": 1}', ' {"a": 1}\t', '{"a": 1}\r', "", "  ", "\r", '{"a": 1} 2', "{}{}", '{"a":', "1}",
     "3", '"é\\u2028"', "[", "]", '["x",', '"y"]', "nul", "NaN", '{"a": "\\ud800"}', "1" * 5000,
     "\x1f"]
)  # fmt: skip


@settings(suppress_health_check=SLOW, deadline=None)
@given(st.lists(LINES, max_size=8), st.booleans())
def test_lines_are_read_as_if_each_stood_alone(
    tmp_path: Path, lines: list[str], ended: bool
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n" * ended, newline="")
    expected: list[tuple[int, str, str]] = []
    faults: list[int] = []
    held = [(i, line.strip()) for i, line in enumerate(lines, 1) if line.strip()]
    for position, (number, line) in enumerate(held):
        try:
            expected.append((number, str(position), repr(parse_json(line))))
        except ValueError:
            faults.append(number)
    problems = ProblemList()
    result = [(r.line, r.key, repr(r.value)) for r in read_jsonl_records(path, problems)]
    assert result == expected
    assert [problem.line for problem in problems.problems] == faults
