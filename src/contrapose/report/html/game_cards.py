"""HTML cards of single games: outlined regions, marked words, and signed dividends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contrapose.diagnose.game_blocks import PairGame
from contrapose.diagnose.players import RegionMasks, WordGroups
from contrapose.engine import RegionMask
from contrapose.metrics import BoolArray
from contrapose.report.html.dividend_plots import BarSeries, signed_bars
from contrapose.report.html.page import element, escape, image_data_uri

if TYPE_CHECKING:
    from PIL.Image import Image

GROUP_COLORS = {"O": 0, "R": 3, "A": 2}
"""Colours of the usual groups."""


def mark_words(text: str, groups: WordGroups) -> str:
    """Caption as markup: each group's words in its color, with the group's name below."""
    colours = {name: GROUP_COLORS.get(name, place % 6) for place, name in enumerate(groups)}
    spans = sorted((start, end, name) for name, each in groups.items() for start, end in each)
    parts: list[str] = []
    at = 0
    alone = all(text[start:end] == name.partition("·")[0] for start, end, name in spans)
    for start, end, name in spans:
        if start < at or end > len(text):
            continue
        parts.append(escape(text[at:start]))
        below = () if alone else (element("sub", escape(name)),)
        parts.append(
            element("span", escape(text[start:end]), *below, class_=f"word s{colours[name]}")
        )
        at = end
    return "".join([*parts, escape(text[at:])])


MIN_SIDE = 320
"""Pixels of the longer side at the least: outlines of small pictures would hide what they show."""
LINE_WIDTH = 3
FONT_SIZE = 18
COLORS = (
    (217, 130, 0), (179, 86, 138), (0, 114, 178), (0, 137, 106), (204, 78, 0), (91, 103, 112),
)  # fmt: skip
"""Of outlines; the first two are those of the classes s1 and s4."""


def outline_regions(image: Image, masks: Mapping[str, RegionMask]) -> Image:
    """Image with each region's outline and name; small images are enlarged."""
    from PIL import Image, ImageDraw, ImageFont

    scale = max(1, -(-MIN_SIDE // max(image.size)))
    shown = image.convert("RGB").resize((image.width * scale, image.height * scale))
    pixels = np.array(shown)
    places = []
    for number, (name, mask) in enumerate(masks.items()):
        colour = COLORS[number % len(COLORS)]
        large = np.kron(mask.array(), np.ones((scale, scale), dtype=np.bool_))
        if large.shape != pixels.shape[:2] or not large.any():
            continue
        pixels[mask_edge(large, LINE_WIDTH)] = colour
        rows, columns = np.nonzero(large)
        places.append((name, colour, int(columns.min()), int(rows.min())))
    drawn = Image.fromarray(pixels)
    draw = ImageDraw.Draw(drawn)
    font = ImageFont.load_default(FONT_SIZE)
    for name, colour, x, y in places:
        box = draw.textbbox((0, 0), name, font=font)
        width, height = box[2] + 6, box[3] + 4
        left, top = min(x, drawn.width - int(width)), max(y - int(height), 0)
        draw.rectangle((left, top, left + width, top + height), fill=colour)
        draw.text((left + 3, top + 1), name, fill="white", font=font)
    return drawn


def mask_edge(mask: BoolArray, thick: int) -> BoolArray:
    """Pixels of a region next to its outside; the image border does not count."""
    inner = mask
    for _ in range(thick):
        padded = np.pad(inner, 1, mode="edge")
        inner = inner & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(mask & ~inner)


MAX_PATTERNS = 12
"""Patterns of a chart: those that add or take away most."""
RIGHT, WRONG = 2, 3
"""Colours of bars."""


@dataclass(frozen=True, slots=True, eq=False)
class PairCard:
    """Image-caption pair of a game card.

    Attributes:
        name: what it is called in charts: right, wrong.
        image: its place among the card's images.
        text: the caption.
        groups: its words that play.
        cell: its game.
        looks: number of its colour.
    """

    name: str
    image: int
    text: str
    groups: WordGroups
    cell: PairGame
    looks: int = RIGHT


@dataclass(frozen=True, slots=True, eq=False)
class GameCard:
    """Contents of a game card.

    Attributes:
        title: of the card.
        verdict: beside it.
        images: the pictures, with their regions.
        shown: the pairs that are compared.
        sides: which dividends are drawn: words, regions, or both.
    """

    title: str
    verdict: str
    images: Sequence[tuple[Image, RegionMasks]]
    shown: Sequence[PairCard]
    sides: Sequence[str] = ("words", "regions")


def render_game_cards(cards: Sequence[GameCard]) -> str:
    """Render all game cards, side by side where there is room."""
    return element("div", *map(_game_card, cards), class_="games") if cards else ""


def _game_card(card: GameCard) -> str:
    header = element(
        "header", element("span", escape(card.title)), element("small", escape(card.verdict))
    )
    several = len(card.images) > 1
    pictures = [
        element(
            "div",
            element(
                "img",
                src=image_data_uri(outline_regions(image, masks)),
                alt=_image_alt(card, place),
            ),
            escape(card.shown[place].name) if several and place < len(card.shown) else "",
        )
        for place, (image, masks) in enumerate(card.images)
    ]
    texts = dict.fromkeys(shown.text for shown in card.shown)
    rows = [
        element(
            "tr",
            element("td", mark_words(text, _caption_groups(card, text)), class_="left"),
            *_score_cells(card, text),
        )
        for text in texts
    ]
    table = element("table", element("tbody", *rows))
    charts = "".join(_dividend_chart(card, side) for side in card.sides)
    return element("article", header, element("div", *pictures, class_="images"), table, charts)


def _caption_groups(card: GameCard, text: str) -> WordGroups:
    return next(shown.groups for shown in card.shown if shown.text == text)


def _score_cells(card: GameCard, text: str) -> list[str]:
    cells = []
    for shown in card.shown:
        if shown.text == text:
            name = element("span", escape(shown.name), class_=_score_class(shown))
            cells.append(element("td", f"{shown.cell.score:.3f}".replace("-", "−"), name))
    return cells


def _score_class(shown: PairCard) -> str:
    return {RIGHT: "right", WRONG: "wrong"}.get(shown.looks, f"plain s{shown.looks}")


def _image_alt(card: GameCard, place: int) -> str:
    shown = next((each.text for each in card.shown if each.image == place), card.title)
    return f"picture for: {shown}"


def _dividend_chart(card: GameCard, side: str) -> str:
    """Dividend chart of all pairs if they have the same patterns, else one chart per pair."""
    values = [shown.cell.words if side == "words" else shown.cell.regions for shown in card.shown]
    if not any(values):
        return ""
    title = "Dividends of words" if side == "words" else "Dividends of regions"
    if all(list(each) == list(values[0]) for each in values):
        largest = strongest_patterns([*values])
        series = [
            BarSeries(shown.name, {name: each[name] for name in largest}, shown.looks)
            for shown, each in zip(card.shown, values, strict=True)
        ]
        return signed_bars(title, series, _omission_note(len(values[0]), len(largest)))
    return "".join(
        signed_bars(
            f"{title}, {shown.name}",
            [
                BarSeries(
                    shown.name,
                    {name: each[name] for name in strongest_patterns([each])},
                    shown.looks,
                )
            ],
            _omission_note(len(each), len(strongest_patterns([each]))),
        )
        for shown, each in zip(card.shown, values, strict=True)
    )


def strongest_patterns(
    values: Sequence[Mapping[str, float]], most: int = MAX_PATTERNS
) -> list[str]:
    """Patterns with the largest dividends in any series, in their original order."""
    names = list(values[0])
    if len(names) <= most:
        return names
    size = {name: max(abs(each[name]) for each in values) for name in names}
    kept = set(sorted(names, key=lambda name: -size[name])[:most])
    return [name for name in names if name in kept]


def _omission_note(all_of: int, drawn: int) -> str:
    return f"The {drawn} largest of {all_of:,}." if drawn < all_of else ""
