"""Dividend plots: signed bars and scatter panels, escaped and finite."""

from __future__ import annotations

import numpy as np

from contrapose.report.html.dividend_plots import (
    MAX_POINTS,
    BarSeries,
    PlotPanel,
    ScatterRow,
    scatter_grid,
    signed_bars,
)


def test_bars_have_their_values() -> None:
    markup = signed_bars("A <title>", [BarSeries("right", {"O": 0.5, "R": -1.0}, 2)])
    assert "A &lt;title&gt;" in markup
    assert markup.count('class="bar') == 2
    assert "+0.500" in markup
    assert "−1.000" in markup
    assert signed_bars("t", []) == ""
    assert signed_bars("t", [BarSeries("right", {"O": 0.0}, 2)]).count("<svg") == 1


def test_scatter_panels_draw_a_limited_number_of_points() -> None:
    x = np.linspace(-1, 1, 3 * MAX_POINTS)
    markup = scatter_grid("T", [ScatterRow("a<b", [PlotPanel("Q_O", "ρ = +1.00", x, x)])], "")
    assert "a&lt;b" in markup
    assert MAX_POINTS // 2 <= markup.count("h0") <= MAX_POINTS
    assert "nan" not in markup
    assert scatter_grid("T", [ScatterRow("a", [PlotPanel("Q_O", "", x[:0], x[:0])])], "") == ""
    still = scatter_grid("T", [ScatterRow("a", [PlotPanel("Q_O", "", x[:2] * 0, x[:2] * 0)])], "")
    assert still.count("h0") == 2


def test_points_beyond_the_frame_are_counted() -> None:
    x = np.linspace(-1, 1, 1000)
    far = x.copy()
    far[:2], far[-3:] = -50, 50
    markup = scatter_grid("T", [ScatterRow("a", [PlotPanel("Q_O", "n = 1,000", x, far)])], "")
    assert "n = 1,000, 5 beyond" in markup
    assert f"more than {MAX_POINTS} points" in markup
    assert "beyond" not in scatter_grid(
        "T", [ScatterRow("a", [PlotPanel("Q_O", "n = 3", x[:3], x[:3])])], ""
    )


def test_line_and_band() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=60)
    y = 2 * x + 0.3 * random.normal(size=60)
    panel = PlotPanel("Q_O", "", x, y, np.arange(60), 200)
    markup = scatter_grid("T", [ScatterRow("a", [panel])], "")
    assert markup.count('class="fit"') == markup.count('class="band"') == 1
    assert "nan" not in markup
    few = PlotPanel("Q_O", "", x, y, np.arange(60) % 3, 200)
    markup = scatter_grid("T", [ScatterRow("a", [few])], "")
    assert markup.count('class="fit"') == 1
    assert "band" not in markup
    still = PlotPanel("Q_O", "", x * 0, y, np.arange(60), 200)
    assert 'class="fit"' not in scatter_grid("T", [ScatterRow("a", [still])], "")
