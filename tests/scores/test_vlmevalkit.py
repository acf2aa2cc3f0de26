"""Result tables of VLMEvalKit: outcomes, chance, groups, names, spreadsheets, damage."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

import contrapose as cp
from contrapose.errors import InputError
from contrapose.scores.logs import read_logs
from tests.conftest import Cli

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as VLMEvalKit dumps them: quoted, by a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        writer = csv.DictWriter(stream, list(rows[0]), quoting=csv.QUOTE_ALL, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_sheet(path: Path, rows: list[dict[str, Any]], extra: str = "") -> Path:
    """Rows as a spreadsheet, with shared strings, as xlsxwriter writes it."""
    strings: dict[str, int] = {}

    def cell(column: int, line: int, value: Any) -> str:
        name = f"{chr(ord('A') + column)}{line}"
        if isinstance(value, bool):
            return f'<c r="{name}" t="b"><v>{int(value)}</v></c>'
        if isinstance(value, int | float):
            return f'<c r="{name}"><v>{value}</v></c>'
        if not value:
            return ""  # empty cells are not written
        return f'<c r="{name}" t="s"><v>{strings.setdefault(value, len(strings))}</v></c>'

    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    body = "".join(
        f'<row r="{i}">{"".join(cell(j, i, value) for j, value in enumerate(line))}</row>'
        for i, line in enumerate(lines, 1)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "xl/worksheets/sheet1.xml",
            f'<?xml version="1.0"?>{extra}<worksheet xmlns="{SHEET}"><sheetData>{body}</sheetData>'
            "</worksheet>",
        )
        items = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
        archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{SHEET}">{items}</sst>')
    return path


def choice_row(i: int, *, right: bool, **more: Any) -> dict[str, Any]:
    """Row of `mcq_vanilla_eval`: options, prediction, hit and log."""
    return {
        "index": i,
        "question": f"What is {i} < 3, in “words”?",
        "A": "this, and",
        "B": "that",
        "C": "" if i % 2 else "more",
        "answer": "A",
        "category": "counting" if i % 3 else "color",
        "prediction": "A" if right else "B",
        "hit": int(right),
        "log": "Match Log: A",
        **more,
    }


@pytest.mark.parametrize("suffix", [".xlsx", ".csv", ".tsv", ".json"])
def test_multiple_choice_in_every_format(tmp_path: Path, suffix: str) -> None:
    rows = [choice_row(i, right=i % 4 == 0) for i in range(40)]
    path = tmp_path / "llava_v1.5" / f"llava_v1.5_MMVP_openai_result{suffix}"
    if suffix == ".json":
        path.parent.mkdir()
        path.write_text(json.dumps(rows))
    else:
        (write_sheet if suffix == ".xlsx" else write_table)(path, rows)
    (log,) = read_logs(path)
    assert (log.tool, log.model, log.task) == ("vlmevalkit", "llava_v1.5", "MMVP")
    assert log.values["accuracy"] == [float(i % 4 == 0) for i in range(40)]
    assert log.chance["accuracy"][:2] == [1 / 3, 1 / 2]
    assert log.tags["category"][:4] == ("color", "counting", "counting", "color")


def test_yes_or_no_by_score_and_by_reply(tmp_path: Path) -> None:
    """`auxmatch` has booleans; predictions alone are read as VLMEvalKit reads them."""
    rows: list[dict[str, Any]] = [
        {"index": 0, "answer": "Yes", "prediction": "Yes, it is."},
        {"index": 1, "answer": "No", "prediction": "yes and no"},
        {"index": 2, "answer": "No", "prediction": "No."},
        {"index": 3, "answer": "Yes", "prediction": "I know nothing"},
    ]
    (log,) = read_logs(write_table(tmp_path / "m_POPE.tsv", rows))
    assert (log.model, log.task) == ("m", "POPE")
    assert log.values == {"accuracy": [1.0, 0.0, 1.0, 0.0]}
    assert log.chance["accuracy"] == [0.5] * 4
    scored = [{**row, "extracted": "No", "score": row["answer"] == "No"} for row in rows]
    (log,) = read_logs(write_sheet(tmp_path / "m_POPE_auxmatch.xlsx", scored))
    assert (log.task, log.values["accuracy"]) == ("POPE", [0.0, 1.0, 1.0, 0.0])


def test_rotated_questions_and_graded_answers_have_no_chance(tmp_path: Path) -> None:
    rows = [choice_row(i, right=True, g_index=i) for i in range(12)]
    (log,) = read_logs(write_table(tmp_path / "m_MMBench_result.csv", rows))
    assert log.chance == {}
    graded = [{"index": i, "answer": "x", "prediction": "y", "eval_score": 0.3} for i in range(12)]
    (run,) = cp.import_logs(write_table(tmp_path / "m_TextVQA_results.csv", graded), resamples=100)
    assert run.metrics["eval_score"].share
    assert run.metrics["eval_score"].chance is None


def test_imported_table_has_groups_and_percentages(tmp_path: Path, cli: Cli) -> None:
    rows = [
        {"index": i, "answer": "x", "prediction": "y", "hit": i % 4 == 0, "category": "ab"[i % 2]}
        for i in range(40)
    ]
    path = write_table(tmp_path / "m" / "m_Toy_result.csv", rows)
    shown = cli("import", path, "--resamples", "100", "--out", tmp_path / "run")
    assert shown.status == 0, shown
    assert "25.00 (" in shown.out
    assert "50.00 (" in shown.out
    assert "0.250" not in shown.out
    run = cp.load_run(tmp_path / "run")
    assert run.metrics["accuracy"].share
    assert run.results.subsets["a"]["accuracy"].value == 0.5


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"index": 1, "prediction": "a", "answer": "cat"}], "no column that says which are right"),
        ([{"index": 1, "prediction": "a", "hit": "many"}], "should be a number"),
        ([{"index": 1, "prediction": "a", "hit": 1}] * 2, "twice"),
        ([{"number": 1, "prediction": "a", "hit": 1}], "no columns index and prediction"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, rows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_logs(write_sheet(tmp_path / "m_Toy.xlsx", rows))


def test_damaged_spreadsheets_are_refused(tmp_path: Path) -> None:
    good = write_sheet(tmp_path / "m_Toy.xlsx", [choice_row(i, right=True) for i in range(3)])
    content = good.read_bytes()
    for damage in (content[:200], b"not a zip", content.replace(b"sheet1", b"sheetA")):
        good.write_bytes(damage)
        with pytest.raises(InputError, match="spreadsheet"):
            read_logs(good)
    entities = '<!DOCTYPE a [<!ENTITY b "bbbb">]>'
    with pytest.raises(InputError, match="damaged spreadsheet"):
        read_logs(write_sheet(good, [choice_row(0, right=True)], extra=entities))


def test_naturalbench_in_groups_of_four(tmp_path: Path) -> None:
    """Replies of VLMEvalKit and answers of lmms-eval give group metrics, not a mean of yes."""
    replies = ["Yes", "No", "no", "yes, it is", "A", "B", "A", "B"]
    kinds = ["yes_no"] * 4 + ["multiple_choice"] * 4
    rows = [
        {"index": i, "question": "?", "answer": "x", "type": kind, "prediction": reply}
        for i, (reply, kind) in enumerate(zip(replies, kinds, strict=True))
    ]
    table = write_sheet(tmp_path / "m_NaturalBenchDataset.xlsx", rows[::-1])
    run = cp.measure(table, "naturalbench", partial=True, resamples=100)
    values = {name: run.metrics[name].value for name in ("question", "image", "single", "group")}
    assert values == {"question": 0.75, "image": 0.5, "single": 0.75, "group": 0.5}
    answers = [1, 0, 0, 1, 1, 0, 1, 0]
    lines = [
        {"doc_id": i, "resps": [["?"]], "naturalbench_G_ACC": {"id": str(i), "score": answer}}
        for i, answer in enumerate(answers)
    ]
    samples = tmp_path / "1_samples_naturalbench.jsonl"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    same = cp.measure(samples, "naturalbench", partial=True, resamples=100)
    assert {name: same.metrics[name].value for name in values} == values
    with pytest.raises(InputError, match="groups of four"):
        cp.import_logs(samples)
