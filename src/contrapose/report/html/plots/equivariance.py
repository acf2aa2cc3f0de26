"""How evenly a model's score answers a change of meaning: the density of e_text, per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from contrapose.metrics import FloatArray
from contrapose.report.html.plots.svg import (
    DASHES,
    Entry,
    Scale,
    colour,
    figure,
    legend,
    line,
    polyline,
    stroke,
    ticks,
    x_axis,
    y_axis,
)

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 480.0, 42.0, 12.0, 26.0, 200.0
POINTS = 161
NARROWEST = 0.02
"""The least bandwidth, in standard deviations of a score: many equal values are still drawn."""


def equivariance_plot(
    title: str, series: Mapping[str, FloatArray], order: Sequence[str] = ()
) -> str:
    """The densities as a figure; empty text where there is nothing to draw.

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
    densities = {name: density(values, grid) for name, values in drawn.items()}
    highest = 1.05 * max(float(each.max()) for each in densities.values())
    x = Scale(-edge, edge, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, highest, TOP + HEIGHT, TOP)
    body = [
        x_axis(x, ticks(-edge, edge), TOP, TOP + HEIGHT, "e, in standard deviations of the score"),
        y_axis(y, ticks(0, highest, 4), LEFT, WIDTH - RIGHT, "density"),
        line(x(0), TOP, x(0), TOP + HEIGHT, "zero"),
    ]
    keys = []
    places = list(dict.fromkeys((*order, *drawn)))
    for name, values in densities.items():
        i = places.index(name)
        looks, dashes = f"curve {colour(i)}", DASHES[i % len(DASHES)]
        points = [(x(at), y(value)) for at, value in zip(grid, values, strict=True)]
        body.append(polyline(points, looks, dashes))
        words = f"{name} (sd {drawn[name].std():.2f})"
        keys.append(Entry(words, partial(stroke, class_=looks, dashes=dashes)))
    key, height = legend(keys, 0, TOP + HEIGHT + 46, WIDTH)
    note = (
        "e = (S₀₀ − S₀₁) − (S₁₁ − S₁₀): does exchanging the captions cost both pictures alike? "
        "The narrower about 0, the more equivariant."
    )
    described = "; ".join(
        f"{name}: mean {values.mean():.2f}, standard deviation {values.std():.2f}"
        for name, values in drawn.items()
    )
    return figure(title, note, described, WIDTH, TOP + HEIGHT + 48 + height, [*body, key])


def density(values: FloatArray, grid: FloatArray) -> FloatArray:
    """A Gaussian kernel density with Silverman's bandwidth."""
    low, high = np.quantile(values, (0.25, 0.75))
    spread = min(float(values.std()), float(high - low) / 1.349) or float(values.std())
    width = max(0.9 * spread * len(values) ** -0.2, NARROWEST)
    away = (grid[:, None] - values[None, :]) / width
    kernel = np.exp(-0.5 * away**2).mean(axis=1)
    return np.asarray(kernel / (width * np.sqrt(2 * np.pi)), dtype=np.float64)
