"""Two mean sensitivities on the same comparisons, tested against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from contrapose.diagnose.wording import interval, p_value, signed
from contrapose.metrics import FloatArray, IntArray, holm, mean_of, paired_bootstrap

LEVEL = 0.05
"""Of the tests, after Holm's correction."""


@dataclass(frozen=True, slots=True)
class Paired:
    """One paired comparison of two mean sensitivities.

    Attributes:
        key: what the first is: the metric that is compared with.
        first: mean of what is compared with.
        second: mean of what is compared.
        difference: second less first.
        ci95: the difference's interval.
        p: two-sided p-value, corrected by Holm once `corrected` has done so.
    """

    key: str
    first: float
    second: float
    difference: float
    ci95: tuple[float, float]
    p: float

    @property
    def is_shown(self) -> bool:
        """Whether there is a difference."""
        return self.p < LEVEL

    @property
    def words(self) -> str:
        """The difference with its interval and its p-value."""
        return f"difference {signed(self.difference)} {interval(self.ci95)}, {p_value(self.p)}"


def paired(
    key: str,
    first: FloatArray,
    second: FloatArray,
    clusters: IntArray,
    *,
    resamples: int,
    seed: int,
) -> Paired:
    """Test whether two sensitivities (c,) of the same comparisons have the same mean."""
    a, b = mean_of(first), mean_of(second)
    found = paired_bootstrap(a, b, clusters, resamples, seed)
    return Paired(key, a.value(), b.value(), found.difference, found.ci95, found.p)


def corrected(tests: Sequence[Paired]) -> list[Paired]:
    """The same tests with p-values corrected by Holm over all of them."""
    p_values = holm([test.p for test in tests]).tolist()
    return [replace(test, p=p) for test, p in zip(tests, p_values, strict=True)]
