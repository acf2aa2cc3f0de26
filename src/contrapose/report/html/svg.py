"""SVG primitives shared by all plots: scales, axes, markers, legends, and the figure frame.

Colors come from the page's style sheet by class, so that a plot fits light and dark pages. A
series is recognized by its marker or its dashes as well as by its color.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contrapose.report.html.page import element, escape, format_coordinate, style_sheet

COLOR_COUNT = 6
"""Number of colors; further series use them again."""

DASHES = (None, "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2")

CHARACTER_WIDTH = 6.6
"""Average width of a character of a plot's text."""

MAX_SCALE = 1.15
"""Largest enlargement of a plot, where there is room."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear scale from data to drawing coordinates.

    Attributes:
        low: the data's lower end.
        high: its upper end, above `low`.
        start: where `low` is drawn.
        end: where `high` is drawn.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Drawing coordinate of a value, clamped to the ends."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round tick values from low to high: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def text(x: float, y: float, words: str, *, anchor: str = "start", class_: str = "") -> str:
    """Text element; `anchor` is start, middle or end."""
    named = class_ or None
    return element("text", escape(words), x=x, y=y, text_anchor=anchor, class_=named)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Line element."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Sequence[tuple[float, float]], class_: str, dashes: str | None = None) -> str:
    """Polyline through points."""
    joined = " ".join(f"{format_coordinate(x)},{format_coordinate(y)}" for x, y in points)
    return element("polyline", points=joined, class_=class_, stroke_dasharray=dashes)


def color_class(series: int) -> str:
    """CSS class of a series' color."""
    return f"s{series % COLOR_COUNT}"


def marker(x: float, y: float, kind: int, class_: str, *, size: float = 4.0, hint: str = "") -> str:
    """Marker (circle, square, triangle or diamond) with an optional tooltip."""
    named = (element("title", escape(hint)),) if hint else ()
    if kind % 4 == 0:
        return element("circle", *named, cx=x, cy=y, r=size, class_=class_)
    corners = {
        1: ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        2: ((0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
        3: ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
    }[kind % 4]
    joined = " ".join(
        f"{format_coordinate(x + a * size)},{format_coordinate(y + b * size)}" for a, b in corners
    )
    return element("polygon", *named, points=joined, class_=class_)


def stroke(x: float, y: float, class_: str, dashes: str | None = None) -> str:
    """Line sample of a legend."""
    return polyline([(x - 11, y), (x + 11, y)], class_, dashes)


def x_axis(
    scale: Scale, at: Sequence[float], top: float, bottom: float, label: str, form: str = "g"
) -> str:
    """Vertical grid lines with tick labels and an axis label."""
    parts = []
    for value in at:
        x = scale(value)
        parts.append(line(x, top, x, bottom, "grid"))
        parts.append(text(x, bottom + 15, format(value, form), anchor="middle", class_="tick"))
    middle = (scale.start + scale.end) / 2
    return "".join([*parts, text(middle, bottom + 33, label, anchor="middle", class_="axis")])


def y_axis(
    scale: Scale, at: Sequence[float], left: float, right: float, label: str, form: str = "g"
) -> str:
    """Horizontal grid lines with tick labels and an axis label above."""
    parts = []
    for value in at:
        y = scale(value)
        parts.append(line(left, y, right, y, "grid"))
        parts.append(text(left - 9, y + 4, format(value, form), anchor="end", class_="tick"))
    return "".join([*parts, text(0, min(scale.start, scale.end) - 12, label, class_="axis")])


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """Legend entry: its text, and the function that draws its symbol at a point."""

    words: str
    symbol: Callable[[float, float], str]


def legend(
    entries: Sequence[LegendEntry], left: float, top: float, width: float
) -> tuple[str, float]:
    """Legend as markup, wrapped to the width, and its height."""
    parts: list[str] = []
    x, y = left, top
    for entry in entries:
        needed = 27 + CHARACTER_WIDTH * len(entry.words) + 12
        if x > left and x + needed > left + width:
            x, y = left, y + 19
        parts += [entry.symbol(x + 11, y + 8), text(x + 27, y + 12, entry.words, class_="key")]
        x += needed
    return "".join(parts), (y - top + 22 if entries else 0.0)


def figure(
    title: str, note: str, alternative: str, width: float, height: float, body: Sequence[str]
) -> str:
    """Figure with its title above and a note below.

    Args:
        title: of the figure.
        note: how to read it; empty for none.
        alternative: content of the drawing as text, for screen readers.
        width: of the drawing, in its own units.
        height: of the drawing, in its own units.
        body: SVG markup.
    """
    drawing = element(
        "svg",
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {format_coordinate(width)} {format_coordinate(height)}",
        style=f"max-width: {format_coordinate(MAX_SCALE * width)}px",
        role="img",
        aria_label=f"{title}. {alternative}",
    )
    caption = element("figcaption", element("strong", escape(title)))
    below = (element("p", escape(note), class_="note"),) if note else ()
    return element("figure", caption, element("div", drawing, class_="scroll"), *below)


def extract_svg(markup: str) -> str:
    """Drawing of a figure as an SVG file, with its own style sheet; empty where there is none."""
    drawing = re.search(r"<svg.*?</svg>", markup, re.DOTALL)
    if drawing is None:
        return '<svg xmlns="http://www.w3.org/2000/svg"></svg>'
    start, bracket, rest = drawing.group().partition(">")
    return f"{start}{bracket}<style>{style_sheet()}</style>{rest}"
