"""Panels of points, rows of models by columns of metrics: what does a score's change go with?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.metrics import FloatArray
from contrapose.report.html.markup import element, number
from contrapose.report.html.plots.svg import Scale, colour, figure, line, text, ticks

WIDTH = 960.0
LEFT, TOP, GAP, HEAD, FOOT = 46.0, 22.0, 16.0, 36.0, 34.0
TALLEST = 170.0
MOST = 600
"""Points of a panel; of more, as many are drawn evenly."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One metric of one model.

    Attributes:
        title: the metric.
        words: what stands below it: ρ.
        x: (c,) differences of the score.
        y: (c,) differences of the dividend.
    """

    title: str
    words: str
    x: FloatArray
    y: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The panels of one model."""

    label: str
    panels: Sequence[Panel]


def scatter_grid(title: str, rows: Sequence[Row], note: str, order: Sequence[str] = ()) -> str:
    """The panels as a figure; empty text where there is nothing to draw.

    Args:
        title: what it shows.
        rows: a model each; all have as many panels.
        note: how to read it.
        order: labels of the whole report, so that each has one colour everywhere.
    """
    rows = [row for row in rows if any(len(panel.x) for panel in row.panels)]
    if not rows:
        return ""
    columns = max(len(row.panels) for row in rows)
    wide = (WIDTH - LEFT - GAP * (columns - 1)) / max(columns, 3)
    tall = min(TALLEST, wide)
    body: list[str] = []
    places = list(dict.fromkeys((*order, *(row.label for row in rows))))
    for i, row in enumerate(rows):
        top = i * (TOP + HEAD + tall + FOOT)
        body.append(text(0, top + 12, row.label, class_="row"))
        across = _ends([panel.x for panel in row.panels])
        up = _ends([panel.y for panel in row.panels])
        for j, panel in enumerate(row.panels):
            left = LEFT + j * (wide + GAP)
            x = Scale(*across, left, left + wide)
            y = Scale(*up, top + TOP + HEAD + tall, top + TOP + HEAD)
            body += _panel(panel, x, y, first=j == 0, looks=colour(places.index(row.label)))
    height = len(rows) * (TOP + HEAD + tall + FOOT)
    described = "; ".join(
        f"{row.label}: " + ", ".join(f"{panel.title} {panel.words}" for panel in row.panels)
        for row in rows
    )
    return figure(title, note, described, WIDTH, height, body)


def _panel(panel: Panel, x: Scale, y: Scale, *, first: bool, looks: str) -> list[str]:
    top, bottom = y.end, y.start
    parts = [
        text(x.start, top - 20, panel.title, class_="row"),
        text(x.start, top - 6, panel.words, class_="tick"),
        element(
            "rect", x=x.start, y=top, width=x.end - x.start, height=bottom - top, class_="frame"
        ),
        line(x(0), top, x(0), bottom, "grid"),
        line(x.start, y(0), x.end, y(0), "grid"),
    ]
    for value in ticks(x.low, x.high, 4):
        parts.append(text(x(value), bottom + 14, f"{value:g}", anchor="middle", class_="tick"))
    if first:
        for value in ticks(y.low, y.high, 4):
            parts.append(text(x.start - 6, y(value) + 4, f"{value:g}", anchor="end", class_="tick"))
    step = max(1, -(-len(panel.x) // MOST))
    points = zip(panel.x[::step].tolist(), panel.y[::step].tolist(), strict=True)
    # One path of strokes without length: a page of many thousand points stays small.
    drawn = "".join(f"M{number(x(a))} {number(y(b))}h0" for a, b in points)
    parts.append(element("path", d=drawn, class_=f"points {looks}") if drawn else "")
    return parts


def _ends(some: Sequence[FloatArray]) -> tuple[float, float]:
    """From where to where nearly all values lie, 0 among them."""
    values = np.concatenate([*some, np.zeros(1)])
    low, high = (float(each) for each in np.quantile(values, (0.005, 0.995)))
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room
