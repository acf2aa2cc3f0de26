"""Dot plots: accuracies with intervals and chance, and sensitivities on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from contrapose.report.html.plots.svg import (
    CHARACTER_WIDTH,
    LegendEntry,
    Scale,
    color_class,
    figure,
    legend,
    line,
    marker,
    text,
    x_axis,
)

WIDTH, RIGHT, STEP, GAP = 640.0, 14.0, 8.0, 10.0
CHANCE_CLASS = "tick-chance"


@dataclass(frozen=True, slots=True)
class Dot:
    """Point value with its interval; shares are fractions."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DotRow:
    """Row of a dot plot: one change.

    Attributes:
        label: its name.
        metric: what the dots are, where that is not plain accuracy.
        dots: by series; those that are not there are left out.
        chance: what guessing gets, as a fraction; None where that has no meaning.
    """

    label: str
    dots: Mapping[str, Dot]
    chance: float | None = None
    metric: str = ""


def dot_plot(title: str, rows: Sequence[DotRow], series: Sequence[str]) -> str:
    """Dot plot of accuracies as a figure; empty if there are no rows.

    Args:
        title: what it shows.
        rows: from top to bottom.
        series: the names of the series, which say the order of dots and their looks.
    """
    if not rows:
        return ""
    left = 16 + CHARACTER_WIDTH * max(
        len(words) for row in rows for words in (row.label, row.metric)
    )
    scale = Scale(0.0, 100.0, left, WIDTH - RIGHT)
    keys = [
        LegendEntry(name, partial(marker, kind=i, class_=f"dot {color_class(i)}"))
        for i, name in enumerate(series)
    ]
    keys.append(LegendEntry("chance", lambda x, y: line(x, y - 6, x, y + 6, CHANCE_CLASS)))
    key, top = legend(keys, 0, 0, WIDTH)
    top += 8
    band = max(STEP * len(series) + GAP, 30.0)
    bottom = top + band * len(rows)
    body = [key, x_axis(scale, range(0, 101, 20), top, bottom, "right (%), 95 % interval")]
    for i, row in enumerate(rows):
        body += _dot_row(row, series, scale, top + i * band, band)
    described = "; ".join(
        f"{row.label}: "
        + ", ".join(f"{name} {100 * dot.value:.1f} %" for name, dot in row.dots.items())
        for row in rows
    )
    note = (
        "Whiskers are 95 % bootstrap intervals; the grey bar is what guessing gets. Point at a dot "
        "for its numbers."
    )
    return figure(title, note, described, WIDTH, bottom + 38, body)


def _dot_row(
    row: DotRow, series: Sequence[str], scale: Scale, top: float, band: float
) -> list[str]:
    bottom = top + band
    x, y = scale.start - 10, top + band / 2 + 4
    parts = [
        text(x, y - (6 if row.metric else 0), row.label, anchor="end", class_="row"),
        text(x, y + 7, row.metric, anchor="end", class_="tick") if row.metric else "",
        line(0, bottom, scale.end, bottom, "rule"),
    ]
    if row.chance is not None:
        x = scale(100 * row.chance)
        parts.append(line(x, top + 3, x, bottom - 3, CHANCE_CLASS))
    for i, name in enumerate(series):
        dot = row.dots.get(name)
        if dot is None:
            continue
        y = top + band / 2 + (i - (len(series) - 1) / 2) * STEP
        low, high, value = 100 * dot.low, 100 * dot.high, 100 * dot.value
        parts.append(line(scale(low), y, scale(high), y, f"whisker {color_class(i)}"))
        hint = f"{row.label}, {name}: {value:.1f} % ({low:.1f} to {high:.1f})"
        parts.append(marker(scale(value), y, i, f"dot {color_class(i)}", hint=hint))
    return parts


SENSITIVITY_WIDTH, SENSITIVITY_RIGHT = 760.0, 16.0
SENSITIVITY_STEP, SENSITIVITY_GAP = 12.0, 12.0
AXIS_MINIMUM = 1e-6
"""Where the axis ends for what is next to nothing."""


def sensitivity_plot(
    title: str, rows: Mapping[str, Mapping[str, Dot]], series: Sequence[str], breaks: Sequence[str]
) -> str:
    """Dot plot of sensitivities as a figure; empty if there is nothing to draw.

    Args:
        title: what it shows.
        rows: for each metric its dots by series.
        series: names, which say the order and the looks.
        breaks: metrics before which a family ends.
    """
    drawn = {name: dots for name, dots in rows.items() if dots}
    if not drawn:
        return ""
    ends = [(dot.low, dot.high) for dots in drawn.values() for dot in dots.values()]
    lowest = math.floor(math.log10(max(min(low for low, _ in ends), AXIS_MINIMUM)))
    highest = math.ceil(math.log10(max(*(high for _, high in ends), 10 * AXIS_MINIMUM)))
    left = 16 + 1.2 * CHARACTER_WIDTH * max(map(len, drawn))
    scale = Scale(lowest, max(highest, lowest + 1), left, SENSITIVITY_WIDTH - SENSITIVITY_RIGHT)
    keys = [
        LegendEntry(name, partial(marker, kind=i, class_=f"dot {color_class(i)}"))
        for i, name in enumerate(series)
    ]
    key, top = legend(keys, 0, 0, SENSITIVITY_WIDTH)
    top += 8
    band = max(SENSITIVITY_STEP * len(series) + SENSITIVITY_GAP, 26.0)
    bottom = top + band * len(drawn)
    body = [key]
    powers = list(range(lowest, max(highest, lowest + 1) + 1))
    for power in powers:
        body.append(line(scale(power), top, scale(power), bottom, "grid"))
        body.append(
            text(scale(power), bottom + 15, f"{10.0**power:g}", anchor="middle", class_="tick")
        )
    body.append(x_axis(scale, (), top, bottom, "sensitivity, 95 % interval"))
    for i, (name, dots) in enumerate(drawn.items()):
        y = top + i * band
        strong = "zero" if name in breaks and i else "rule"
        body.append(line(0, y, scale.end, y, strong))
        body.append(text(left - 10, y + band / 2 + 4, name, anchor="end", class_="row"))
        body += _sensitivity_dots(name, dots, series, scale, y + band / 2)
    described = "; ".join(
        f"{name}: " + ", ".join(f"{each} {dot.value:.3g}" for each, dot in dots.items())
        for name, dots in drawn.items()
    )
    note = "The axis is logarithmic. Whiskers are 95 % bootstrap intervals, drawn by image."
    return figure(title, note, described, SENSITIVITY_WIDTH, bottom + 38, body)


def _sensitivity_dots(
    name: str, dots: Mapping[str, Dot], series: Sequence[str], scale: Scale, middle: float
) -> list[str]:
    parts = []
    for i, each in enumerate(series):
        dot = dots.get(each)
        if dot is None:
            continue
        y = middle + (i - (len(series) - 1) / 2) * SENSITIVITY_STEP
        low, high, value = (
            math.log10(max(end, AXIS_MINIMUM)) for end in (dot.low, dot.high, dot.value)
        )
        parts.append(line(scale(low), y, scale(high), y, f"whisker {color_class(i)}"))
        hint = f"{name}, {each}: {dot.value:.3g} ({dot.low:.3g} to {dot.high:.3g})"
        parts.append(marker(scale(value), y, i, f"dot {color_class(i)}", hint=hint))
    return parts
