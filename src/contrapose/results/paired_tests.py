"""Paired bootstrap tests of two means of the same comparisons, corrected by Holm.

Each test says how many comparisons would show a difference of the size that was seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from contrapose.metrics import FEWEST_UNITS, FloatArray, IntArray, holm, mean_of, paired_bootstrap
from contrapose.metrics.statistics.significance import count_needed, standard_error
from contrapose.results.schema import SchemaModel

LEVEL = 0.05
"""Significance level of the tests, after Holm's correction."""

ROUNDING = 1e-12
"""Sensitivities below this are rounding errors."""


class PairedTest(SchemaModel):
    """Paired bootstrap test of two mean sensitivities.

    Attributes:
        metric: the metric of the first mean.
        first: first mean.
        second: second mean.
        difference: second − first.
        ci95: 95 % interval of the difference; null with too few images.
        p_holm: two-sided p-value, corrected by Holm over all tests of its kind (`correct_holm`).
        n: number of comparisons.
        error: standard error of the difference; null with one image.
        needed: comparisons that would show a difference of this size, with 80 % power at the
            strictest level of Holm's correction; null where it is 0.
    """

    metric: str
    first: float
    second: float
    difference: float
    ci95: tuple[float, float] | None
    p_holm: float
    n: int = 0
    error: float | None = None
    needed: int | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant after correction."""
        return self.p_holm < LEVEL

    @property
    def words(self) -> str:
        """Difference with its interval and p-value, as text."""
        if self.ci95 is None:
            few = f"no interval of fewer than {FEWEST_UNITS} images"
            return f"difference {_format_signed(self.difference)}, {few}"
        low, high = map(_format_signed, self.ci95)
        p_value = "p < 0.001" if self.p_holm < 0.001 else f"p = {self.p_holm:.3f}"
        return f"difference {_format_signed(self.difference)} [{low}, {high}], {p_value}"


def _format_signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def join_words(parts: Sequence[str]) -> str:
    """Join a list in words: "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def compare_means(
    key: str,
    first: FloatArray,
    second: FloatArray,
    clusters: IntArray,
    *,
    resamples: int,
    seed: int,
) -> PairedTest:
    """Test whether two sensitivities (c,) of the same comparisons have the same mean.

    The p-value is not corrected yet.
    """
    a, b = mean_of(first), mean_of(second)
    paired = paired_bootstrap(a, b, clusters, resamples, seed)
    bounds = None if math.isnan(paired.ci95[0]) else paired.ci95
    error = standard_error(second - first, clusters)
    return PairedTest(
        metric=key,
        first=a.value(),
        second=b.value(),
        difference=paired.difference,
        ci95=bounds,
        p_holm=paired.p,
        n=len(first),
        error=None if math.isnan(error) else error,
    )


def correct_holm(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """Tests with p-values corrected by Holm over all of them, and with the needed comparisons."""
    p_values = holm([test.p_holm for test in tests]).tolist()
    strictest = LEVEL / max(len(tests), 1)
    return [
        test.model_copy(update={"p_holm": p, "needed": _count_needed(test, strictest)})
        for test, p in zip(tests, p_values, strict=True)
    ]


def _count_needed(test: PairedTest, level: float) -> int | None:
    if test.error is None or abs(test.difference) <= ROUNDING:
        return None
    return count_needed(test.difference, test.error, test.n, level=level)
