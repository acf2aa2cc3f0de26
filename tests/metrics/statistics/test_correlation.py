"""Fitted line: numpy's own, and a band that holds the line as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.metrics import fit_line


def test_line_is_the_least_squares_line() -> None:
    random = np.random.default_rng(1)
    x, y = 100 + random.normal(size=50), random.normal(size=50)
    fit = fit_line(x, y, points=(98, 102), clusters=np.arange(50), resamples=100)
    assert fit is not None
    slope, intercept = np.polyfit(x, y, 1)
    assert fit.slope == pytest.approx(slope)
    assert fit.intercept == pytest.approx(intercept)
    assert fit_line(x * 0 + 3, y, points=(0,), clusters=np.arange(50), resamples=9) is None
    constant = fit_line(x, y * 0 + 3, points=(98,), clusters=np.arange(50), resamples=9)
    assert constant is not None
    assert constant.slope == 0
    assert constant.intercept == pytest.approx(3)


def test_band_holds_the_true_line_as_often_as_it_says() -> None:
    points = np.array([-1.5, 0.0, 1.5])
    held = np.zeros(3)
    for seed in range(200):
        random = np.random.default_rng(seed)
        x = random.normal(size=80)
        y = 1 + 2 * x + random.normal(size=80)
        fit = fit_line(x, y, points=points, clusters=np.arange(80), resamples=300, seed=seed)
        assert fit is not None
        assert fit.low is not None
        assert fit.high is not None
        held += (fit.low <= 1 + 2 * points) & (1 + 2 * points <= fit.high)
    assert (held >= 0.89 * 200).all()
    assert (held <= 0.99 * 200).all()


def test_few_clusters_have_no_band() -> None:
    x = np.arange(30.0)
    fit = fit_line(x, x, points=(0,), clusters=np.arange(30) // 10, resamples=50)
    assert fit is not None
    assert fit.low is None
    assert fit.high is None
