"""Tables: rules in a terminal, spaces in a pipe, no text cut and no markup interpreted."""

from __future__ import annotations

import io

from rich.console import Console

from contrapose.report import Table, show
from contrapose.report.tables import (
    format_bounds,
    format_interval,
    format_metric,
    format_number,
    format_p_value,
    format_percent,
    format_value,
    list_notes,
    strongest,
)
from contrapose.results import MetricValue, Results

TABLE = Table("Title", ("<name", "value"), (("[red]a[/red]", "1.00"), ("b" * 120, "10.00")))


def drawn(*, terminal: bool) -> str:
    stream = io.StringIO()
    show(
        Console(file=stream, force_terminal=terminal, width=80, color_system=None), [TABLE, "End."]
    )
    return stream.getvalue()


def test_plain() -> None:
    lines = drawn(terminal=False).splitlines()
    assert lines[0] == "Title"
    assert lines[1].split() == ["name", "value"]
    assert lines[2].startswith("[red]a[/red]")
    assert lines[3] == "b" * 120 + "  10.00"
    assert lines[2].endswith(" 1.00")
    assert len(lines[2]) == len(lines[3])


def test_terminal_draws_and_shortens_names_with_a_legend() -> None:
    text = drawn(terminal=True)
    assert "─" in text
    assert f": {'b' * 120}" in text.replace("\n", "").replace("bbb bbb", "bbbbbb")
    assert "[red]a[/red]" in text


def test_numbers() -> None:
    assert format_value(0.30754, share=True) == "30.75"
    assert format_value(-0.5, share=True, signed=True) == "-50.00"
    assert format_value(1.23456, share=False) == "1.235"
    assert format_value(None, share=True) == "–"
    assert format_interval((0.1, 0.2), share=True) == "10.00 to 20.00"
    assert format_p_value(0.0) == "<0.0001"
    assert format_p_value(0.04567) == "0.0457"


def test_missing_numbers_are_dashes_and_minus_signs_are_typographic() -> None:
    assert [format_number(None), format_percent(None), format_bounds(None)] == ["–"] * 3
    assert format_metric(None) == "–"
    assert format_number(-0.12345, "+.2f") == "−0.12"
    assert format_percent(0.4567) == "45.7"
    assert format_bounds((-0.5, 0.25)) == "−0.5 to 0.25"
    assert format_bounds((0.1, 0.25), ".1f", scale=100) == "10.0 to 25.0"
    metric = MetricValue(value=0.5, ci95=(0.25, 0.75), n=4, chance=0.5)
    assert format_metric(metric) == "50.00 (25.00–75.00)"
    assert format_metric(metric.model_copy(update={"chance": None})) == "0.500 (0.250–0.750)"
    assert format_metric(metric, digits=1) == "50.0 (25.0–75.0)"


def test_strongest_keeps_the_order() -> None:
    first, second = {"a": 0.1, "b": -0.9, "c": 0.5}, {"a": 0.8, "b": 0.0, "c": 0.0}
    assert strongest([first], 2) == ["b", "c"]
    assert strongest([first, second], 2) == ["a", "b"]
    assert strongest([first], 5) == ["a", "b", "c"]


def test_escape_codes_are_spelled_out() -> None:
    table = Table("a\x1b[2J", ("<b\x9b1m",), (("red\x1b]0;title\x07\u202e",),))
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=80, color_system=None)
        show(console, [table, "note \x1b[31m\r"])
        printed = stream.getvalue()
        assert r"red\x1b]0;title\x07\u202e" in printed
        assert r"note \x1b[31m\r" in printed
        for code in ("\x1b", "\x9b", "\x07", "\r", "\u202e"):
            assert code not in printed


def test_ends_of_lines_in_names_break_no_table() -> None:
    table = Table("", ("<name", "value"), (("a\nb\tc\u2028", "1.00"), ("d", "2.00")))
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=80, color_system=None)
        show(console, [table])
        (line,) = [line for line in stream.getvalue().splitlines() if "1.00" in line]
        assert r"a\nb\tc\u2028" in line


def test_notes_name_score_files_without_a_score() -> None:
    """A score file has no name of a score, and the note must not invent one."""
    base = Results(
        contrapose="0", benchmark="vsr", model="a", protocol="strict", aggregation="mean",
        examples=1, clusters=None, resamples=100, seed=0, metrics={}, subsets={}, notes=("one",),
    )  # fmt: skip
    other = base.model_copy(update={"model": "b", "notes": ("two",)})
    assert list_notes([base, other]) == ["Note on vsr (a): one.", "Note on vsr (b): two."]
