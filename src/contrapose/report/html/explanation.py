"""HTML page of one explained pair: heat maps over the image, shaded words, and dividends below.

Colors are those of the Shapley values: what raises the score is orange, what lowers it blue. The
stronger the color, the larger the value; the maps of two captions share a scale.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import open_images
from contrapose.diagnose.explain import ExplanationRun
from contrapose.diagnose.players import RegionMasks, WordGroups
from contrapose.metrics import BoolArray
from contrapose.report.diagnosis import explanation_lines, sources_line
from contrapose.report.html.dividend_plots import BarSeries, signed_bars
from contrapose.report.html.game_cards import GameCard, PairCard, mask_edge, render_game_cards
from contrapose.report.html.page import (
    element,
    escape,
    image_data_uri,
    render_details,
    render_footer,
    render_page,
    render_section,
)
from contrapose.report.tables import format_number
from contrapose.report.verdicts import spell_player

if TYPE_CHECKING:
    from PIL.Image import Image

RAISES, LOWERS = (204, 78, 0), (0, 114, 178)
"""Colors of values above and below 0."""
HEAT_SIDE = 640
"""Longer side of a heat map in pixels."""
STRONGEST = 0.72
"""Opacity of the largest value."""
LABEL_SIZE = 17
SIGNED = "+.3g"
PAIR_NAMES, PAIR_COLORS = ("text", "against"), (0, 1)


def render_explanation(run: ExplanationRun) -> str:
    """Render the page: verdict, shaded captions and heat maps, with all numbers folded below."""
    explanation = run.value
    first, *rest = explanation_lines(explanation)
    (image,) = open_images(run.example.images)
    sections = [
        element("p", escape(first), class_="headline"),
        *(element("p", escape(line)) for line in rest),
        render_section(
            "The words",
            "Each word in the color of what its group adds to the score.",
            _shaded_captions(run),
        ),
        render_section(
            "The image",
            "Each region in the color of what it adds to the score of the caption. Point at a map "
            "to see the image below it."
            if explanation.regions
            else "",
            _heat_maps(run, image),
        ),
        render_details("Every number", _dividend_card(run, image), *_shapley_charts(run)),
    ]
    lead = sources_line(explanation.words, explanation.regions, explanation.baseline)
    title = f"{explanation.model} · {explanation.score}"
    return render_page(title, lead, sections, render_footer(explanation.notes))


def value_color(value: float, far: float) -> tuple[int, int, int, float]:
    """Color and opacity of a signed value; none where there is nothing to show."""
    share = min(abs(value) / far, 1.0) if far > 0 else 0.0
    return *(RAISES if value > 0 else LOWERS), STRONGEST * share


def largest(values: Sequence[Mapping[str, float]]) -> float:
    """Largest magnitude among values of players: the end of their color scale."""
    return max((abs(value) for some in values for value in some.values()), default=0.0)


def difference_of(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """First less second, by player; empty unless there are two with the same players."""
    if len(values) != 2 or not values[0] or list(values[0]) != list(values[1]):
        return {}
    return {name: value - values[1][name] for name, value in values[0].items()}


def shade_words(text: str, groups: WordGroups, values: Mapping[str, float], far: float) -> str:
    """Caption as markup: each word of a group on the color of the group's value."""
    spans = sorted((start, end, name) for name, words in groups.items() for start, end in words)
    parts: list[str] = []
    at = 0
    for start, end, name in spans:
        if start < at or end > len(text) or name not in values:
            continue
        parts.append(escape(text[at:start]))
        parts.append(_shade(text[start:end], values[name], far, name))
        at = end
    return "".join([*parts, escape(text[at:])])


def _shade(words: str, value: float, far: float, name: str) -> str:
    red, green, blue, opacity = value_color(value, far)
    number = format_number(value, SIGNED)
    label = number if name.partition("·")[0] in words else f"{name} {number}"
    return element(
        "span",
        escape(words),
        element("sub", escape(label)),
        class_="shade",
        style=f"background: rgba({red}, {green}, {blue}, {opacity:.2f})",
        title=f"{spell_player(name)}: {number}",
    )


def _shaded_captions(run: ExplanationRun) -> str:
    values = [pair.word_shapley for pair in run.value.pairs]
    if not any(values):
        return ""
    far = largest(values)
    several = len(values) > 1
    lines = [
        element(
            "p",
            element("b", escape(f"{name} ")) if several else "",
            shade_words(text, groups, shares, far),
            element("small", escape(f" score {game.score:.4f}")),
            class_="caption",
        )
        for name, text, groups, shares, game in zip(
            PAIR_NAMES, run.example.texts, run.groups, values, run.games, strict=False
        )
    ]
    lines.append(_scale_legend(far, "lowers the score", "raises it"))
    if difference := difference_of(values):
        end = largest([difference])
        chips = [_shade(spell_player(name), value, end, name) for name, value in difference.items()]
        lines.append(
            element("p", element("b", "text less against "), " ".join(chips), class_="caption")
        )
        lines.append(_scale_legend(end, "for against", "for text"))
    return "".join(lines)


