"""Pictures of games: outlines, marked words, signed bars, scatter panels; all of it escaped."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from contrapose.engine import RegionMask
from contrapose.report.diagnosis import draw_bar
from contrapose.report.html.dividend_plots import (
    MAX_POINTS,
    BarSeries,
    PlotPanel,
    ScatterRow,
    scatter_grid,
    signed_bars,
)
from contrapose.report.html.game_cards import COLORS, mark_words, mask_edge, outline_regions
from contrapose.report.html.plots import Dot, sensitivity_plot


def test_an_outline_lies_within_its_region() -> None:
    mask = np.zeros((10, 10), dtype=np.bool_)
    mask[2:8, 3:9] = True
    found = mask_edge(mask, 1)
    assert not (found & ~mask).any()
    assert found.sum() == 20
    everywhere = np.ones((4, 4), dtype=np.bool_)
    assert not mask_edge(everywhere, 2).any()


def test_regions_are_drawn_in_their_colours() -> None:
    masks = {}
    for name, columns in (("O1", slice(0, 40)), ("O2", slice(50, 90))):
        array = np.zeros((96, 96), dtype=np.bool_)
        array[30:90, columns] = True
        masks[name] = RegionMask.of(array)
    drawn = outline_regions(Image.new("RGB", (96, 96)), masks)
    assert max(drawn.size) >= 320
    colours = {tuple(pixel) for pixel in np.asarray(drawn).reshape(-1, 3).tolist()}
    assert {COLORS[0], COLORS[1]} <= colours


def test_words_are_marked_and_escaped() -> None:
    text = "<b>cat</b> sits"
    found = mark_words(text, {"O": ((3, 6),), "R<": ((11, 15),)})
    assert found.startswith("&lt;b&gt;<span")
    assert "cat<sub>O</sub>" in found
    assert "sits<sub>R&lt;</sub>" in found
    assert "<b>" not in found
    assert "<sub>" not in mark_words("a cat", {"a": ((0, 1),), "cat": ((2, 5),)})


def test_bars_reach_as_far_as_their_values() -> None:
    found = signed_bars("A <title>", [BarSeries("right", {"O": 0.5, "R": -1.0}, 2)])
    assert "A &lt;title&gt;" in found
    assert found.count('class="bar') == 2
    assert "+0.500" in found
    assert "−1.000" in found
    assert signed_bars("t", []) == ""
    assert signed_bars("t", [BarSeries("right", {"O": 0.0}, 2)]).count("<svg") == 1


def test_bars_of_text() -> None:
    assert draw_bar(1.0, 1.0) == " " * 12 + "│" + "█" * 12
    assert draw_bar(-0.5, 1.0) == " " * 6 + "█" * 6 + "│" + " " * 12
    assert draw_bar(0.0, 0.0) == " " * 12 + "│" + " " * 12


def test_scatter_panels_hold_their_points_and_no_more_than_many() -> None:
    x = np.linspace(-1, 1, 3 * MAX_POINTS)
    found = scatter_grid("T", [ScatterRow("a<b", [PlotPanel("Q_O", "ρ = +1.00", x, x)])], "")
    assert "a&lt;b" in found
    assert MAX_POINTS // 2 <= found.count("h0") <= MAX_POINTS
    assert "nan" not in found
    assert scatter_grid("T", [ScatterRow("a", [PlotPanel("Q_O", "", x[:0], x[:0])])], "") == ""
    still = scatter_grid("T", [ScatterRow("a", [PlotPanel("Q_O", "", x[:2] * 0, x[:2] * 0)])], "")
    assert still.count("h0") == 2


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 20.0])
def test_sensitivities_of_any_size_can_be_drawn(value: float) -> None:
    found = sensitivity_plot("T", {"Q_O": {"m": Dot(value, value, value)}}, ["m"], ["Q_O"])
    assert f"Q_O, m: {value:.3g}" in found
    assert sensitivity_plot("T", {"Q_O": {}}, ["m"], []) == ""
