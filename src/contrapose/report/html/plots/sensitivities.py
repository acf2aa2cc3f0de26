"""Mean sensitivities with their intervals on a logarithmic axis, models side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from contrapose.report.html.plots.dots import Dot
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

WIDTH, RIGHT = 760.0, 16.0
STEP, GAP = 12.0, 12.0
LOWEST = 1e-6
"""Where the axis ends for what is next to nothing."""


def sensitivity_plot(
    title: str, rows: Mapping[str, Mapping[str, Dot]], series: Sequence[str], breaks: Sequence[str]
) -> str:
    """The plot as a figure; empty text where there is nothing to draw.

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
    lowest = math.floor(math.log10(max(min(low for low, _ in ends), LOWEST)))
    highest = math.ceil(math.log10(max(*(high for _, high in ends), 10 * LOWEST)))
    left = 16 + 1.2 * CHARACTER * max(map(len, drawn))
    scale = Scale(lowest, max(highest, lowest + 1), left, WIDTH - RIGHT)
    keys = [
        Entry(name, partial(marker, kind=i, class_=f"dot {colour(i)}"))
        for i, name in enumerate(series)
    ]
    key, top = legend(keys, 0, 0, WIDTH)
    top += 8
    band = max(STEP * len(series) + GAP, 26.0)
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
        body += _dots(name, dots, series, scale, y + band / 2)
    described = "; ".join(
        f"{name}: " + ", ".join(f"{each} {dot.value:.3g}" for each, dot in dots.items())
        for name, dots in drawn.items()
    )
    note = "The axis is logarithmic. Whiskers are 95 % bootstrap intervals, drawn by image."
    return figure(title, note, described, WIDTH, bottom + 38, body)


def _dots(
    name: str, dots: Mapping[str, Dot], series: Sequence[str], scale: Scale, middle: float
) -> list[str]:
    parts = []
    for i, each in enumerate(series):
        dot = dots.get(each)
        if dot is None:
            continue
        y = middle + (i - (len(series) - 1) / 2) * STEP
        low, high, value = (math.log10(max(end, LOWEST)) for end in (dot.low, dot.high, dot.value))
        parts.append(line(scale(low), y, scale(high), y, f"whisker {colour(i)}"))
        hint = f"{name}, {each}: {dot.value:.3g} ({dot.low:.3g} to {dot.high:.3g})"
        parts.append(marker(scale(value), y, i, f"dot {colour(i)}", hint=hint))
    return parts
