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
    """
    points = [point for some in series.values() for point in some]
    lows = [p.y if p.low is None else p.low for p in points] + ([0.0] if zero else [])
    highs = [p.y if p.high is None else p.high for p in points] + ([0.0] if zero else [])
    x = Scale(*_range([p.x for p in points]), LEFT, WIDTH - 14)
    y = Scale(*_range([*lows, *highs]), TOP + HEIGHT, TOP)
    body = [
        x_axis(x, ticks(x.low, x.high, 7), TOP, TOP + HEIGHT, x_label),
        y_axis(y, ticks(y.low, y.high, 6), LEFT, WIDTH - 14, y_label),
    ]
    if zero:
        body.append(line(LEFT, y(0), WIDTH - 14, y(0), "axis"))
    entries = []
    for i, (name, some) in enumerate(series.items()):
        color, dashes = color_class(i), DASHES[i % len(DASHES)]
        if joined and len(some) > 1:
            body.append(polyline([(x(p.x), y(p.y)) for p in some], f"curve {color}", dashes))
        for p in some:
            if p.low is not None and p.high is not None:
                body.append(line(x(p.x), y(p.low), x(p.x), y(p.high), f"curve {color}"))
            hint = f"{name}: {p.x:g}, {p.y:g}" + (f" ({p.name})" if p.name else "")
            body.append(marker(x(p.x), y(p.y), i, f"dot {color}", hint=hint))
            if p.name:
                body.append(text(x(p.x) + 6, y(p.y) - 6, p.name, class_="tick"))
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


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.5
    return low - room, high + room
