"""Curve plots: α curves, equivariance densities, and histograms of blind scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from contrapose.metrics import FloatArray
from contrapose.report.html.page import element
from contrapose.report.html.plots.svg import (
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
    ticks,
    x_axis,
    y_axis,
)
from contrapose.results import AlphaReport

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 480.0, 42.0, 12.0, 26.0, 200.0
PAD = 0.01
"""Room above and below the curve, as a fraction of all examples."""


def alpha_plot(title: str, alpha: AlphaReport) -> str:
    """α curve of one run as a figure, with the four choices of α marked."""
    values = alpha.metrics[alpha.chosen_by]
    mean = sum(alpha.alphas) / len(alpha.alphas) if alpha.alphas else 0.0
    tuned = (values.cross_validated - values.std, values.cross_validated + values.std)
    heights = [value for _, value in alpha.curve]
    heights += [values.raw, values.pmi, values.oracle, *tuned]
    low = 100 * max(min(heights) - PAD, 0.0)
    high = 100 * min(max(heights) + PAD, 1.0)
    x = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT)
    y = Scale(low, high, TOP + HEIGHT, TOP)
    marks = (
        ("raw, α = 0", 0.0, values.raw, 0, "dot s0"),
        ("wholly taken out, α = 1", 1.0, values.pmi, 1, "dot s0"),
        ("cross-validated", mean, values.cross_validated, 2, "dot s3"),
        ("oracle: tuned on the test data", alpha.oracle_alpha, values.oracle, 3, "ring"),
    )
    bounds = [x(end) for end in alpha.oracle_segment]
    spread = x(mean)
    body = [
        x_axis(x, (0, 0.2, 0.4, 0.6, 0.8, 1), TOP, TOP + HEIGHT, "α, share of the prior taken out"),
        y_axis(y, ticks(low, high, 4), LEFT, WIDTH - RIGHT,
        f"{_metric_words(alpha.chosen_by)} (%)"),
        element(
            "rect", x=bounds[0], y=TOP, width=max(bounds[1] - bounds[0], 0.5), height=HEIGHT,
            class_="band",
        ),
        polyline([(x(at), y(100 * value)) for at, value in alpha.curve], "curve s0"),
        line(spread, y(100 * tuned[0]), spread, y(100 * tuned[1]), "whisker s3"),
    ]  # fmt: skip
    keys = []
    for name, at, value, kind, looks in marks:
        spread_words = f" ± {100 * values.std:.1f}" if name == "cross-validated" else ""
        words = f"{name}: {100 * value:.1f}{spread_words}"
        body.append(marker(x(at), y(100 * value), kind, looks, size=5, hint=words))
        keys.append(LegendEntry(words, partial(marker, kind=kind, class_=looks, size=5)))
    key, height = legend(keys, 0, TOP + HEIGHT + 46, WIDTH)
    described = (
        f"{_metric_words(alpha.chosen_by)} is {100 * values.raw:.1f} % as it is, "
        f"{100 * values.pmi:.1f} % "
        f"at α = 1, {100 * values.cross_validated:.1f} % with α cross-validated, and "
        f"{100 * values.oracle:.1f} % at best, when α is tuned on the test data"
    )
    return figure(title, "", described, WIDTH, TOP + HEIGHT + 48 + height, [*body, key])


def _metric_words(metric: str) -> str:
    return metric.replace("_", " ")


DENSITY_WIDTH, DENSITY_LEFT, DENSITY_RIGHT, DENSITY_TOP, DENSITY_HEIGHT = (
    480.0,
    42.0,
    12.0,
    26.0,
    200.0,
)
POINTS = 161
MIN_BANDWIDTH = 0.02
"""The least bandwidth, in standard deviations of a score: many equal values are still drawn."""


def equivariance_plot(
    title: str, series: Mapping[str, FloatArray], order: Sequence[str] = ()
) -> str:
    """Equivariance densities as a figure; empty if there is nothing to draw.

    Args:
        title: what it shows.
        series: for each model and score e_text of every 2 × 2 example, in standard deviations.
        order: the series of the whole report, so that each has one colour everywhere.
    """
    drawn = {name: values for name, values in series.items() if len(values) > 1}
    if not drawn:
        return ""
    far = max(float(np.quantile(np.abs(values), 0.99)) for values in drawn.values())
    edge = max(1.1 * far, 0.5)
    grid = np.linspace(-edge, edge, POINTS)
    densities = {name: kernel_density(values, grid) for name, values in drawn.items()}
    highest = 1.05 * max(float(each.max()) for each in densities.values())
    x = Scale(-edge, edge, DENSITY_LEFT, DENSITY_WIDTH - DENSITY_RIGHT)
    y = Scale(0.0, highest, DENSITY_TOP + DENSITY_HEIGHT, DENSITY_TOP)
    body = [
        x_axis(
            x,
            ticks(-edge, edge),
            DENSITY_TOP,
            DENSITY_TOP + DENSITY_HEIGHT,
            "e, in standard deviations of the score",
        ),
        y_axis(y, ticks(0, highest, 4), DENSITY_LEFT, DENSITY_WIDTH - DENSITY_RIGHT, "density"),
        line(x(0), DENSITY_TOP, x(0), DENSITY_TOP + DENSITY_HEIGHT, "zero"),
    ]
    keys = []
    places = list(dict.fromkeys((*order, *drawn)))
    for name, values in densities.items():
        i = places.index(name)
        looks, dashes = f"curve {color_class(i)}", DASHES[i % len(DASHES)]
        points = [(x(at), y(value)) for at, value in zip(grid, values, strict=True)]
        body.append(polyline(points, looks, dashes))
        words = f"{name} (sd {drawn[name].std():.2f})"
        keys.append(LegendEntry(words, partial(stroke, class_=looks, dashes=dashes)))
    key, height = legend(keys, 0, DENSITY_TOP + DENSITY_HEIGHT + 46, DENSITY_WIDTH)
    note = (
        "e = (S₀₀ − S₀₁) − (S₁₁ − S₁₀): does exchanging the captions cost both pictures alike? "
        "The narrower about 0, the more equivariant."
    )
    described = "; ".join(
        f"{name}: mean {values.mean():.2f}, standard deviation {values.std():.2f}"
        for name, values in drawn.items()
    )
    return figure(
        title,
        note,
        described,
        DENSITY_WIDTH,
        DENSITY_TOP + DENSITY_HEIGHT + 48 + height,
        [*body, key],
    )


def kernel_density(values: FloatArray, grid: FloatArray) -> FloatArray:
    """Gaussian kernel density with Silverman's bandwidth."""
    low, high = np.quantile(values, (0.25, 0.75))
    spread = min(float(values.std()), float(high - low) / 1.349) or float(values.std())
    width = max(0.9 * spread * len(values) ** -0.2, MIN_BANDWIDTH)
    away = (grid[:, None] - values[None, :]) / width
    kernel = np.exp(-0.5 * away**2).mean(axis=1)
    return np.asarray(kernel / (width * np.sqrt(2 * np.pi)), dtype=np.float64)


