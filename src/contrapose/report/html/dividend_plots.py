"""Dividend plots: scatter panels of score and dividend differences, and signed bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from contrapose.metrics import FloatArray, IntArray, fit_line
from contrapose.report.html.page import element, escape, format_coordinate
from contrapose.report.html.svg import (
    CHARACTER_WIDTH,
    LegendEntry,
    Scale,
    color_class,
    figure,
    legend,
    line,
    polyline,
    text,
    ticks,
)
from contrapose.report.tables import format_number

WIDTH = 960.0
LEFT, TOP, GAP, HEAD, FOOT = 46.0, 22.0, 16.0, 36.0, 34.0
MAX_PANEL_HEIGHT = 170.0
MAX_POINTS = 600
"""Most points of a panel; of more, an even selection is drawn."""
BAND_POINTS = 41
"""Points across at which a line and its band are drawn."""
BAND_RESAMPLES = 2_000
"""Most resamples of a band, which is not read off to more digits than it is drawn in."""


@dataclass(frozen=True, slots=True, eq=False)
class PlotPanel:
    """Scatter panel: one metric of one model.

    Attributes:
        title: the metric.
        words: line below the title: ρ.
        x: (c,) differences of the score.
        y: (c,) differences of the dividend.
        clusters: (c,) codes of points that are drawn together in a resample; None: no line is
            fitted.
        resamples: number of resamples of the line's band.
    """

    title: str
    words: str
    x: FloatArray
    y: FloatArray
    clusters: IntArray | None = None
    resamples: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class ScatterRow:
    """Row of scatter panels of one model."""

    label: str
    panels: Sequence[PlotPanel]


def scatter_grid(
    title: str, rows: Sequence[ScatterRow], note: str, order: Sequence[str] = ()
) -> str:
    """Grid of scatter panels as a figure; empty if there is nothing to draw.

    A panel's range leaves out the farthest 0.5 % of the values at either end. Points beyond it are
    drawn at the edge, and their number is stated.

    Args:
        title: of the figure.
        rows: one per model; all have the same number of panels.
        note: how to read it.
        order: labels of the report, so that each has one color everywhere.
    """
    rows = [row for row in rows if any(len(panel.x) for panel in row.panels)]
    if not rows:
        return ""
    columns = max(len(row.panels) for row in rows)
    wide = (WIDTH - LEFT - GAP * (columns - 1)) / max(columns, 3)
    tall = min(MAX_PANEL_HEIGHT, wide)
    body: list[str] = []
    labels = list(dict.fromkeys((*order, *(row.label for row in rows))))
    descriptions = []
    for i, row in enumerate(rows):
        top = i * (TOP + HEAD + tall + FOOT)
        body.append(text(0, top + 12, row.label, class_="row"))
        across = _axis_range([panel.x for panel in row.panels])
        up = _axis_range([panel.y for panel in row.panels])
        for j, panel in enumerate(row.panels):
            left = LEFT + j * (wide + GAP)
            x = Scale(*across, left, left + wide)
            y = Scale(*up, top + TOP + HEAD + tall, top + TOP + HEAD)
            words = _panel_words(panel, x, y)
            descriptions.append(f"{row.label}: {panel.title} {words}")
            color = color_class(labels.index(row.label))
            body += _draw_panel(panel, words, x, y, first=j == 0, color=color)
    height = len(rows) * (TOP + HEAD + tall + FOOT)
    if max(len(panel.x) for row in rows for panel in row.panels) > MAX_POINTS:
        note = f"{note} Of more than {MAX_POINTS} points an even selection is drawn.".strip()
    return figure(title, note, "; ".join(descriptions), WIDTH, height, body)


def _panel_words(panel: PlotPanel, x: Scale, y: Scale) -> str:
    """The panel's line of text, with the number of points beyond its frame."""
    outside = (panel.x < x.low) | (panel.x > x.high) | (panel.y < y.low) | (panel.y > y.high)
    count = int(outside.sum())
    return f"{panel.words}, {count:,} beyond" if count else panel.words


