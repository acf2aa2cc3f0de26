"""Plots of the reports: dots with intervals, α curves, equivariance densities and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from contrapose.metrics import FloatArray, histogram
from contrapose.report.html.page import element
from contrapose.report.html.svg import (
    CHARACTER_WIDTH,
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
from contrapose.report.tables import metric_words
from contrapose.results import AlphaReport

DOTS_WIDTH, DOTS_RIGHT, DOTS_STEP, DOTS_GAP = 640.0, 14.0, 8.0, 10.0
CHANCE_CLASS = "tick-chance"


@dataclass(frozen=True, slots=True)
class Dot:
    """Point value with its interval; shares are fractions."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DotRow:
    """Row of a dot plot: one part of a benchmark.

    Attributes:
        label: name of the part.
        dots: by series; a series without a value is left out.
        chance: chance level, as a fraction; None where it has no meaning.
        metric: name of the metric, where that is not plain accuracy.
    """

    label: str
    dots: Mapping[str, Dot]
    chance: float | None = None
    metric: str = ""


def dot_plot(title: str, rows: Sequence[DotRow], series: Sequence[str]) -> str:
    """Dot plot of accuracies as a figure; empty if there are no rows.

    Args:
        title: of the figure.
        rows: from top to bottom.
        series: names of the series, in the order of their dots and colors.
    """
    if not rows:
        return ""
    longest = max(len(words) for row in rows for words in (row.label, row.metric))
    left = 16 + CHARACTER_WIDTH * longest
    scale = Scale(0.0, 100.0, left, DOTS_WIDTH - DOTS_RIGHT)
    entries = _dot_entries(series)
    entries.append(LegendEntry("chance", lambda x, y: line(x, y - 6, x, y + 6, CHANCE_CLASS)))
    key, top = legend(entries, 0, 0, DOTS_WIDTH)
    top += 8
    band = max(DOTS_STEP * len(series) + DOTS_GAP, 30.0)
    bottom = top + band * len(rows)
    body = [key, x_axis(scale, range(0, 101, 20), top, bottom, "right (%), 95 % interval")]
    for i, row in enumerate(rows):
        body += _dot_row(row, series, scale, top + i * band, band)
    description = "; ".join(
        f"{row.label}: "
        + ", ".join(f"{name} {100 * dot.value:.1f} %" for name, dot in row.dots.items())
        for row in rows
    )
    note = (
        "Whiskers are 95 % intervals; the gray bar is the chance level. Point at a dot "
        "for its numbers."
    )
    return figure(title, note, description, DOTS_WIDTH, bottom + 38, body)


def _dot_entries(series: Sequence[str]) -> list[LegendEntry]:
    return [
        LegendEntry(name, partial(marker, kind=i, class_=f"dot {color_class(i)}"))
        for i, name in enumerate(series)
    ]


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
        low, high, value = 100 * dot.low, 100 * dot.high, 100 * dot.value
        hint = f"{row.label}, {name}: {value:.1f} % ({low:.1f} to {high:.1f})"
        y = top + band / 2 + (i - (len(series) - 1) / 2) * DOTS_STEP
        parts += _draw_dot(i, scale(value), scale(low), scale(high), y, hint)
    return parts


def _draw_dot(series: int, x: float, low: float, high: float, y: float, hint: str) -> list[str]:
    color = color_class(series)
    return [
        line(low, y, high, y, f"whisker {color}"),
        marker(x, y, series, f"dot {color}", hint=hint),
    ]


SENSITIVITY_WIDTH, SENSITIVITY_RIGHT = 760.0, 16.0
SENSITIVITY_STEP, SENSITIVITY_GAP = 12.0, 12.0
AXIS_MINIMUM = 1e-6
"""Lower end of the logarithmic axis."""


