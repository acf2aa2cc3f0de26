"""Accuracy by change: a row a change, a dot a model and score, its interval, and chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from contrapose.report.html.plots.svg import (
    CHARACTER,
    Entry,
    Scale,
    colour,
    figure,
    legend,
    line,
    marker,
    text,
    x_axis,
)

WIDTH, RIGHT, STEP, GAP = 640.0, 14.0, 8.0, 10.0
BAR = "tick-chance"


@dataclass(frozen=True, slots=True)
class Dot:
    """A share of examples and its interval, as fractions."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DotRow:
    """One change.

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
    """The plot as a figure; empty text where there are no rows.

    Args:
        title: what it shows.
        rows: from top to bottom.
        series: the names of the series, which say the order of dots and their looks.
    """
    if not rows:
        return ""
    left = 16 + CHARACTER * max(len(words) for row in rows for words in (row.label, row.metric))
    scale = Scale(0.0, 100.0, left, WIDTH - RIGHT)
    keys = [
        Entry(name, partial(marker, kind=i, class_=f"dot {colour(i)}"))
        for i, name in enumerate(series)
    ]
    keys.append(Entry("chance", lambda x, y: line(x, y - 6, x, y + 6, BAR)))
    key, top = legend(keys, 0, 0, WIDTH)
    top += 8
    band = max(STEP * len(series) + GAP, 30.0)
    bottom = top + band * len(rows)
    body = [key, x_axis(scale, range(0, 101, 20), top, bottom, "right (%), 95 % interval")]
    for i, row in enumerate(rows):
        body += _row(row, series, scale, top + i * band, band)
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


def _row(row: DotRow, series: Sequence[str], scale: Scale, top: float, band: float) -> list[str]:
    bottom = top + band
    x, y = scale.start - 10, top + band / 2 + 4
    parts = [
        text(x, y - (6 if row.metric else 0), row.label, anchor="end", class_="row"),
        text(x, y + 7, row.metric, anchor="end", class_="tick") if row.metric else "",
        line(0, bottom, scale.end, bottom, "rule"),
    ]
    if row.chance is not None:
        x = scale(100 * row.chance)
        parts.append(line(x, top + 3, x, bottom - 3, BAR))
    for i, name in enumerate(series):
        dot = row.dots.get(name)
        if dot is None:
            continue
        y = top + band / 2 + (i - (len(series) - 1) / 2) * STEP
        low, high, value = 100 * dot.low, 100 * dot.high, 100 * dot.value
        parts.append(line(scale(low), y, scale(high), y, f"whisker {colour(i)}"))
        hint = f"{row.label}, {name}: {value:.1f} % ({low:.1f} to {high:.1f})"
        parts.append(marker(scale(value), y, i, f"dot {colour(i)}", hint=hint))
    return parts
