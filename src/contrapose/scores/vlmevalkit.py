"""Result tables of VLMEvalKit: one row an item, as `.xlsx`, `.csv`, `.tsv` or `.json`.

Its evaluation writes a table beside the predictions: `MODEL_DATA_JUDGE_result` with the column
`hit` (multiple choice), `MODEL_DATA_auxmatch` with `extracted` and `score` (yes or no), or
`MODEL_DATA_results` with `eval_score` (open questions). A spreadsheet is a zip of XML files, which
the standard library reads.
"""

from __future__ import annotations

import math
import re
import string
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from contrapose.errors import InputError, first_line, printable
from contrapose.files import (
    StrictProblems,
    parse_count,
    read_csv_records,
    read_json,
    require_regular,
)

LARGEST_SHEET = 512 * 2**20
"""Bytes of the largest part of a spreadsheet that is read."""

OUTCOMES = ("hit", "correct", "score", "eval_score", "partial_match")
"""Columns that say how right an item is."""

GROUPS = ("split", "category", "l2-category")
"""Columns that VLMEvalKit breaks its accuracies down by."""

SUFFIX = re.compile(
    r"_(auxmatch|score|results?|(openai|gpt4|exact_matching|[^_]*gpt-?[\w.-]*)_result)$"
)
"""End of a file's name that says which step wrote it, with the judge's name."""

NUMBERS = {"true": 1.0, "false": 0.0}

Row = Mapping[str, Any]


@dataclass(slots=True)
class ResultTable:
    """Items of a result table: their outcomes, groups and chance levels."""

    task: str
    model: str
    ids: list[str]
    values: list[dict[str, float | None]]
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chance: list[float] | None = None
    notes: tuple[str, ...] = ()


def is_result_table(path: Path) -> bool:
    """Whether a file is a table of VLMEvalKit: a spreadsheet, or rows with index and prediction."""
    suffix = path.suffix.lower()
    if suffix == ".xlsx":
        return True
    if suffix not in (".csv", ".tsv", ".json") or not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(2**16)
    if suffix == ".json":
        return start.lstrip()[:1] == b"[" and b'"index"' in start and b'"prediction"' in start
    header = start.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").replace('"', "")
    names = re.split(r"[,\t]", header.strip())
    return {"index", "prediction"} <= set(names) and not {"image", "text"} <= set(names)


def read_result_table(path: Path) -> ResultTable:
    """Read a table of VLMEvalKit.

    Raises:
        InputError: it is damaged, an index is there twice, or no column says what is right.
    """
    rows = list(_read_rows(path))
    if not rows:
        raise InputError("is empty.", file=path)
    ids: list[str] = []
    seen: set[str] = set()
    for line, row in rows:
        if "index" not in row or "prediction" not in row:
            raise InputError(
                "is no result table of VLMEvalKit: it has no columns index and prediction.",
                file=path,
                line=line,
            )
        name = _text(row["index"])
        if not name or name in seen:
            word = f"the index {printable(name)} is there twice" if name else "a row has no index"
            raise InputError(f"{word}.", file=path, line=line)
        seen.add(name)
        ids.append(name)
    model, task = _split_name(path)
    values, notes = _read_outcomes(rows, path)
    tags = {
        name: tuple(_text(row.get(name, "")) for _, row in rows)
        for name in GROUPS
        if any(_text(row.get(name, "")) for _, row in rows)
    }
    return ResultTable(task, model, ids, values, tags, _chance([row for _, row in rows]), notes)


def read_replies(path: Path) -> list[tuple[str, str]]:
    """Replies in the order of their index, each with the type of its question, if it has one.

    Raises:
        InputError: the table is damaged, or an index is no number or there twice.
    """
    replies: dict[int, tuple[str, str]] = {}
    for line, row in _read_rows(path):
        text = _text(row.get("index", ""))
        number = parse_count(text)
        if number is None or number in replies:
            word = "is no number" if number is None else "is there twice"
            raise InputError(f"the index {printable(text)!r} {word}.", file=path, line=line)
        replies[number] = _text(row.get("prediction", "")), _text(row.get("type", ""))
    return [replies[number] for number in sorted(replies)]


def _read_outcomes(
    rows: Sequence[tuple[int, Row]], path: Path
) -> tuple[list[dict[str, float | None]], tuple[str, ...]]:
    """Outcomes of the items: the table's columns, or the answers of yes/no questions."""
    columns = [name for name in OUTCOMES if name in rows[0][1]]
    values: list[dict[str, float | None]] = [{} for _ in rows]
    for name in columns:
        numbers = [_number(row.get(name), name, path, line) for line, row in rows]
        known = [number for number in numbers if number is not None]
        binary = bool(known) and all(number in (0.0, 1.0) for number in known)
        metric = "accuracy" if binary and not any("accuracy" in one for one in values) else name
        for one, number in zip(values, numbers, strict=True):
            one[metric] = number
    if columns:
        return values, ()
    answers = [_text(row.get("answer", "")).strip().lower() for _, row in rows]
    if not all(answer in ("yes", "no") for answer in answers):
        raise InputError(
            "holds predictions, and no column that says which are right "
            f"({', '.join(OUTCOMES)}): take the table that VLMEvalKit's evaluation writes beside "
            "it, such as …_result.xlsx or …_auxmatch.xlsx.",
            file=path,
        )
    for one, answer, (_, row) in zip(values, answers, rows, strict=True):
        reply = row.get("extracted") or row["prediction"]
        one["accuracy"] = float(_read_reply(_text(reply)) == answer)
    return values, ("replies are right where yes or no, but not both, is a word of them",)


