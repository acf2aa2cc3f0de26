"""Plots: every series is drawn, coordinates are finite, unusual data is drawn too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contrapose.report.html.page import element, format_coordinate
from contrapose.report.html.plots import (
    Dot,
    DotRow,
    alpha_plot,
    dot_plot,
    equivariance_plot,
    histogram_plot,
    kernel_density,
    sensitivity_plot,
)
from contrapose.report.html.svg import Scale, ticks
from tests.report.html.checks import Balanced, alpha, finite

HOSTILE = "<script>alert(1)</script> & \"'"


def test_dots() -> None:
    rows = [
        DotRow("swap", {"a · itc": Dot(0.5, 0.4, 0.6), HOSTILE: Dot(1.0, 1.0, 1.0)}, 0.5),
        DotRow(HOSTILE, {"a · itc": Dot(0.0, 0.0, 0.0)}, None, "group"),
    ]
    drawn = dot_plot("By change", rows, ["a · itc", HOSTILE])
    page = Balanced(drawn)
    assert finite(drawn)
    assert {"a · itc", "swap", HOSTILE, "group", "chance"} <= set(page.text)
    dots = [attributes for _, attributes in page.tags if "dot" in str(attributes.get("class"))]
    assert len(dots) == 3 + 2  # and two in the legend
    assert "a · itc 50.0 %" in str(page.tags[4][1].get("aria-label"))
    assert page.count("script") == 0
    assert dot_plot("Nothing", [], ["a"]) == ""


def test_alpha() -> None:
    drawn = alpha_plot(f"tiny {HOSTILE}", alpha())
    page = Balanced(drawn)
    assert finite(drawn)
    words = " ".join(page.text)
    assert "raw, α = 0: 60.0" in words
    assert "α = 1: 70.0" in words
    assert "cross-validated: 75.0 ± 2.0" in words
    assert "oracle: tuned on the test data: 80.0" in words
    assert page.count("script") == 0


def test_a_flat_alpha_curve_is_drawn() -> None:
    all_right = {"raw": 1.0, "pmi": 1.0, "cross_validated": 1.0, "std": 0.0, "oracle": 1.0}
    report = alpha()
    values = report.metrics["accuracy"].model_copy(update=all_right)
    flat = report.model_copy(
        update={
            "curve": tuple((at, 1.0) for at, _ in report.curve),
            "metrics": {"accuracy": values},
        }
    )
    assert finite(alpha_plot("flat", flat))


def test_equivariance() -> None:
    rng = np.random.default_rng(0)
    series = {"a": rng.normal(size=50), "b": np.zeros(50), HOSTILE: rng.normal(size=3)}
    drawn = equivariance_plot("Equivariance", {**series, "one": np.zeros(1)}, ["z", "a"])
    page = Balanced(drawn)
    assert finite(drawn)
    words = " ".join(page.text)
    assert all(f"{name} (sd " in words for name in series)
    assert "one (sd" not in words
    curves = [str(attributes.get("class")) for tag, attributes in page.tags if tag == "polyline"]
    assert curves.count("curve s1") == 2  # "a" is second in the order of the report
    assert equivariance_plot("Nothing", {}) == ""


def test_density_adds_up_to_one() -> None:
    grid = np.linspace(-8, 8, 2001)
    values = np.random.default_rng(0).normal(size=400)
    assert np.trapezoid(kernel_density(values, grid), grid) == pytest.approx(1, abs=1e-3)


def test_density_of_many_values_is_that_of_their_bins() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    grid = np.linspace(-3, 3, 61)
    low, high = np.quantile(values, (0.25, 0.75))
    width = 0.9 * min(values.std(), (high - low) / 1.349) * len(values) ** -0.2
    exact = np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).mean(axis=1)
    exact /= width * np.sqrt(2 * np.pi)
    assert np.allclose(kernel_density(values, grid), exact, atol=1e-4)


def test_ticks_are_round() -> None:
    assert ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert ticks(69.2, 80.9, 4) == [70, 75, 80]
    assert ticks(-0.5, 0.5) == [-0.4, -0.2, 0.0, 0.2, 0.4]


def test_scale_keeps_to_its_ends() -> None:
    scale = Scale(0, 10, 100, 0)
    assert [scale(5), scale(-1), scale(20)] == [50, 100, 0]
    assert replace(scale, end=200)(10) == 200


def test_numbers_of_a_drawing() -> None:
    assert [format_coordinate(value) for value in (1.0, 0.126, -0.001, -2.5, 100)] == [
        "1", "0.13", "0", "-2.5", "100",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="nan"):
        format_coordinate(float("nan"))
    assert element("p", "x", class_="a", hidden=True, open=False, id=None) == (
        '<p class="a" hidden>x</p>'
    )


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 20.0])
def test_sensitivities_of_any_size(value: float) -> None:
    markup = sensitivity_plot("T", {"Q_O": {"m": Dot(value, value, value)}}, ["m"], ["Q_O"])
    assert f"Q_O, m: {value:.3g}" in markup
    assert sensitivity_plot("T", {"Q_O": {}}, ["m"], []) == ""


def test_histogram_has_both_outlines_and_a_description() -> None:
    markup = histogram_plot("A <score>", [0.0, 1.0, 2.0], [1, 3], [4, 0], "log P")
    assert markup.count("<polyline") == 4  # two outlines, two symbols in the legend
    assert "mean of right captions 1.25, of wrong ones 0.50" in markup
    assert "A &lt;score&gt;" in markup


def test_empty_histogram() -> None:
    assert histogram_plot("t", [0.0, 1.0], [1], [0], "x") == ""
    assert histogram_plot("t", [1.0, 1.0], [1], [1], "x") == ""
