"""Charts of the studies: one SVG file each, curves or points with intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from contrapose.files import write_text
from contrapose.report.html.page import style_sheet
from contrapose.report.html.svg import (
    DASHES,
    LegendEntry,
    Scale,
    color_class,
    figure,
    legend,
    line,
    marker,
    polyline,
    stroke,
    text,
    ticks,
    x_axis,
    y_axis,
)

LEFT, TOP, WIDTH, HEIGHT = 52.0, 32.0, 680.0, 300.0
MOST_MARKERS = 12
"""Points of a curve above which it is a line without markers."""


class Point(NamedTuple):
    """Point of a chart, with a vertical interval and a word beside it where there are any."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    name: str = ""


def write_chart(
    path: Path,
    title: str,
    series: Mapping[str, Sequence[Point]],
    *,
    x_label: str,
    y_label: str,
    joined: bool = True,
    zero: bool = False,
    x_names: Mapping[float, str] | None = None,
) -> None:
    """Write a chart as an SVG file of its own, atomically.

    Args:
        path: the file.
        title: of the chart.
        series: points by the name of their curve.
        x_label: words on the horizontal axis.
        y_label: words above the vertical axis.
        joined: draw lines between the points of a series.
        zero: draw the line y = 0.
        x_names: words below the horizontal axis by their value, in place of round numbers.
    """
    points = [point for some in series.values() for point in some]
    lows = [p.y if p.low is None else p.low for p in points] + ([0.0] if zero else [])
    highs = [p.y if p.high is None else p.high for p in points] + ([0.0] if zero else [])
    x = Scale(*_range([p.x for p in points]), LEFT, WIDTH - 14)
    y = Scale(*_range([*lows, *highs]), TOP + HEIGHT, TOP)
    numbers = ticks(x.low, x.high, 7) if x_names is None else []
    body = [
        x_axis(x, numbers, TOP, TOP + HEIGHT, x_label),
        y_axis(y, ticks(y.low, y.high, 6), LEFT, WIDTH - 14, y_label),
    ]
    for value, word in (x_names or {}).items():
        body.append(line(x(value), TOP, x(value), TOP + HEIGHT, "grid"))
        body.append(text(x(value), TOP + HEIGHT + 15, word, anchor="middle", class_="tick"))
    if zero:
        body.append(line(LEFT, y(0), WIDTH - 14, y(0), "axis"))
    entries, labels = [], Labels([(x(p.x), y(p.y)) for p in points])
    for i, (name, some) in enumerate(series.items()):
        color, dashes = color_class(i), DASHES[i % len(DASHES)]
        if joined and len(some) > 1:
            body.append(polyline([(x(p.x), y(p.y)) for p in some], f"curve {color}", dashes))
        for p in some:
            if p.low is not None and p.high is not None:
                body.append(line(x(p.x), y(p.low), x(p.x), y(p.high), f"curve {color}"))
            if not joined or len(some) <= MOST_MARKERS:
                hint = f"{name}: {p.x:g}, {p.y:g}" + (f" ({p.name})" if p.name else "")
                body.append(marker(x(p.x), y(p.y), i, f"dot {color}", hint=hint))
            if p.name:
                body.append(labels.write(x(p.x), y(p.y), p.name))
        sample = (
            partial(stroke, class_=f"curve {color}", dashes=dashes)
            if joined
            else partial(marker, kind=i, class_=f"dot {color}")
        )
        entries.append(LegendEntry(name, sample))
    key, height = legend(entries, 4, TOP + HEIGHT + 46, WIDTH - 4)
    drawn = figure(title, "", title, WIDTH, TOP + HEIGHT + 48 + height, [*body, key])
    drawing = re.search(r"<svg.*</svg>", drawn, re.DOTALL)
    assert drawing is not None  # noqa: S101 - a figure has a drawing
    opening, rest = drawing.group().split(">", 1)
    write_text(path, f"{opening}><style>{style_sheet()}</style>{rest}\n")


class Labels:
    """Words beside points, each where it covers no point and no earlier word, if it can."""

    WIDTH, HEIGHT = 6.4, 11.0

    def __init__(self, points: Sequence[tuple[float, float]]):
        self.points = list(points)
        self.boxes: list[tuple[float, float, float, float]] = []

    def write(self, x: float, y: float, words: str) -> str:
        """Text element beside a point: above, below, or further off."""
        wide = self.WIDTH * len(words)
        choices = [
            (left, below)
            for far in (0, 13, 26, 39)
            for left in (x + 6, x - 6 - wide)
            for below in (y - 6 - far, y + 14 + far)
            if left >= LEFT and left + wide <= WIDTH and TOP <= below <= TOP + HEIGHT
        ] or [(x + 6, y - 6)]
        left, below = min(choices, key=lambda at: self._covered(at[0], at[1], wide))
        self.boxes.append((left, below - self.HEIGHT, left + wide, below))
        return text(left, below, words, class_="tick")

    def _covered(self, left: float, below: float, wide: float) -> int:
        above, right = below - self.HEIGHT, left + wide
        points = sum(left - 4 < x < right + 4 and above - 4 < y < below + 4 for x, y in self.points)
        return points + sum(
            left < box[2] and box[0] < right and above < box[3] and box[1] < below
            for box in self.boxes
        )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room