def draw_heat(
    size: tuple[int, int], masks: RegionMasks, values: Mapping[str, float], far: float
) -> Image:
    """Transparent layer of a heat map: regions in the colors of their values, named.

    Args:
        size: width and height of the layer; masks are enlarged to it.
        masks: regions at the size of the image.
        values: value of each region.
        far: magnitude that has the strongest color.
    """
    from PIL import Image, ImageDraw, ImageFont

    width, height = size
    digits = max(0, 2 - math.floor(math.log10(far))) if far > 0 else 0
    pixels = np.zeros((height, width, 4), dtype=np.uint8)
    labels = []
    for name, mask in masks.items():
        if name not in values:
            continue
        large = _enlarge(mask.array(), size)
        red, green, blue, opacity = value_color(values[name], far)
        pixels[large] = (red, green, blue, round(255 * opacity))
        pixels[mask_edge(large, 1)] = (255, 255, 255, 200)
        if large.any():
            labels.append((f"{name} {values[name]:+.{digits}f}", _middle(large)))
    layer = Image.fromarray(pixels)
    draw = ImageDraw.Draw(layer)
    font = ImageFont.load_default(LABEL_SIZE)
    for words, (x, y) in labels:
        half = draw.textlength(words, font=font) / 2 + 3
        at = (min(max(x, half), max(width - half, half)), min(max(y, 12), height - 12))
        draw.text(at, words, fill="white", font=font, anchor="mm",
                  stroke_width=2, stroke_fill="black")  # fmt: skip
    return layer


def _enlarge(mask: BoolArray, size: tuple[int, int]) -> BoolArray:
    width, height = size
    rows = np.arange(height) * mask.shape[0] // height
    columns = np.arange(width) * mask.shape[1] // width
    return np.asarray(mask[np.ix_(rows, columns)])


def _middle(mask: BoolArray) -> tuple[int, int]:
    """X and y of the region's pixel that is nearest to its center of mass."""
    rows, columns = np.nonzero(mask)
    nearest = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
    return int(columns[nearest]), int(rows[nearest])


def _heat_maps(run: ExplanationRun, image: Image) -> str:
    values = [pair.region_shapley for pair in run.value.pairs]
    if not run.masks or not any(values):
        return ""
    scale = HEAT_SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    source = image_data_uri(image.convert("RGB").resize(size), HEAT_SIDE)
    maps = []
    if difference := difference_of(values):
        end = largest([difference])
        layer = draw_heat(size, run.masks, difference, end)
        maps.append(
            _heat_map(
                source, layer, "Difference: text less against", end, "for against", "for text"
            )
        )
    end = largest(values)
    for name, text, shares in zip(PAIR_NAMES, run.example.texts, values, strict=False):
        if shares:
            title = f"{name}: {text}" if len(values) > 1 else text
            layer = draw_heat(size, run.masks, shares, end)
            maps.append(_heat_map(source, layer, title, end, "lowers the score", "raises it"))
    return element("div", *maps, class_="heats")


def _heat_map(source: str, layer: Image, title: str, far: float, low: str, high: str) -> str:
    stream = io.BytesIO()
    layer.save(stream, "PNG", optimize=True)
    over = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    picture = element(
        "div",
        element("img", src=source, alt=f"image of: {title}"),
        element("img", src=over, alt=f"heat map of: {title}", class_="over"),
        class_="heat",
        tabindex="0",
    )
    caption = element("figcaption", element("strong", escape(title)))
    return element("figure", caption, picture, _scale_legend(far, low, high))


def _scale_legend(far: float, low: str, high: str) -> str:
    """Legend of a color scale: words and values of both ends."""
    red, blue = (", ".join(map(str, color)) for color in (RAISES, LOWERS))
    ramp = f"rgba({blue}, {STRONGEST}), transparent, rgba({red}, {STRONGEST})"
    return element(
        "div",
        element("span", escape(f"{low} {format_number(-far, SIGNED)}")),
        element("i", style=f"background: linear-gradient(to right, {ramp})"),
        element("span", escape(f"{format_number(far, SIGNED)} {high}")),
        class_="scale",
    )


def _dividend_card(run: ExplanationRun, image: Image) -> str:
    pairs = [
        PairCard(name, 0, text, groups, game, color)
        for name, text, groups, game, color in zip(
            PAIR_NAMES, run.example.texts, run.groups, run.games, PAIR_COLORS, strict=False
        )
    ]
    scores = [game.score for game in run.games]
    verdict = (
        f"score {scores[0]:.4g}"
        if len(scores) < 2
        else f"text less against: {format_number(scores[0] - scores[1], '+.4g')}"
    )
    card = GameCard(run.value.image, verdict, [(image, run.masks)], pairs)
    words = (
        "A bar is what words or regions add to the score together, beyond what their parts add; "
        "all of the other side is present. Shapley values are dividends, shared out evenly."
    )
    return element("p", escape(words)) + render_game_cards([card])


def _shapley_charts(run: ExplanationRun) -> list[str]:
    charts = []
    for side in ("words", "regions"):
        shares = [
            pair.word_shapley if side == "words" else pair.region_shapley
            for pair in run.value.pairs
        ]
        series = [
            BarSeries(name, values, color)
            for name, values, color in zip(PAIR_NAMES, shares, PAIR_COLORS, strict=False)
            if values
        ]
        charts.append(signed_bars(f"Shapley values of {side}", series))
    return charts
