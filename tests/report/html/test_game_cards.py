"""Game cards: outlines of regions, marked words, escaped text."""

from __future__ import annotations

import numpy as np
from PIL import Image

from contrapose.engine import RegionMask
from contrapose.report.html.game_cards import COLORS, mark_words, mask_edge, outline_regions


def test_outline_lies_within_its_region() -> None:
    mask = np.zeros((10, 10), dtype=np.bool_)
    mask[2:8, 3:9] = True
    edge = mask_edge(mask, 1)
    assert not (edge & ~mask).any()
    assert edge.sum() == 20
    everywhere = np.ones((4, 4), dtype=np.bool_)
    assert not mask_edge(everywhere, 2).any()


def test_regions_are_drawn_in_their_colors() -> None:
    masks = {}
    for name, columns in (("O1", slice(0, 40)), ("O2", slice(50, 90))):
        array = np.zeros((96, 96), dtype=np.bool_)
        array[30:90, columns] = True
        masks[name] = RegionMask.of(array)
    drawn = outline_regions(Image.new("RGB", (96, 96)), masks)
    assert max(drawn.size) >= 320
    colors = {tuple(pixel) for pixel in np.asarray(drawn).reshape(-1, 3).tolist()}
    assert {COLORS[0], COLORS[1]} <= colors


def test_words_are_marked_and_escaped() -> None:
    text = "<b>cat</b> sits"
    markup = mark_words(text, {"O": ((3, 6),), "R<": ((11, 15),)})
    assert markup.startswith("&lt;b&gt;<span")
    assert "cat<sub>O</sub>" in markup
    assert "sits<sub>R&lt;</sub>" in markup
    assert "<b>" not in markup
    assert "<sub>" not in mark_words("a cat", {"a": ((0, 1),), "cat": ((2, 5),)})
