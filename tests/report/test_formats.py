"""Results as Markdown, LaTeX and CSV: nothing is interpreted, nothing is rounded in CSV."""

from __future__ import annotations

import csv
import io

import pytest

from contrapose.report import Table
from contrapose.report.formats import render_csv, render_text, result_rows, table_rows
from contrapose.results import MetricValue, Results
from tests.conftest import Cli

TABLE = Table(
    "a_b · 95 %",
    ("<model", "group|x", "n"),
    (("[hf](x)<b>", "50.00 (40.00–60.00)", "4"), ("b&c_d", "10.00", "4")),
    marks={(0, 1): "best", (1, 1): "below"},
)
VALUE = MetricValue(value=1 / 3, ci95=(0.1, 0.6), n=9, chance=0.25, ties=0.0)
RESULTS = Results(
    contrapose="0", benchmark="mine", model="hf:org/name", score="itc", scores=None,
    protocol="strict", aggregation="mean over examples", examples=9, clusters=None, resamples=100,
    seed=0, metrics={"accuracy": VALUE}, subsets={"a": {"accuracy": VALUE}},
)  # fmt: skip


def test_markdown() -> None:
    text = render_text([TABLE, "A note | with *stars*."], "markdown")
    lines = text.splitlines()
    assert lines[0] == "**a_b · 95 %**"
    assert lines[2] == r"| model | group\|x | n |"
    assert lines[3] == "|---|---:|---:|"
    assert lines[4] == r"| \[hf\](x)\<b\> | **50.00 (40.00–60.00)** | 4 |"
    assert lines[5] == "| b&c_d | 10.00! | 4 |"
    assert lines[-1] == r"A note \| with \*stars\*."
    assert "bold: " in text


def test_latex() -> None:
    text = render_text([TABLE, "100 % of\nit"], "latex")
    assert r"\caption{a\_b $\cdot$ 95 \%}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert r"b\&c\_d & 10.00! & 4 \\" in text
    assert r"\textbf{50.00 (40.00--60.00)}" in text
    assert text.splitlines()[-1] == "% 100 % of it"
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(result_rows([RESULTS])))))
    assert [row["part"] for row in rows] == ["all", "a"]
    assert float(rows[0]["value"]) == 1 / 3
    assert (rows[0]["low"], rows[0]["n"], rows[0]["model"]) == ("0.1", "9", "hf:org/name")
    tricky = render_csv([{"a": 'x,"y"\nz', "b": None}, {"a": 1, "c": 2}])
    assert list(csv.reader(io.StringIO(tricky))) == [
        ["a", "b", "c"], ['x,"y"\nz', "", ""], ["1", "", "2"],
    ]  # fmt: skip
    assert next(iter(table_rows(TABLE)))["n"] == "4"


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_the_command(cli: Cli, form: str) -> None:
    said = cli("list", "scores", "--format", form)
    assert said.status == 0, said
    assert "itc" in said.out
    start = {"markdown": "| score |", "latex": r"\begin{table}", "csv": "score,of"}[form]
    assert said.out.startswith(start)
    assert "--format" in cli("list", "scores", "--format", form, "--json").refused()
    assert cli("list", "scores", "--format", "docx").status == 2
