"""Tables of an audit: histograms in a line of text, and their means."""

from __future__ import annotations

import pytest

from contrapose.report.audit import histogram_bars, histogram_mean
from contrapose.results.schema import ScoreSpread


def test_bars_are_as_high_as_their_counts() -> None:
    assert histogram_bars([0, 1, 2, 4, 8]) == " ▂▃▅█"
    assert histogram_bars([0, 0]) == "  "
    assert len(histogram_bars([1] * 40)) == 20


def test_mean_of_the_bins() -> None:
    spread = ScoreSpread(edges=(0.0, 1.0, 2.0), right=(1, 3), wrong=(4, 0))
    assert histogram_mean(spread, spread.right) == pytest.approx(1.25)
    assert histogram_mean(spread, spread.wrong) == pytest.approx(0.5)
