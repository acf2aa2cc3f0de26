"""Differences of two models in each metric, by paired bootstrap tests on the same comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.diagnose.comparisons import Comparisons
from contrapose.diagnose.findings import PairedTest, compare_means, correct_holm, join_words
from contrapose.diagnose.metrics import FAMILIES, MetricFamily
from contrapose.diagnose.sensitivity import Diagnosis
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.results.schema import SchemaModel


class ModelDifference(SchemaModel):
    """Difference of two models: paired tests by metric.

    Attributes:
        models: the two models.
        n: comparisons that both have, the most over the metrics.
        tests: per metric, second model − first, on the comparisons both have.
        sentence: the difference in words.
    """

    models: tuple[str, str]
    n: int
    tests: tuple[PairedTest, ...]
    sentence: str


def compare_diagnoses(
    first: Diagnosis,
    second: Diagnosis,
    names: tuple[str, str],
    *,
    families: Sequence[MetricFamily] = FAMILIES,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ModelDifference:
    """Compare two models on the same comparisons, metric by metric, corrected by Holm.

    A sensitivity is in units of the model's own mean squared dividend on that example, so that
    models with scores of different scales can be compared.
    """
    tests: list[PairedTest] = []
    count = 0
    for family in families:
        a, b = first.comparisons[family.name], second.comparisons[family.name]
        rows_a, rows_b = _common_rows(a, b)
        for column, key in enumerate(family.keys):
            x, y = a.sensitivities[rows_a, column], b.sensitivities[rows_b, column]
            both = ~(np.isnan(x) | np.isnan(y))
            clusters = a.clusters[rows_a][both]
            if np.unique(clusters).size < 2:
                continue
            count = max(count, int(both.sum()))
            tests.append(
                compare_means(key, x[both], y[both], clusters, resamples=resamples, seed=seed)
            )
    final = tuple(correct_holm(tests))
    sentence = _difference_sentence(names, final, count)
    return ModelDifference(models=names, n=count, tests=final, sentence=sentence)


def _common_rows(a: Comparisons, b: Comparisons) -> tuple[list[int], list[int]]:
    """Rows of the comparisons that both diagnoses have, in the order of the first."""
    index = {row: i for i, row in enumerate(b.rows)}
    pairs = [(i, index[row]) for i, row in enumerate(a.rows) if row in index]
    return [i for i, _ in pairs], [j for _, j in pairs]


def _difference_sentence(names: tuple[str, str], tests: Sequence[PairedTest], count: int) -> str:
    first, second = names
    if not tests:
        return f"{first} and {second} have no comparisons in common to tell them apart by."
    shown = [test for test in tests if test.is_significant]
    alike = [test.metric for test in tests if not test.is_significant]
    where = f"on up to {count} comparisons that both have, p after Holm."
    if not shown:
        return f"{second} is not shown to differ from {first} in any metric, {where}"
    changed = join_words(
        [
            f"{test.metric} ({test.second:.3g} against {test.first:.3g}, {test.words})"
            for test in shown
        ]
    )
    rest = f"; no difference is shown in {join_words(alike)}" if alike else ""
    return f"{second} differs from {first} in {changed}{rest}; {where}"
