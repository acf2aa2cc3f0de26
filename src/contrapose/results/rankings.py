"""Rankings as they are reported: models with tiers, groups that do not differ, and all pairs."""

from __future__ import annotations

from typing import Literal

from contrapose.results.schema import Difference, NotebookView, SchemaModel


class RankedModel(SchemaModel):
    """Model of a ranking.

    Attributes:
        name: of the model, with its score where a model has several.
        rank: from 1, the best; models of equal value share the better rank.
        tier: from 1: the tier of the best leader that it does not differ from.
        value: of the metric.
        ci95: 95 % interval of the value alone; null with fewer than 10 clusters. Overlapping
            intervals do not mean that two models do not differ: the tests are paired.
        like: number of other models that it does not differ from.
    """

    name: str
    rank: int
    tier: int
    value: float
    ci95: tuple[float, float] | None
    like: int


class RankedPair(SchemaModel):
    """Two models of a ranking, tested on the same examples.

    Attributes:
        a: the higher-ranked one.
        b: the other.
        change: from a to b; its `p_holm` is corrected for all tests of the ranking.
    """

    a: str
    b: str
    change: Difference

    @property
    def noise(self) -> bool:
        """Whether the difference is not significant."""
        return self.change.verdict == "no significant difference"


class BenchmarkRanking(SchemaModel):
    """Ranking by one metric of one benchmark, or by the mean over all benchmarks.

    Attributes:
        benchmark: its name.
        metric: that models are ranked by.
        better: the direction that is better.
        share: whether the metric is a share of examples, to be written as a percentage.
        n: examples of the metric.
        models: best first.
        groups: maximal sets of models of which no two differ, each best first.
        pairs: all pairs, in the order of their models.
    """

    benchmark: str
    metric: str
    better: Literal["higher", "lower"]
    share: bool
    n: int
    models: tuple[RankedModel, ...]
    groups: tuple[tuple[str, ...], ...]
    pairs: tuple[RankedPair, ...]


class Ranking(NotebookView, SchemaModel):
    """Ranking of models in tiers of significance, on every benchmark that they share.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        level: significance level after Holm's correction.
        tests: number of tests that the correction counts.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        rankings: of every benchmark and metric; of several benchmarks, their mean first.
        notes: sentences for the reader.
    """

    schema_version: Literal[1] = 1
    contrapose: str
    level: float
    tests: int
    resamples: int
    seed: int
    rankings: tuple[BenchmarkRanking, ...]
    notes: tuple[str, ...] = ()
