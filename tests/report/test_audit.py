"""An audit's tables: histograms in a line of text, and a mean of what they hold."""

from __future__ import annotations

import pytest

from contrapose.report.audit import histogram_bars, histogram_mean
from contrapose.report.html.plots import histogram_plot
from contrapose.results.schema import ScoreSpread


def test_bars_are_as_high_as_their_counts() -> None:
    assert histogram_bars([0, 1, 2, 4, 8]) == " ▂▃▅█"
    assert histogram_bars([0, 0]) == "  "
    assert len(histogram_bars([1] * 40)) == 20


def test_the_mean_is_that_of_the_bins() -> None:
    spread = ScoreSpread(edges=(0.0, 1.0, 2.0), right=(1, 3), wrong=(4, 0))
    assert histogram_mean(spread, spread.right) == pytest.approx(1.25)
    assert histogram_mean(spread, spread.wrong) == pytest.approx(0.5)


def test_a_plot_has_both_outlines_and_says_what_they_mean() -> None:
    drawn = histogram_plot("A <score>", [0.0, 1.0, 2.0], [1, 3], [4, 0], "log P")
    assert drawn.count("<polyline") == 4  # two outlines, two signs in the legend
    assert "mean of right captions 1.25, of wrong ones 0.50" in drawn
    assert "A &lt;score&gt;" in drawn


def test_nothing_is_drawn_of_nothing() -> None:
    assert histogram_plot("t", [0.0, 1.0], [1], [0], "x") == ""
    assert histogram_plot("t", [1.0, 1.0], [1], [1], "x") == ""