def sensitivity_plot(
    title: str, rows: Mapping[str, Mapping[str, Dot]], series: Sequence[str], breaks: Sequence[str]
) -> str:
    """Dot plot of sensitivities on a logarithmic axis; empty if there is nothing to draw.

    Args:
        title: of the figure.
        rows: dots by metric and series.
        series: names of the series, in the order of their dots and colors.
        breaks: metrics that begin a new family.
    """
    drawn = {name: dots for name, dots in rows.items() if dots}
    if not drawn:
        return ""
    ends = [(dot.low, dot.high) for dots in drawn.values() for dot in dots.values()]
    lowest = math.floor(math.log10(max(min(low for low, _ in ends), AXIS_MINIMUM)))
    highest = math.ceil(math.log10(max(*(high for _, high in ends), 10 * AXIS_MINIMUM)))
    left = 16 + 1.2 * CHARACTER_WIDTH * max(map(len, drawn))
    scale = Scale(lowest, max(highest, lowest + 1), left, SENSITIVITY_WIDTH - SENSITIVITY_RIGHT)
    key, top = legend(_dot_entries(series), 0, 0, SENSITIVITY_WIDTH)
    top += 8
    band = max(SENSITIVITY_STEP * len(series) + SENSITIVITY_GAP, 26.0)
    bottom = top + band * len(drawn)
    body = [key]
    for power in range(lowest, max(highest, lowest + 1) + 1):
        x = scale(power)
        body.append(line(x, top, x, bottom, "grid"))
        body.append(text(x, bottom + 15, f"{10.0**power:g}", anchor="middle", class_="tick"))
    body.append(x_axis(scale, (), top, bottom, "sensitivity, 95 % interval"))
    for i, (name, dots) in enumerate(drawn.items()):
        y = top + i * band
        body.append(line(0, y, scale.end, y, "zero" if name in breaks and i else "rule"))
        body.append(text(left - 10, y + band / 2 + 4, name, anchor="end", class_="row"))
        for j, label in enumerate(series):
            dot = dots.get(label)
            if dot is None:
                continue
            x, low, high = (
                scale(math.log10(max(end, AXIS_MINIMUM))) for end in (dot.value, dot.low, dot.high)
            )
            middle = y + band / 2 + (j - (len(series) - 1) / 2) * SENSITIVITY_STEP
            hint = f"{name}, {label}: {dot.value:.3g} ({dot.low:.3g} to {dot.high:.3g})"
            body += _draw_dot(j, x, low, high, middle, hint)
    description = "; ".join(
        f"{name}: " + ", ".join(f"{label} {dot.value:.3g}" for label, dot in dots.items())
        for name, dots in drawn.items()
    )
    note = "The axis is logarithmic. Whiskers are 95 % intervals, drawn by image."
    return figure(title, note, description, SENSITIVITY_WIDTH, bottom + 38, body)


WIDTH, LEFT, RIGHT, TOP, HEIGHT = 480.0, 42.0, 12.0, 26.0, 200.0
"""Frame of the curve plots."""

ALPHA_PAD = 0.01
"""Room above and below the α curve, as a fraction of all examples."""


def _curve_figure(
    title: str,
    note: str,
    description: str,
    body: Sequence[str],
    entries: Sequence[LegendEntry],
    bottom: float = TOP + HEIGHT,
) -> str:
    """Figure of curves, with the legend below the axis."""
    key, height = legend(entries, 0, bottom + 46, WIDTH)
    return figure(title, note, description, WIDTH, bottom + 48 + height, [*body, key])


def alpha_plot(title: str, alpha: AlphaReport) -> str:
    """α curve of one run as a figure, with the four choices of α marked."""
    values = alpha.metrics[alpha.chosen_by]
    metric = metric_words(alpha.chosen_by)
    mean = sum(alpha.alphas) / len(alpha.alphas) if alpha.alphas else 0.0
    tuned = (values.cross_validated - values.std, values.cross_validated + values.std)
    heights = [value for _, value in alpha.curve]
    heights += [values.raw, values.pmi, values.oracle, *tuned]
    low = 100 * max(min(heights) - ALPHA_PAD, 0.0)
    high = 100 * min(max(heights) + ALPHA_PAD, 1.0)
    x = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT)
    y = Scale(low, high, TOP + HEIGHT, TOP)
    start, end = (x(bound) for bound in alpha.oracle_segment)
    grid = (0, 0.2, 0.4, 0.6, 0.8, 1)
    body = [
        x_axis(x, grid, TOP, TOP + HEIGHT, "α, share of the prior taken out"),
        y_axis(y, ticks(low, high, 4), LEFT, WIDTH - RIGHT, f"{metric} (%)"),
        element("rect", x=start, y=TOP, width=max(end - start, 0.5), height=HEIGHT, class_="band"),
        polyline([(x(at), y(100 * value)) for at, value in alpha.curve], "curve s0"),
        line(x(mean), y(100 * tuned[0]), x(mean), y(100 * tuned[1]), "whisker s3"),
    ]
    marks = (
        ("raw, α = 0", 0.0, values.raw, 0, "dot s0"),
        ("wholly taken out, α = 1", 1.0, values.pmi, 1, "dot s0"),
        ("cross-validated", mean, values.cross_validated, 2, "dot s3"),
        ("oracle: tuned on the test data", alpha.oracle_alpha, values.oracle, 3, "ring"),
    )
    entries = []
    for name, at, value, kind, class_ in marks:
        spread = f" ± {100 * values.std:.1f}" if name == "cross-validated" else ""
        words = f"{name}: {100 * value:.1f}{spread}"
        body.append(marker(x(at), y(100 * value), kind, class_, size=5, hint=words))
        entries.append(LegendEntry(words, partial(marker, kind=kind, class_=class_, size=5)))
    description = (
        f"{metric} is {100 * values.raw:.1f} % as it is, {100 * values.pmi:.1f} % "
        f"at α = 1, {100 * values.cross_validated:.1f} % with α cross-validated, and "
        f"{100 * values.oracle:.1f} % at best, when α is tuned on the test data"
    )
    return _curve_figure(title, "", description, body, entries)


POINTS = 161
DENSITY_BINS = 4096
"""Bins of a density of more values than this."""
MIN_BANDWIDTH = 0.02
"""Least bandwidth, in standard deviations of a score: many equal values are still drawn."""


