"""How a blind score is spread over right and over wrong captions: two outlines on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from contrapose.report.html.plots.svg import (
    DASHES,
    Entry,
    Scale,
    colour,
    figure,
    legend,
    polyline,
    stroke,
    ticks,
    x_axis,
    y_axis,
)

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 480.0, 42.0, 12.0, 26.0, 160.0


def spread_plot(
    title: str, edges: Sequence[float], right: Sequence[int], wrong: Sequence[int], label: str
) -> str:
    """The histograms as a figure; empty text where there is nothing to draw.

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
    x = Scale(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    y = Scale(0.0, highest, TOP + HEIGHT, TOP)
    body = [
        x_axis(x, ticks(edges[0], edges[-1]), TOP, TOP + HEIGHT, label),
        y_axis(y, ticks(0, highest, 4), LEFT, WIDTH - RIGHT, "captions (%)"),
    ]
    keys = []
    for i, (name, heights) in enumerate(zip(("right", "wrong"), shares, strict=True)):
        looks, dashes = f"curve {colour(3 * i)}", DASHES[i]
        points = [(x(edges[0]), y(0))]
        for j, height in enumerate(heights):
            points += [(x(edges[j]), y(height)), (x(edges[j + 1]), y(height))]
        body.append(polyline([*points, (x(edges[-1]), y(0))], looks, dashes))
        keys.append(Entry(f"{name} captions", partial(stroke, class_=looks, dashes=dashes)))
    key, height = legend(keys, 0, TOP + HEIGHT + 46, WIDTH)
    means = [
        sum(share * (a + b) / 200 for share, a, b in zip(heights, edges, edges[1:], strict=False))
        for heights in shares
    ]
    described = f"mean of right captions {means[0]:.2f}, of wrong ones {means[1]:.2f}"
    return figure(title, "", described, WIDTH, TOP + HEIGHT + 48 + height, [*body, key])
