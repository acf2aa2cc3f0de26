"""Signed bars about a middle line: what each pattern adds to a score, and what it takes away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from contrapose.report.html.markup import element, escaped
from contrapose.report.html.plots.svg import (
    CHARACTER,
    Entry,
    Scale,
    colour,
    figure,
    legend,
    line,
    text,
    ticks,
)

WIDTH, RIGHT = 440.0, 56.0
BAR, GAP = 12.0, 7.0
LONGEST = 22
"""Characters of a pattern's name; longer ones are cut, and told in full when pointed at."""


@dataclass(frozen=True, slots=True)
class Series:
    """Bars of one kind.

    Attributes:
        name: what they are.
        values: by pattern.
        looks: number of its colour.
    """

    name: str
    values: Mapping[str, float]
    looks: int


def signed_bars(title: str, series: Sequence[Series], note: str = "") -> str:
    """The bars as a figure; empty text where there is nothing to draw.

    Args:
        title: what it shows.
        series: side by side in each row; the patterns are those of the first.
        note: how to read it.
    """
    rows = list(dict.fromkeys(name for each in series for name in each.values))
    if not rows:
        return ""
    far = max(abs(value) for each in series for value in each.values.values()) or 1.0
    left = 14 + 1.25 * CHARACTER * min(max(map(len, rows)), LONGEST)
    scale = Scale(-1.08 * far, 1.08 * far, left, WIDTH - RIGHT)
    key, top = ("", 4.0)
    if len(series) > 1:
        entries = [Entry(each.name, partial(_sign, looks=colour(each.looks))) for each in series]
        key, height = legend(entries, 0, 0, WIDTH)
        top = height + 6
    band = BAR * len(series) + GAP
    bottom = top + band * len(rows)
    body = [key]
    for value in ticks(scale.low, scale.high, 6):
        x = scale(value)
        body.append(line(x, top, x, bottom, "zero" if value == 0 else "grid"))
        body.append(text(x, bottom + 14, f"{value:g}", anchor="middle", class_="tick"))
    for i, name in enumerate(rows):
        y = top + i * band
        shown = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
        body.append(text(left - 8, y + band / 2 + 1, shown, anchor="end", class_="row"))
        for j, each in enumerate(series):
            if name in each.values:
                body += _bar(scale, y + GAP / 2 + j * BAR, each, name)
    described = "; ".join(
        f"{each.name}: " + ", ".join(f"{name} {value:+.3g}" for name, value in each.values.items())
        for each in series
    )
    return figure(title, note, described, WIDTH, bottom + 22, body)


def _bar(scale: Scale, y: float, each: Series, name: str) -> list[str]:
    value = each.values[name]
    start, end = sorted((scale(0), scale(value)))
    hint = element("title", escaped(f"{name}, {each.name}: {value:+.4g}"))
    return [
        element(
            "rect",
            hint,
            x=start,
            y=y,
            width=max(end - start, 0.6),
            height=BAR - 2,
            class_=f"bar {colour(each.looks)}",
        ),
        text(scale.end + 6, y + BAR - 2, f"{value:+.3f}".replace("-", "−"), class_="tick"),
    ]


def _sign(x: float, y: float, looks: str) -> str:
    return element("rect", x=x - 11, y=y - 5, width=22, height=BAR - 2, class_=f"bar {looks}")