def equivariance_plot(
    title: str, series: Mapping[str, FloatArray], order: Sequence[str] = (), note: str = ""
) -> str:
    """Equivariance densities as a figure; empty if there is nothing to draw.

    Args:
        title: of the figure.
        series: for each model and score e of every 2 × 2 example, in standard deviations.
        order: the series of the report, so that each has one color everywhere.
        note: how to read it.
    """
    drawn = {name: values for name, values in series.items() if len(values) > 1}
    if not drawn:
        return ""
    far = max(float(np.quantile(np.abs(values), 0.99)) for values in drawn.values())
    edge = max(1.1 * far, 0.5)
    grid = np.linspace(-edge, edge, POINTS)
    densities = {name: kernel_density(values, grid) for name, values in drawn.items()}
    highest = 1.05 * max(float(density.max()) for density in densities.values())
    x = Scale(-edge, edge, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, highest, TOP + HEIGHT, TOP)
    label = "e, in standard deviations of the score"
    body = [
        x_axis(x, ticks(-edge, edge), TOP, TOP + HEIGHT, label),
        y_axis(y, ticks(0, highest, 4), LEFT, WIDTH - RIGHT, "density"),
        line(x(0), TOP, x(0), TOP + HEIGHT, "zero"),
    ]
    entries = []
    positions = list(dict.fromkeys((*order, *drawn)))
    for name, density in densities.items():
        i = positions.index(name)
        class_, dashes = f"curve {color_class(i)}", DASHES[i % len(DASHES)]
        points = [(x(at), y(value)) for at, value in zip(grid, density, strict=True)]
        body.append(polyline(points, class_, dashes))
        words = f"{name} (sd {drawn[name].std():.2f})"
        entries.append(LegendEntry(words, partial(stroke, class_=class_, dashes=dashes)))
    description = "; ".join(
        f"{name}: mean {values.mean():.2f}, standard deviation {values.std():.2f}"
        for name, values in drawn.items()
    )
    return _curve_figure(title, note, description, body, entries)


def kernel_density(values: FloatArray, grid: FloatArray) -> FloatArray:
    """Gaussian kernel density with Silverman's bandwidth; many values are binned finely first."""
    low, high = np.quantile(values, (0.25, 0.75))
    spread = min(float(values.std()), float(high - low) / 1.349) or float(values.std())
    width = max(0.9 * spread * len(values) ** -0.2, MIN_BANDWIDTH)
    points, weights = values, np.full(len(values), 1 / len(values))
    if len(values) > DENSITY_BINS:
        binned = histogram(values, np.ones(len(values)), bins=DENSITY_BINS)
        points = (binned.edges[:-1] + binned.edges[1:]) / 2
        weights = binned.right / len(values)
    kernel = np.exp(-0.5 * ((grid[:, None] - points[None, :]) / width) ** 2) @ weights
    return np.asarray(kernel / (width * np.sqrt(2 * np.pi)), dtype=np.float64)


HISTOGRAM_HEIGHT = 160.0


def histogram_plot(
    title: str, edges: Sequence[float], right: Sequence[int], wrong: Sequence[int], label: str
) -> str:
    """Histograms of right and wrong captions as a figure; empty if there is nothing to draw.

    Args:
        title: of the figure.
        edges: of the bins.
        right: number of right captions in each bin; drawn as a share of all right ones.
        wrong: the same of wrong ones.
        label: of the axis.
    """
    if not edges or edges[-1] <= edges[0] or not (sum(right) and sum(wrong)):
        return ""
    shares = [[100 * count / sum(counts) for count in counts] for counts in (right, wrong)]
    highest = 1.05 * max(map(max, shares))
    bottom = TOP + HISTOGRAM_HEIGHT
    x = Scale(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    y = Scale(0.0, highest, bottom, TOP)
    body = [
        x_axis(x, ticks(edges[0], edges[-1]), TOP, bottom, label),
        y_axis(y, ticks(0, highest, 4), LEFT, WIDTH - RIGHT, "captions (%)"),
    ]
    entries = []
    for i, (name, heights) in enumerate(zip(("right", "wrong"), shares, strict=True)):
        class_, dashes = f"curve {color_class(3 * i)}", DASHES[i]
        points = [(x(edges[0]), y(0))]
        for j, height in enumerate(heights):
            points += [(x(edges[j]), y(height)), (x(edges[j + 1]), y(height))]
        body.append(polyline([*points, (x(edges[-1]), y(0))], class_, dashes))
        entries.append(
            LegendEntry(f"{name} captions", partial(stroke, class_=class_, dashes=dashes))
        )
    means = [
        sum(share * (a + b) / 200 for share, a, b in zip(heights, edges, edges[1:], strict=False))
        for heights in shares
    ]
    description = f"mean of right captions {means[0]:.2f}, of wrong ones {means[1]:.2f}"
    return _curve_figure(title, "", description, body, entries, bottom)
