"""Pictures of games: outlines, marked words, signed bars, scatter panels; all of it escaped."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from contrapose.report.explanation import bar
from contrapose.report.html.outlines import COLOURS, edge, outlined
from contrapose.report.html.plots.dots import Dot
from contrapose.report.html.plots.scatter import MOST, Panel, Row, scatter_grid
from contrapose.report.html.plots.sensitivities import sensitivity_plot
from contrapose.report.html.plots.signed import Series, signed_bars
from contrapose.report.html.wordgroups import marked
from contrapose.scoring.hidden import Mask


def test_an_outline_lies_within_its_region() -> None:
    mask = np.zeros((10, 10), dtype=np.bool_)
    mask[2:8, 3:9] = True
    found = edge(mask, 1)
    assert not (found & ~mask).any()
    assert found.sum() == 20
    everywhere = np.ones((4, 4), dtype=np.bool_)
    assert not edge(everywhere, 2).any()


def test_regions_are_drawn_in_their_colours() -> None:
    masks = {}
    for name, columns in (("O1", slice(0, 40)), ("O2", slice(50, 90))):
        array = np.zeros((96, 96), dtype=np.bool_)
        array[30:90, columns] = True
        masks[name] = Mask.of(array)
    drawn = outlined(Image.new("RGB", (96, 96)), masks)
    assert max(drawn.size) >= 320
    colours = {tuple(pixel) for pixel in np.asarray(drawn).reshape(-1, 3).tolist()}
    assert {COLOURS[0], COLOURS[1]} <= colours


def test_words_are_marked_and_escaped() -> None:
    text = "<b>cat</b> sits"
    found = marked(text, {"O": ((3, 6),), "R<": ((11, 15),)})
    assert found.startswith("&lt;b&gt;<span")
    assert "cat<sub>O</sub>" in found
    assert "sits<sub>R&lt;</sub>" in found
    assert "<b>" not in found
    assert "<sub>" not in marked("a cat", {"a": ((0, 1),), "cat": ((2, 5),)})


def test_bars_reach_as_far_as_their_values() -> None:
    found = signed_bars("A <title>", [Series("right", {"O": 0.5, "R": -1.0}, 2)])
    assert "A &lt;title&gt;" in found
    assert found.count('class="bar') == 2
    assert "+0.500" in found
    assert "−1.000" in found
    assert signed_bars("t", []) == ""
    assert signed_bars("t", [Series("right", {"O": 0.0}, 2)]).count("<svg") == 1


def test_bars_of_text() -> None:
    assert bar(1.0, 1.0) == " " * 12 + "│" + "█" * 12
    assert bar(-0.5, 1.0) == " " * 6 + "█" * 6 + "│" + " " * 12
    assert bar(0.0, 0.0) == " " * 12 + "│" + " " * 12


def test_scatter_panels_hold_their_points_and_no_more_than_many() -> None:
    x = np.linspace(-1, 1, 3 * MOST)
    found = scatter_grid("T", [Row("a<b", [Panel("Q_O", "ρ = +1.00", x, x)])], "")
    assert "a&lt;b" in found
    assert MOST // 2 <= found.count("h0") <= MOST
    assert "nan" not in found
    assert scatter_grid("T", [Row("a", [Panel("Q_O", "", x[:0], x[:0])])], "") == ""
    still = scatter_grid("T", [Row("a", [Panel("Q_O", "", x[:2] * 0, x[:2] * 0)])], "")
    assert still.count("h0") == 2


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 20.0])
def test_sensitivities_of_any_size_can_be_drawn(value: float) -> None:
    found = sensitivity_plot("T", {"Q_O": {"m": Dot(value, value, value)}}, ["m"], ["Q_O"])
    assert f"Q_O, m: {value:.3g}" in found
    assert sensitivity_plot("T", {"Q_O": {}}, ["m"], []) == ""
