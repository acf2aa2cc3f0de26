"""Single examples as cards: picture and regions, captions and groups, and signed dividends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contrapose.diagnose.cells import Cell
from contrapose.diagnose.players import Groups, Masks
from contrapose.report.html.cards import picture_uri
from contrapose.report.html.markup import element, escaped
from contrapose.report.html.outlines import outlined
from contrapose.report.html.plots.signed import Series, signed_bars
from contrapose.report.html.wordgroups import marked

if TYPE_CHECKING:
    from PIL.Image import Image

MOST = 12
"""Patterns of a chart: those that add or take away most."""
RIGHT, WRONG = 2, 3
"""Colours of bars."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """One image with one caption.

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
    groups: Groups
    cell: Cell
    looks: int = RIGHT


@dataclass(frozen=True, slots=True, eq=False)
class GameCard:
    """What a card shows.

    Attributes:
        title: of the card.
        verdict: beside it.
        images: the pictures, with their regions.
        shown: the pairs that are compared.
        sides: which dividends are drawn: words, regions, or both.
    """

    title: str
    verdict: str
    images: Sequence[tuple[Image, Masks]]
    shown: Sequence[Shown]
    sides: Sequence[str] = ("words", "regions")


def game_cards(cards: Sequence[GameCard]) -> str:
    """All cards, beside each other where there is room."""
    return element("div", *map(_card, cards), class_="games") if cards else ""


def _card(card: GameCard) -> str:
    header = element(
        "header", element("span", escaped(card.title)), element("small", escaped(card.verdict))
    )
    several = len(card.images) > 1
    pictures = [
        element(
            "div",
            element("img", src=picture_uri(outlined(image, masks)), alt=_seen(card, place)),
            escaped(card.shown[place].name) if several and place < len(card.shown) else "",
        )
        for place, (image, masks) in enumerate(card.images)
    ]
    texts = dict.fromkeys(shown.text for shown in card.shown)
    rows = [
        element(
            "tr",
            element("td", marked(text, _groups(card, text)), class_="left"),
            *_scores(card, text),
        )
        for text in texts
    ]
    table = element("table", element("tbody", *rows))
    charts = "".join(_chart(card, side) for side in card.sides)
    return element("article", header, element("div", *pictures, class_="pictures"), table, charts)


def _groups(card: GameCard, text: str) -> Groups:
    return next(shown.groups for shown in card.shown if shown.text == text)


def _scores(card: GameCard, text: str) -> list[str]:
    cells = []
    for shown in card.shown:
        if shown.text == text:
            name = element("span", escaped(shown.name), class_=_class(shown))
            cells.append(element("td", f"{shown.cell.score:.3f}".replace("-", "−"), name))
    return cells


def _class(shown: Shown) -> str:
    return {RIGHT: "right", WRONG: "wrong"}.get(shown.looks, f"plain s{shown.looks}")


def _seen(card: GameCard, place: int) -> str:
    shown = next((each.text for each in card.shown if each.image == place), card.title)
    return f"picture for: {shown}"


def _chart(card: GameCard, side: str) -> str:
    """One chart of all pairs where they have the same patterns, else one each."""
    values = [shown.cell.words if side == "words" else shown.cell.regions for shown in card.shown]
    if not any(values):
        return ""
    title = "Dividends of words" if side == "words" else "Dividends of regions"
    if all(list(each) == list(values[0]) for each in values):
        largest = strongest([*values])
        series = [
            Series(shown.name, {name: each[name] for name in largest}, shown.looks)
            for shown, each in zip(card.shown, values, strict=True)
        ]
        return signed_bars(title, series, _left(len(values[0]), len(largest)))
    return "".join(
        signed_bars(
            f"{title}, {shown.name}",
            [Series(shown.name, {name: each[name] for name in strongest([each])}, shown.looks)],
            _left(len(each), len(strongest([each]))),
        )
        for shown, each in zip(card.shown, values, strict=True)
    )


def strongest(values: Sequence[Mapping[str, float]], most: int = MOST) -> list[str]:
    """The patterns with the largest dividends anywhere, in their own order."""
    names = list(values[0])
    if len(names) <= most:
        return names
    size = {name: max(abs(each[name]) for each in values) for name in names}
    kept = set(sorted(names, key=lambda name: -size[name])[:most])
    return [name for name in names if name in kept]


def _left(all_of: int, drawn: int) -> str:
    return f"The {drawn} largest of {all_of:,}." if drawn < all_of else ""
