"""Accuracy as the language prior is taken out, from α = 0 (not at all) to α = 1 (wholly)."""

from __future__ import annotations

from functools import partial

from contrapose.report.html.markup import element
from contrapose.report.html.plots.svg import (
    Entry,
    Scale,
    figure,
    legend,
    line,
    marker,
    polyline,
    ticks,
    x_axis,
    y_axis,
)
from contrapose.results import AlphaReport

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 480.0, 42.0, 12.0, 26.0, 200.0
PAD = 0.01
"""Room above and below the curve, as a fraction of all examples."""


def alpha_plot(title: str, alpha: AlphaReport) -> str:
    """The α curve of one run as a figure, with the four ways to choose α marked on it."""
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
        y_axis(y, ticks(low, high, 4), LEFT, WIDTH - RIGHT, f"{_words(alpha.chosen_by)} (%)"),
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
        keys.append(Entry(words, partial(marker, kind=kind, class_=looks, size=5)))
    key, height = legend(keys, 0, TOP + HEIGHT + 46, WIDTH)
    described = (
        f"{_words(alpha.chosen_by)} is {100 * values.raw:.1f} % as it is, {100 * values.pmi:.1f} % "
        f"at α = 1, {100 * values.cross_validated:.1f} % with α cross-validated, and "
        f"{100 * values.oracle:.1f} % at best, when α is tuned on the test data"
    )
    return figure(title, "", described, WIDTH, TOP + HEIGHT + 48 + height, [*body, key])


def _words(metric: str) -> str:
    return metric.replace("_", " ")
