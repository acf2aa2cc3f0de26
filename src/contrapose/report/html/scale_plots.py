"""Plot and table of delta vectors by their scale λ, a curve for each model or temperature.

With heads at several temperatures τ this is Figure 5 of Couairon et al., Embedding Arithmetic of
Multimodal Queries for Image Retrieval, 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from contrapose.errors import InputError
from contrapose.files import write_text
from contrapose.report.html.svg import (
    DASHES,
    LegendEntry,
    Scale,
    color_class,
    extract_svg,
    figure,
    legend,
    marker,
    polyline,
    stroke,
    ticks,
    x_axis,
    y_axis,
)
from contrapose.report.results import run_label
from contrapose.report.tables import Table
from contrapose.results import RunRecord

ScaleCurves = Mapping[str, Sequence[tuple[float, float]]]
"""By the name of a curve: λ and the share of right answers, in the order of λ."""

LEFT, TOP, WIDTH, HEIGHT = 46.0, 32.0, 640.0, 260.0
SHOWN = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""λ that a table of a long curve shows."""


def run_curves(runs: Sequence[RunRecord]) -> dict[str, list[tuple[float, float]]]:
    """Curves of the runs whose λ was chosen on dev queries."""
    return {
        run_label(run.results) + ("" if part == "all" else f" · {part}"): [
            (float(scale), float(value)) for scale, value in spec["dev_scores"]
        ]
        for run in runs
        for part, spec in run.spec.get("edits", {}).items()
        if "dev_scores" in spec
    }


def scale_plot(title: str, curves: ScaleCurves, metric: str) -> str:
    """Figure of the shares by λ, the best λ of each curve marked; empty without curves.

    Args:
        title: of the figure.
        curves: by name; further ones than there are colors differ by their dashes.
        metric: words on the axis.
    """
    drawn = {name: list(curve) for name, curve in curves.items() if len(curve) > 1}
    if not drawn:
        return ""
    scales = [scale for curve in drawn.values() for scale, _ in curve]
    top = 100 * max(value for curve in drawn.values() for _, value in curve) or 1.0
    x = Scale(min(scales), max(scales), LEFT, WIDTH - 12)
    y = Scale(0.0, 1.05 * top, TOP + HEIGHT, TOP)
    body = [
        x_axis(x, ticks(x.low, x.high, 6), TOP, TOP + HEIGHT, "λ, scale of the delta vectors"),
        y_axis(y, ticks(0.0, y.high, 5), LEFT, WIDTH - 12, f"{metric} (%)"),
    ]
    entries = []
    words = []
    for i, (name, curve) in enumerate(drawn.items()):
        dashes, class_ = DASHES[i % len(DASHES)], f"curve {color_class(i)}"
        points = [(x(scale), y(100 * value)) for scale, value in curve]
        body.append(polyline(points, class_, dashes))
        scale, value = _best(curve)
        hint = f"{name}: {100 * value:.1f} % at λ = {scale:g}"
        body.append(marker(x(scale), y(100 * value), i, f"dot {color_class(i)}", size=5, hint=hint))
        entries.append(LegendEntry(name, partial(stroke, class_=class_, dashes=dashes)))
        words.append(hint)
    key, height = legend(entries, 4, TOP + HEIGHT + 46, WIDTH - 4)
    note = "A mark is the highest point of a curve. Point at it for its numbers."
    return figure(
        title, note, "; ".join(words), WIDTH, TOP + HEIGHT + 48 + height, [*body, key]
    )  # fmt: skip


def scale_table(title: str, curves: ScaleCurves) -> Table:
    """Table of the shares in % at some λ, and at the best."""
    listed = {name: list(curve) for name, curve in curves.items()}
    known = sorted({scale for curve in listed.values() for scale, _ in curve})
    shown = known if len(known) <= len(SHOWN) else [scale for scale in SHOWN if scale in known]
    rows = []
    for name, curve in listed.items():
        values, (scale, value) = dict(curve), _best(curve)
        cells = (f"{100 * values[s]:.1f}" if s in values else "" for s in shown)
        rows.append((name, f"{scale:g}", f"{100 * value:.1f}", *cells))
    header = ("<curve", "best λ", "at it", *(f"λ = {scale:g}" for scale in shown))
    return Table(title, header, tuple(rows))


def write_scale_plot(path: Path, title: str, curves: ScaleCurves, metric: str) -> None:
    """Write the figure as an SVG file of its own, atomically.

    Raises:
        InputError: there are no curves to draw, or the file cannot be written.
    """
    plot = scale_plot(title, curves, metric)
    if not plot:
        raise InputError("there is no curve to draw: it takes two values of λ.")
    write_text(path, extract_svg(plot) + "\n")


def _best(curve: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Highest point; of equal ones the nearest to λ = 1."""
    return min(curve, key=lambda point: (-point[1], abs(point[0] - 1)))
