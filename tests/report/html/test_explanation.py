"""Explanation page: shaded words, heat maps and their colors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import Example
from contrapose.diagnose.explain import Explanation, ExplanationRun, PairValue
from contrapose.diagnose.game_blocks import PairGame
from contrapose.engine import RegionMask
from contrapose.report.html.explanation import (
    LOWERS,
    RAISES,
    difference_of,
    draw_heat,
    render_explanation,
    shade_words,
)
from tests.fakes import patch


def half(left: bool) -> RegionMask:
    array = np.zeros((8, 8), dtype=np.bool_)
    array[:, slice(0, 4) if left else slice(4, 8)] = True
    return RegionMask.of(array)


def test_heat_map_is_large_and_signed() -> None:
    masks = {"P1": half(True), "P2": half(False)}
    layer = draw_heat((200, 200), masks, {"P1": 0.02, "P2": -0.01}, 0.02)
    assert layer.size == (200, 200)
    pixels = np.asarray(layer)
    strong, weak = pixels[20, 20], pixels[20, 180]
    assert tuple(strong[:3]) == RAISES
    assert tuple(weak[:3]) == LOWERS
    assert strong[3] == pytest.approx(2 * weak[3], abs=2)
    assert strong[3] < 255  # the image shows through


def test_words_are_shaded_by_their_value_and_escaped() -> None:
    groups = {"O": ((0, 3),), "R": ((4, 15),)}
    markup = shade_words("<b> in front of", groups, {"O": 1.0, "R": -0.5}, 1.0)
    assert "&lt;b&gt;<sub>O +1</sub>" in markup
    assert f"rgba({', '.join(map(str, RAISES))}, 0.72)" in markup
    assert f"rgba({', '.join(map(str, LOWERS))}, 0.36)" in markup
    assert "relation words (R): −0.5" in markup


def test_difference_needs_the_same_players() -> None:
    assert difference_of([{"P1": 3.0}, {"P1": 1.0}]) == {"P1": 2.0}
    assert difference_of([{"P1": 3.0}, {"P2": 1.0}]) == {}
    assert difference_of([{"P1": 3.0}]) == {}


def explained(texts: tuple[str, ...] = ("a cat", "a dog")) -> ExplanationRun:
    shares = ({"P1": 0.5, "P2": -0.2}, {"P1": 0.1, "P2": -0.1})
    words = ({"O": 0.3}, {"O": -0.3})
    games = tuple(PairGame(0.3, 0.0, w, s, w, s) for w, s in zip(words, shares, strict=True))
    pairs = tuple(
        PairValue(text=text, score=game.score, nobody=0, words=dict(game.words),
                  regions=dict(game.regions), word_shapley=dict(game.words),
                  region_shapley=dict(game.regions))
        for text, game in zip(texts, games, strict=False)
    )  # fmt: skip
    value = Explanation(
        contrapose="0", model="tiny", score="itc", image="cat.png", words="grammar",
        regions="2 superpixels", baseline="zero", pairs=pairs,
    )  # fmt: skip
    example = Example("e", (patch(1),), texts, ((True, *[False] * (len(texts) - 1)),))
    masks = {"P1": half(True), "P2": half(False)}
    groups = [{"O": ((2, 5),)} for _ in texts]
    return ExplanationRun(value, example, games[: len(texts)], groups, masks)


def test_against_has_a_map_of_the_difference() -> None:
    page = render_explanation(explained())
    assert page.count('class="over"') == 3
    assert "Difference: text less against" in page
    assert "lowers the score −0.5" in page
    assert "for text" in page
    single = render_explanation(explained(("a cat",)))
    assert single.count('class="over"') == 1
    assert "Difference" not in single
    hostile = render_explanation(explained(("<img src=x onerror=alert(1)>", "a dog")))
    assert "<img src=x" not in hostile


@pytest.mark.browser
def test_page_fits_a_phone_and_shows_the_image_under_the_pointer(
    browser: Any, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    file = tmp_path / "page.html"
    file.write_text(render_explanation(explained()), encoding="utf-8")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    layer = page.locator(".over").first
    assert float(layer.evaluate("e => getComputedStyle(e).opacity")) == 1
    layer.hover(force=True)
    expect(layer).to_have_css("opacity", "0.08")
    page.close()