def _draw_panel(
    panel: PlotPanel, words: str, x: Scale, y: Scale, *, first: bool, color: str
) -> list[str]:
    top, bottom = y.end, y.start
    parts = [
        text(x.start, top - 20, panel.title, class_="row"),
        text(x.start, top - 6, words, class_="tick"),
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
    step = max(1, -(-len(panel.x) // MAX_POINTS))
    points = zip(panel.x[::step].tolist(), panel.y[::step].tolist(), strict=True)
    # One path of strokes without length: a page of many thousand points stays small.
    path = "".join(f"M{format_coordinate(x(a))} {format_coordinate(y(b))}h0" for a, b in points)
    parts.append(element("path", d=path, class_=f"points {color}") if path else "")
    return parts + _draw_line(panel, x, y)


def _draw_line(panel: PlotPanel, x: Scale, y: Scale) -> list[str]:
    """Fitted line with its 95 % band, within the frame and the range of the points."""
    if panel.clusters is None or len(panel.x) < 3:
        return []
    start, end = max(float(panel.x.min()), x.low), min(float(panel.x.max()), x.high)
    fit = fit_line(
        panel.x,
        panel.y,
        points=np.linspace(start, end, BAND_POINTS),
        clusters=panel.clusters,
        resamples=min(panel.resamples, BAND_RESAMPLES),
    )
    if fit is None:
        return []
    parts = []
    if fit.low is not None and fit.high is not None:
        outline = [*zip(fit.x, fit.low, strict=True)]
        outline += [*zip(fit.x[::-1], fit.high[::-1], strict=True)]
        corners = " ".join(
            f"{format_coordinate(x(float(a)))},{format_coordinate(y(float(b)))}" for a, b in outline
        )
        parts.append(element("polygon", points=corners, class_="band"))
    heights = fit.intercept + fit.slope * fit.x
    inside = (heights >= y.low) & (heights <= y.high)
    drawn = zip(fit.x[inside].tolist(), heights[inside].tolist(), strict=True)
    return [*parts, polyline([(x(a), y(b)) for a, b in drawn], "fit")]


def _axis_range(some: Sequence[FloatArray]) -> tuple[float, float]:
    """Axis range that contains nearly all values and 0."""
    values = np.concatenate([*some, np.zeros(1)])
    low, high = (float(bound) for bound in np.quantile(values, (0.005, 0.995)))
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room


SIGNED_WIDTH, SIGNED_RIGHT = 440.0, 56.0
BAR_HEIGHT, BAR_GAP = 12.0, 7.0
MAX_NAME = 22
"""Characters of a pattern's name; longer ones are cut, and shown in full in the tooltip."""


@dataclass(frozen=True, slots=True)
class BarSeries:
    """Series of signed bars.

    Attributes:
        name: of the series.
        values: by pattern.
        color: number of its color.
    """

    name: str
    values: Mapping[str, float]
    color: int


def signed_bars(title: str, series: Sequence[BarSeries], note: str = "") -> str:
    """Signed bars as a figure; empty if there is nothing to draw.

    Args:
        title: of the figure.
        series: side by side in each row.
        note: how to read it.
    """
    rows = list(dict.fromkeys(name for one in series for name in one.values))
    if not rows:
        return ""
    far = max(abs(value) for one in series for value in one.values.values()) or 1.0
    left = 14 + 1.25 * CHARACTER_WIDTH * min(max(map(len, rows)), MAX_NAME)
    scale = Scale(-1.08 * far, 1.08 * far, left, SIGNED_WIDTH - SIGNED_RIGHT)
    key, top = ("", 4.0)
    if len(series) > 1:
        entries = [
            LegendEntry(one.name, partial(_legend_bar, color=color_class(one.color)))
            for one in series
        ]
        key, height = legend(entries, 0, 0, SIGNED_WIDTH)
        top = height + 6
    band = BAR_HEIGHT * len(series) + BAR_GAP
    bottom = top + band * len(rows)
    body = [key]
    for value in ticks(scale.low, scale.high, 6):
        x = scale(value)
        body.append(line(x, top, x, bottom, "zero" if value == 0 else "grid"))
        body.append(text(x, bottom + 14, f"{value:g}", anchor="middle", class_="tick"))
    for i, name in enumerate(rows):
        y = top + i * band
        label = name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
        body.append(text(left - 8, y + band / 2 + 1, label, anchor="end", class_="row"))
        for j, one in enumerate(series):
            if name in one.values:
                body += _draw_bar(scale, y + BAR_GAP / 2 + j * BAR_HEIGHT, one, name)
    description = "; ".join(
        f"{one.name}: " + ", ".join(f"{name} {value:+.3g}" for name, value in one.values.items())
        for one in series
    )
    return figure(title, note, description, SIGNED_WIDTH, bottom + 22, body)


def _draw_bar(scale: Scale, y: float, series: BarSeries, name: str) -> list[str]:
    value = series.values[name]
    start, end = sorted((scale(0), scale(value)))
    hint = element("title", escape(f"{name}, {series.name}: {value:+.4g}"))
    return [
        element(
            "rect",
            hint,
            x=start,
            y=y,
            width=max(end - start, 0.6),
            height=BAR_HEIGHT - 2,
            class_=f"bar {color_class(series.color)}",
        ),
        text(scale.end + 6, y + BAR_HEIGHT - 2, format_number(value, "+.3f"), class_="tick"),
    ]


def _legend_bar(x: float, y: float, color: str) -> str:
    return element(
        "rect", x=x - 11, y=y - 5, width=22, height=BAR_HEIGHT - 2, class_=f"bar {color}"
    )