def _read_reply(reply: str) -> str:
    """Yes or no, as VLMEvalKit reads a reply; empty where it holds neither or both."""
    words = set(re.findall(r"[a-z]+", reply.lower())) & {"yes", "no"}
    return words.pop() if len(words) == 1 else ""


def _chance(rows: Sequence[Row]) -> list[float] | None:
    """Chance level of each item: one of its options, or ½ for yes or no.

    None where that is not known: open questions, and those that are asked in all rotations.
    """
    if any("g_index" in row for row in rows):
        return None
    levels = []
    for row in rows:
        options = sum(bool(_text(row.get(letter, ""))) for letter in string.ascii_uppercase)
        yes_no = _text(row.get("answer", "")).strip().lower() in ("yes", "no")
        if options < 2 and not yes_no:
            return None
        levels.append(1 / max(options, 2))
    return levels


def _split_name(path: Path) -> tuple[str, str]:
    """Model and task of a file `MODEL_TASK_STEP`, which lies in a folder named by the model."""
    stem = SUFFIX.sub("", path.stem)
    for folder in path.resolve().parents[:2]:
        if folder.name and stem.startswith(f"{folder.name}_"):
            return folder.name, stem[len(folder.name) + 1 :]
    model, _, task = stem.partition("_")
    return (model, task) if task else ("model", stem)


def _number(value: Any, name: str, path: Path, line: int) -> float | None:
    """Number of an outcome; None where there is none."""
    text = _text(value).strip()
    if not text or text.lower() == "nan":
        return None
    try:
        number = NUMBERS[text.lower()] if text.lower() in NUMBERS else float(text)
        if not math.isfinite(number):
            raise ValueError(text)
        return number
    except ValueError:
        raise InputError(
            f"{name} is {printable(text)!r}, and should be a number.", file=path, line=line
        ) from None


def _text(value: Any) -> str:
    """Cell as text; an integer that pandas wrote as a float loses its point."""
    if value is None:
        return ""
    text = str(value)
    return text.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", text) else text


def _read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Line number and cells of every row."""
    suffix = path.suffix.lower()
    if suffix == ".xlsx":
        yield from _read_sheet(path)
    elif suffix == ".json":
        content = read_json(path, StrictProblems())
        for i, row in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(row, dict):
                raise InputError("must hold a list of objects.", file=path)
            yield i + 1, row
    else:
        for record in read_csv_records(path, StrictProblems(), "\t" if suffix == ".tsv" else ","):
            yield record.line or 0, record.value


def _read_sheet(path: Path) -> Iterator[tuple[int, Row]]:
    """Rows of the first sheet of a spreadsheet, by the names in its first row."""
    require_regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            strings: list[str] = []
            if "xl/sharedStrings.xml" in names:
                shared = _parse_member(archive, "xl/sharedStrings.xml", path)
                strings = ["".join(_texts(item)) for item in _children(shared, "si")]
            sheets = sorted(
                (name for name in names if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name)),
                key=lambda name: (len(name), name),
            )
            if not sheets:
                raise InputError("is a spreadsheet without a sheet.", file=path)
            sheet = _parse_member(archive, sheets[0], path)
        header: dict[int, str] = {}
        data = next(_children(sheet, "sheetData"), None)
        for line, row in enumerate(() if data is None else _children(data, "row"), 1):
            cells = {
                _column(cell.get("r", ""), i): _cell_value(cell, strings)
                for i, cell in enumerate(_children(row, "c"))
            }
            if not header:
                header = {i: str(name) for i, name in cells.items() if name != ""}
            elif cells:
                yield line, {name: cells.get(i, "") for i, name in header.items()}
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, IndexError, KeyError,
            NotImplementedError, RuntimeError, ElementTree.ParseError) as error:  # fmt: skip
        raise InputError(f"is a damaged spreadsheet ({first_line(error)}).", file=path) from None


def _parse_member(archive: zipfile.ZipFile, name: str, path: Path) -> ElementTree.Element:
    """Root of an XML file of a spreadsheet; entities, which can grow without end, are refused."""
    size = archive.getinfo(name).file_size
    if size > LARGEST_SHEET:
        raise InputError(f"{name} has {size:,} bytes, more than a table can have.", file=path)
    with archive.open(name) as stream:
        content = stream.read(size + 1)
    if len(content) != size or any(mark in content for mark in (b"<!DOCTYPE", b"<!ENTITY", b"\0")):
        raise ValueError(f"{name} is no sheet")
    return ElementTree.fromstring(content)  # noqa: S314  # without entities


def _children(element: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    """Children with a tag, whatever their namespace."""
    return (child for child in element if child.tag.rpartition("}")[2] == tag)


def _texts(element: ElementTree.Element) -> Iterator[str]:
    """Texts `t` under an element, without those of phonetic readings."""
    for child in element:
        tag = child.tag.rpartition("}")[2]
        if tag == "t":
            yield child.text or ""
        elif tag != "rPh":
            yield from _texts(child)


def _column(reference: str, position: int) -> int:
    """Number of a cell's column from 0: `C7` is 2; its position where it has no reference."""
    letters = re.match(r"[A-Z]{1,3}", reference)
    if letters is None:
        return position
    number = 0
    for letter in letters.group():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _cell_value(cell: ElementTree.Element, strings: Sequence[str]) -> str:
    """Cell as text; booleans as true and false."""
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(text for child in _children(cell, "is") for text in _texts(child))
    value = next((child.text or "" for child in _children(cell, "v")), "")
    if kind == "s":
        return strings[int(value)]
    if kind == "b":
        return "true" if value == "1" else "false"
    return "" if kind == "e" else value
