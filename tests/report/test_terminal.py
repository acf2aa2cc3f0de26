"""Tables in a terminal: no number is broken at any width, and nothing is left out silently."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from contrapose.report import Table, evaluation_tables, show
from contrapose.report.terminal import fit_table, table_width
from contrapose.results import MetricValue, Results

WIDTHS = (80, 100, 140)
NUMBER = re.compile(r"-?\d+\.\d+")


def printed(parts: list[Table | str], width: int, *, color: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, width=width, no_color=not color, _environ={},
        color_system="standard", highlight=False,
    )  # fmt: skip
    show(console, parts)
    text = stream.getvalue()
    return text if color else re.sub(r"\x1b\[[0-9;]*m", "", text)


def value(share: float, *, n: int = 400, ties: float = 0.0, chance: float = 0.25) -> MetricValue:
    bounds = (max(0.0, share - 0.04), min(1.0, share + 0.04))
    return MetricValue(value=share, ci95=bounds, n=n, chance=chance, ties=ties)


def run(model: str, share: float, *, parts: int = 9, n: int = 400, ties: float = 0.0) -> Results:
    subsets = {
        f"replace-relation-{i}": {
            "accuracy": value(share - i / 100, n=n, ties=ties),
            "augmented_accuracy": value(share / 2, n=n),
        }
        for i in range(parts)
    }
    return Results(
        contrapose="0", benchmark="mine", model=model, score="itc", scores=None, protocol="strict",
        aggregation="mean over examples", examples=n, clusters=None, resamples=100, seed=0,
        metrics={"accuracy": value(share, n=n, ties=ties)}, subsets=subsets,
    )  # fmt: skip


def numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("models", [1, 2, 3, 5, 12])
def test_no_number_is_broken_and_no_line_too_long(width: int, models: int) -> None:
    runs = [run(f"hf:some-organization/model-{i}-patch16-224", 0.3 + i / 20) for i in range(models)]
    text = printed(evaluation_tables(runs), width)
    assert max(map(len, text.splitlines())) <= width
    headline = [f"{100 * one.metrics['accuracy'].value:.2f}" for one in runs]
    assert set(headline) <= set(numbers(text))
    assert all(len(number.partition(".")[2]) == 2 for number in numbers(text))


def test_many_models_are_rows() -> None:
    runs = [run(f"model-{i}", 0.3 + i / 20) for i in range(8)]
    first, second, *_ = evaluation_tables(runs)
    assert isinstance(first, Table)
    assert isinstance(second, Table)
    assert [row[0] for row in first.rows] == [f"model-{i} itc" for i in range(8)]
    assert second.header[1:4] == tuple(f"replace-relation-{i}" for i in range(3))
    few = evaluation_tables(runs[:2])[0]
    assert isinstance(few, Table)
    assert few.header[-2:] == ("model-0 itc", "model-1 itc")


def test_columns_are_left_out_by_priority_and_named() -> None:
    table = Table(
        "", ("<name", "value", "n", "p"), (("a", "1.00", "400", "0.01"),), drop=("p", "n")
    )
    kept, sentence = fit_table(table, table_width(table) - 1)
    assert isinstance(kept, Table)
    assert kept.header == ("<name", "value", "n")
    assert "Left out" in str(sentence)
    assert str(sentence).count("p;") == 1
    assert list(fit_table(table, table_width(table))) == [table]


def test_long_names_are_explained_in_a_legend() -> None:
    rows = tuple((f"hf:organization/a-very-long-model-name-{i}", "50.00") for i in range(2))
    table, legend = fit_table(Table("", ("<model", "value"), rows), 40)
    assert isinstance(table, Table)
    short = [row[0] for row in table.rows]
    assert all(f"{new}: {name}" in str(legend) for new, (name, _) in zip(short, rows, strict=True))
    assert len(set(short)) == 2
    header = ("<part", *(f"hf:organization/a-very-long-model-name-{i}" for i in range(2)))
    wide, letters = fit_table(Table("", header, (("a", "50.00", "51.00"),)), 40)
    assert isinstance(wide, Table)
    assert wide.header == ("<part", "A", "B")
    assert all(name in str(letters) for name in header[1:])


def test_marks_have_a_sign_and_a_color() -> None:
    runs = [run("good", 0.9, parts=0), run("near", 0.88, parts=0), run("bad", 0.1, parts=0)]
    table = evaluation_tables(runs)[0]
    assert isinstance(table, Table)
    first = len(table.header) - 3
    assert table.marks == {(0, first): "best", (0, first + 1): "best", (0, first + 2): "below"}
    plain = table.plain()
    assert "90.00 (86.00–94.00)*" in plain
    assert "10.00 (6.00–14.00)!" in plain
    assert "below chance" in plain
    colored = printed([table], 140, color=True)
    assert "\x1b[1;32m" in colored
    assert "\x1b[31m" in colored
    bare = io.StringIO()
    show(Console(file=bare, width=140, _environ={"NO_COLOR": "1"}), [table])
    assert "\x1b" not in bare.getvalue()


def test_ties_and_counts_have_columns_where_they_occur() -> None:
    plain = evaluation_tables([run("a", 0.5), run("b", 0.6)])[0]
    assert isinstance(plain, Table)
    assert "ties" not in plain.header
    assert plain.header.count("n") == 1
    tied = evaluation_tables([run("a", 0.5, ties=0.1), run("b", 0.6, n=390)])[0]
    assert isinstance(tied, Table)
    assert tied.header[3:] == ("a itc", "n", "ties", "b itc", "n")
    assert tied.rows[0][4:6] == ("400", "10.00")
    assert tied.rows[0][-1] == "390"


def test_main_rows_stand_alone_unless_every_row_is_wanted() -> None:
    runs = [run("a", 0.5, parts=3)]
    table, sentence, *_ = evaluation_tables(runs)
    assert isinstance(table, Table)
    assert {row[1] for row in table.rows} == {"accuracy"}
    assert "3 more" in str(sentence)
    every, *rest = evaluation_tables(runs, every=True)
    assert isinstance(every, Table)
    assert len(every.rows) == 7
    assert not rest
    many = evaluation_tables([run("a", 0.9, parts=60)])[0]
    assert isinstance(many, Table)
    assert len(many.rows) == 41


@given(
    header=st.lists(st.text("ab -/", min_size=1, max_size=30), min_size=2, max_size=9),
    rows=st.integers(1, 4),
    width=st.integers(30, 120),
)
@settings(deadline=None, max_examples=60)
def test_any_table_keeps_its_numbers(header: list[str], rows: int, width: int) -> None:
    cells = tuple(
        (f"row {i}", *(f"{10 * i + k}.25" for k in range(1, len(header)))) for i in range(rows)
    )
    table = Table("", ("<name", *header[1:]), cells)
    text = printed([table], width)
    assert {cell for row in cells for cell in row[1:]} <= set(numbers(text))
    assert max(map(len, text.splitlines())) <= max(width, 40)
