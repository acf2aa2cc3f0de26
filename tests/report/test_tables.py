"""Tables: lines in a terminal, spaces in a pipe, nothing cut and nothing interpreted."""

from __future__ import annotations

import io

from rich.console import Console

from contrapose.report import Table, show
from contrapose.report.tables import format_interval, format_p_value, format_value

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


def test_terminal_draws_and_folds_without_losing_text() -> None:
    text = drawn(terminal=True)
    assert "─" in text
    assert text.count("b") == 120
    assert "[red]a[/red]" in text


def test_numbers() -> None:
    assert format_value(0.30754, share=True) == "30.75"
    assert format_value(-0.5, share=True, signed=True) == "-50.00"
    assert format_value(1.23456, share=False) == "1.235"
    assert format_value(None, share=True) == "–"
    assert format_interval((0.1, 0.2), share=True) == "10.00 to 20.00"
    assert format_p_value(0.0) == "<0.0001"
    assert format_p_value(0.04567) == "0.0457"
