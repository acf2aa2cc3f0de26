"""Terminal tables of diagnoses: signed bars of text."""

from __future__ import annotations

from contrapose.report.diagnosis import draw_bar


def test_text_bars() -> None:
    assert draw_bar(1.0, 1.0) == " " * 12 + "│" + "█" * 12
    assert draw_bar(-0.5, 1.0) == " " * 6 + "█" * 6 + "│" + " " * 12
    assert draw_bar(0.0, 0.0) == " " * 12 + "│" + " " * 12
