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
from contrapose.report.tables import format_number, strongest

if TYPE_CHECKING:
    from PIL.Image import Image

GROUP_COLORS = {"O": 0, "R": 3, "A": 2}
"""Colors of the usual word groups."""


def mark_words(text: str, groups: WordGroups) -> str:
    """Caption as markup: each group's words in its color, with the group's name below."""
    colors = {name: GROUP_COLORS.get(name, i % 6) for i, name in enumerate(groups)}
    spans = sorted((start, end, name) for name, words in groups.items() for start, end in words)
    parts: list[str] = []
    at = 0
    single_words = all(text[start:end] == name.partition("·")[0] for start, end, name in spans)
    for start, end, name in spans:
        if start < at or end > len(text):
            continue
        parts.append(escape(text[at:start]))
        label = () if single_words else (element("sub", escape(name)),)
        parts.append(
            element("span", escape(text[start:end]), *label, class_=f"word s{colors[name]}")
        )
        at = end
    return "".join([*parts, escape(text[at:])])


MIN_SIDE = 320
"""Least pixels of the longer side: outlines would hide the content of small images."""
LINE_WIDTH = 3
FONT_SIZE = 18
COLORS = (
    (217, 130, 0), (179, 86, 138), (0, 114, 178), (0, 137, 106), (204, 78, 0), (91, 103, 112),
)  # fmt: skip
"""Colors of outlines; the first two are those of the classes s1 and s4."""


def outline_regions(image: Image, masks: Mapping[str, RegionMask]) -> Image:
    """Image with each region's outline and name; small images are enlarged."""
    from PIL import Image, ImageDraw, ImageFont

    scale = max(1, -(-MIN_SIDE // max(image.size)))
    enlarged = image.convert("RGB").resize((image.width * scale, image.height * scale))
    pixels = np.array(enlarged)
    labels = []
    for number, (name, mask) in enumerate(masks.items()):
        color = COLORS[number % len(COLORS)]
        large = np.kron(mask.array(), np.ones((scale, scale), dtype=np.bool_))
        if large.shape != pixels.shape[:2] or not large.any():
            continue
        pixels[mask_edge(large, LINE_WIDTH)] = color
        rows, columns = np.nonzero(large)
        labels.append((name, color, int(columns.min()), int(rows.min())))
    outlined = Image.fromarray(pixels)
    draw = ImageDraw.Draw(outlined)
    font = ImageFont.load_default(FONT_SIZE)
    for name, color, x, y in labels:
        box = draw.textbbox((0, 0), name, font=font)
        width, height = box[2] + 6, box[3] + 4
        left, top = min(x, outlined.width - int(width)), max(y - int(height), 0)
        draw.rectangle((left, top, left + width, top + height), fill=color)
        draw.text((left + 3, top + 1), name, fill="white", font=font)
    return outlined


def mask_edge(mask: BoolArray, thick: int) -> BoolArray:
    """Pixels of a region next to its outside; the image border does not count."""
    inner = mask
    for _ in range(thick):
        padded = np.pad(inner, 1, mode="edge")
        inner = inner & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(mask & ~inner)


MAX_PATTERNS = 12
"""Patterns of a chart: those with the largest dividends."""
RIGHT, WRONG = 2, 3
"""Colors of bars."""


@dataclass(frozen=True, slots=True, eq=False)
class PairCard:
    """Image-caption pair of a game card.

    Attributes:
        name: of the pair in charts: right, wrong.
        image: position among the card's images.
        text: the caption.
        groups: word groups of the caption.
        game: game of the pair.
        color: number of its color.
    """

    name: str
    image: int
    text: str
    groups: WordGroups
    game: PairGame
    color: int = RIGHT


@dataclass(frozen=True, slots=True, eq=False)
class GameCard:
    """Contents of a game card.

    Attributes:
        title: of the card.
        verdict: text beside the title.
        images: the images with their regions.
        pairs: the pairs that are compared.
        sides: dividends that are drawn: of words, of regions, or both.
    """

    title: str
    verdict: str
    images: Sequence[tuple[Image, RegionMasks]]
    pairs: Sequence[PairCard]
    sides: Sequence[str] = ("words", "regions")


def render_game_cards(cards: Sequence[GameCard]) -> str:
    """Render all game cards, side by side where there is room."""
    return element("div", *map(_game_card, cards), class_="games") if cards else ""


def _game_card(card: GameCard) -> str:
    header = element(
        "header", element("span", escape(card.title)), element("small", escape(card.verdict))
    )
    several = len(card.images) > 1
    images = [
        element(
            "div",
            element(
                "img", src=image_data_uri(outline_regions(image, masks)), alt=_image_alt(card, i)
            ),
            escape(card.pairs[i].name) if several and i < len(card.pairs) else "",
        )
        for i, (image, masks) in enumerate(card.images)
    ]
    groups = {pair.text: pair.groups for pair in reversed(card.pairs)}
    rows = [
        element(
            "tr",
            element("td", mark_words(text, groups[text]), class_="left"),
            *(_score_cell(pair) for pair in card.pairs if pair.text == text),
        )
        for text in dict.fromkeys(pair.text for pair in card.pairs)
    ]
    table = element("table", element("tbody", *rows))
    charts = "".join(_dividend_chart(card, side) for side in card.sides)
    return element("article", header, element("div", *images, class_="images"), table, charts)


def _score_cell(pair: PairCard) -> str:
    class_ = {RIGHT: "right", WRONG: "wrong"}.get(pair.color, f"plain s{pair.color}")
    name = element("span", escape(pair.name), class_=class_)
    return element("td", format_number(pair.game.score, ".3f"), name)


def _image_alt(card: GameCard, image: int) -> str:
    text = next((pair.text for pair in card.pairs if pair.image == image), card.title)
    return f"image of: {text}"


def _dividend_chart(card: GameCard, side: str) -> str:
    """Dividend chart of all pairs if they have the same patterns, else one chart per pair."""
    dividends = [pair.game.words if side == "words" else pair.game.regions for pair in card.pairs]
    if not any(dividends):
        return ""
    title = f"Dividends of {side}"
    if all(list(values) == list(dividends[0]) for values in dividends):
        return _bars(title, card.pairs, dividends)
    return "".join(
        _bars(f"{title}, {pair.name}", [pair], [values])
        for pair, values in zip(card.pairs, dividends, strict=True)
        if values
    )


def _bars(title: str, pairs: Sequence[PairCard], dividends: Sequence[Mapping[str, float]]) -> str:
    """Signed bars of the largest dividends of pairs with the same patterns."""
    names = strongest(dividends, MAX_PATTERNS)
    series = [
        BarSeries(pair.name, {name: values[name] for name in names}, pair.color)
        for pair, values in zip(pairs, dividends, strict=True)
    ]
    count = len(dividends[0])
    note = f"The {len(names)} largest of {count:,}." if len(names) < count else ""
    return signed_bars(title, series, note)
