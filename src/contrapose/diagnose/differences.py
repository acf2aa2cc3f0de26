"""Where two models differ, in a sentence backed by paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.comparisons import Comparisons
from contrapose.diagnose.fourteen import FAMILIES, Family
from contrapose.diagnose.paired import Paired, corrected, paired
from contrapose.diagnose.sensitivity import Diagnosis
from contrapose.diagnose.wording import in_a_row, number
from contrapose.metrics.statistics.bootstrap import RESAMPLES


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two models differ.

    Attributes:
        names: the two models.
        tests: by metric, second model less first, on the comparisons both have.
        count: comparisons that both have, at most over the metrics.
        sentence: all this in words.
    """

    names: tuple[str, str]
    tests: tuple[Paired, ...]
    count: int
    sentence: str


def difference(
    first: Diagnosis,
    second: Diagnosis,
    names: tuple[str, str],
    *,
    families: Sequence[Family] = FAMILIES,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Compare two models on the same comparisons, metric by metric, corrected by Holm.

    A sensitivity is in units of the model's own mean squared dividend on that example, so that
    models with scores of different scales can be compared.
    """
    tests: list[Paired] = []
    count = 0
    for family in families:
        a, b = first.comparisons[family.name], second.comparisons[family.name]
        rows_a, rows_b = _common(a, b)
        for place, key in enumerate(family.keys):
            x, y = a.sensitivities[rows_a, place], b.sensitivities[rows_b, place]
            both = ~(np.isnan(x) | np.isnan(y))
            clusters = a.clusters[rows_a][both]
            if np.unique(clusters).size < 2:
                continue
            count = max(count, int(both.sum()))
            tests.append(paired(key, x[both], y[both], clusters, resamples=resamples, seed=seed))
    final = tuple(corrected(tests))
    return Difference(names, final, count, _sentence(names, final, count))


def _common(a: Comparisons, b: Comparisons) -> tuple[list[int], list[int]]:
    """The places of the comparisons that both have, in the order of the first."""
    places = {row: place for place, row in enumerate(b.rows)}
    pairs = [(place, places[row]) for place, row in enumerate(a.rows) if row in places]
    return [place for place, _ in pairs], [place for _, place in pairs]


def _sentence(names: tuple[str, str], tests: Sequence[Paired], count: int) -> str:
    first, second = names
    if not tests:
        return f"{first} and {second} have no comparisons in common to tell them apart by."
    shown = [test for test in tests if test.is_shown]
    alike = [test.key for test in tests if not test.is_shown]
    where = f"on up to {count} comparisons that both have, p after Holm."
    if not shown:
        return f"{second} is not shown to differ from {first} in any metric, {where}"
    told = in_a_row(
        [
            f"{test.key} ({number(test.second)} against {number(test.first)}, {test.words})"
            for test in shown
        ]
    )
    rest = f"; no difference is shown in {in_a_row(alike)}" if alike else ""
    return f"{second} differs from {first} in {told}{rest}; {where}"