HISTOGRAM_WIDTH, HISTOGRAM_LEFT, HISTOGRAM_RIGHT, HISTOGRAM_TOP, HISTOGRAM_HEIGHT = (
    480.0,
    42.0,
    12.0,
    26.0,
    160.0,
)


def histogram_plot(
    title: str, edges: Sequence[float], right: Sequence[int], wrong: Sequence[int], label: str
) -> str:
    """Histograms of right and wrong captions as a figure; empty if there is nothing to draw.

    Args:
        title: what it shows.
        edges: of the bins.
        right: number of right captions in each bin; drawn as a share of all right ones.
        wrong: the same of wrong ones.
        label: what the axis is.
    """
    if not edges or edges[-1] <= edges[0] or not (sum(right) and sum(wrong)):
        return ""
    shares = [[100 * each / sum(counts) for each in counts] for counts in (right, wrong)]
    highest = 1.05 * max(map(max, shares))
    x = Scale(edges[0], edges[-1], HISTOGRAM_LEFT, HISTOGRAM_WIDTH - HISTOGRAM_RIGHT)
    y = Scale(0.0, highest, HISTOGRAM_TOP + HISTOGRAM_HEIGHT, HISTOGRAM_TOP)
    body = [
        x_axis(
            x, ticks(edges[0], edges[-1]), HISTOGRAM_TOP, HISTOGRAM_TOP + HISTOGRAM_HEIGHT, label
        ),
        y_axis(
            y,
            ticks(0, highest, 4),
            HISTOGRAM_LEFT,
            HISTOGRAM_WIDTH - HISTOGRAM_RIGHT,
            "captions (%)",
        ),
    ]
    keys = []
    for i, (name, heights) in enumerate(zip(("right", "wrong"), shares, strict=True)):
        looks, dashes = f"curve {color_class(3 * i)}", DASHES[i]
        points = [(x(edges[0]), y(0))]
        for j, height in enumerate(heights):
            points += [(x(edges[j]), y(height)), (x(edges[j + 1]), y(height))]
        body.append(polyline([*points, (x(edges[-1]), y(0))], looks, dashes))
        keys.append(LegendEntry(f"{name} captions", partial(stroke, class_=looks, dashes=dashes)))
    key, height = legend(keys, 0, HISTOGRAM_TOP + HISTOGRAM_HEIGHT + 46, HISTOGRAM_WIDTH)
    means = [
        sum(share * (a + b) / 200 for share, a, b in zip(heights, edges, edges[1:], strict=False))
        for heights in shares
    ]
    described = f"mean of right captions {means[0]:.2f}, of wrong ones {means[1]:.2f}"
    return figure(
        title,
        "",
        described,
        HISTOGRAM_WIDTH,
        HISTOGRAM_TOP + HISTOGRAM_HEIGHT + 48 + height,
        [*body, key],
    )
