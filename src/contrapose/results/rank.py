"""Ranking of models in tiers of significance: paired tests of all pairs, corrected by Holm.

Each pair is tested as `compare` tests it, on the same examples, with the higher-ranked model as A.
Holm's correction counts every test of the ranking: all pairs, on all benchmarks and metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Literal

import numpy as np

from contrapose import __version__, metrics
from contrapose.data import Macro
from contrapose.errors import InputError
from contrapose.metrics import IntArray, RankStatistic, Statistic
from contrapose.results.compare import (
    TOO_FEW,
    Method,
    compare,
    compare_ranks,
    decide_verdict,
    describe_change,
    find_aggregation,
)
from contrapose.results.measures import Measurements, group_units, known_interval
from contrapose.results.rank_runs import RankEntry, name_models, share_examples
from contrapose.results.rankings import BenchmarkRanking, RankedModel, RankedPair, Ranking
from contrapose.results.schema import Difference
from contrapose.results.shapes import AVERAGE, main_metric
from contrapose.results.statistics import (
    better_direction,
    build_rank_statistics,
    build_statistics,
    count_units,
    is_share,
    statistic_interval,
)
from contrapose.results.summary import RESAMPLES

MOST_GROUPS = 200
"""Groups that are listed; tests that contradict each other in many ways can have millions."""

OVERALL = "all benchmarks"
"""Name of the ranking by the mean over benchmarks."""


def rank_entries(
    entries: Sequence[RankEntry],
    *,
    names: Sequence[str] = (),
    common: bool = False,
    method: Method = "midp",
    level: float = 0.05,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Ranking:
    """Rank models on every benchmark that they share.

    Args:
        entries: the runs.
        names: metrics to rank by; none takes the main metric of each benchmark.
        common: rank on the benchmarks and examples that all models have.
        method: which of McNemar's tests.
        level: significance level after Holm's correction.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: there are fewer than two models, or their benchmarks or examples differ and
            `common` is off, or a metric cannot be ranked by.
    """
    models = name_models(entries)
    shared, notes = share_examples(models, common=common)
    drafts: list[_Draft] = []
    for benchmark, runs in shared.items():
        statistics = {name: _statistics(benchmark, run) for name, run in runs.items()}
        for metric in names or [_main_metric(benchmark, runs, statistics)]:
            draft = _start_draft(benchmark, metric, runs, statistics)
            drafts.append(draft)
            if draft.compare_ranked(resamples, seed):
                continue
            for a, b in combinations(draft.order, 2):
                changes, remarks = compare(
                    runs[a],
                    runs[b],
                    find_aggregation(benchmark),
                    names=(metric,),
                    method=method,
                    resamples=resamples,
                    seed=seed,
                )
                draft.pairs[a, b] = changes[metric]
                notes += remarks
    if len(shared) > 1 and not names:
        if all(draft.averages and draft.better == "higher" for draft in drafts):
            drafts.insert(0, _draft_mean(drafts, resamples, seed))
        else:
            notes.append(
                "there is no mean over benchmarks, since not all metrics are shares of examples"
            )
    adjusted = metrics.holm([change.p for draft in drafts for change in draft.pairs.values()])
    remaining = iter(adjusted.tolist())
    rankings = [
        draft.finish(list(islice(remaining, len(draft.pairs))), level, resamples, seed)
        for draft in drafts
    ]
    if any(len(ranking.groups) == MOST_GROUPS for ranking in rankings):
        notes.append(f"only the first {MOST_GROUPS} groups of models that do not differ are listed")
    if len({entry.protocol for entry in entries}) > 1:
        notes.append("some runs count ties as the official script does, others never as wins")
    return Ranking(
        contrapose=__version__,
        level=level,
        tests=len(adjusted),
        resamples=resamples,
        seed=seed,
        rankings=tuple(rankings),
        notes=tuple(dict.fromkeys(notes)),
    )


def _statistics(benchmark: str, run: Measurements) -> dict[str, Statistic | RankStatistic]:
    aggregation = find_aggregation(benchmark)
    over = group_units(run, aggregation) if isinstance(aggregation, Macro) else None
    return {**build_statistics(run, over), **build_rank_statistics(run, over)}


def _main_metric(
    benchmark: str,
    runs: Mapping[str, Measurements],
    statistics: Mapping[str, Mapping[str, Statistic | RankStatistic]],
) -> str:
    """Main metric of the benchmark's shape, or its first share with a better direction."""
    first = next(iter(runs))
    known = {name: 0 for name in statistics[first] if all(name in s for s in statistics.values())}
    shares = (
        name
        for name in known
        if is_share(runs[first], name) and better_direction(runs[first], name) is not None
    )
    metric = main_metric(known) or next(shares, None)
    if metric is None:
        raise InputError(f"the runs on {benchmark} share no metric to rank by.")
    return metric


def _start_draft(
    benchmark: str,
    metric: str,
    runs: Mapping[str, Measurements],
    statistics: Mapping[str, Mapping[str, Statistic | RankStatistic]],
) -> _Draft:
    """Draft of the ranking by one metric of a benchmark, without its pairs.

    Raises:
        InputError: a model lacks the metric, or neither direction of it is better.
    """
    for name, known in statistics.items():
        if metric not in known:
            raise InputError(
                f"{metric!r} of {benchmark} cannot be ranked by; metrics of {name}: "
                f"{', '.join(known)}."
            )
    first = next(iter(runs.values()))
    better = better_direction(first, metric)
    if better is None:
        raise InputError(f"of {metric!r} neither direction is better, so it gives no ranking.")
    return _Draft(
        benchmark,
        metric,
        better,
        is_share(first, metric),
        count_units(first, metric),
        {name: known[metric] for name, known in statistics.items()},
        first,
    )


def _draft_mean(drafts: Sequence[_Draft], resamples: int, seed: int) -> _Draft:
    """Draft of the ranking by the mean over benchmarks, each with equal weight.

    Examples of different benchmarks are drawn apart from each other, so that the test is the paired
    bootstrap over the clusters of all.
    """
    sizes = [next(iter(draft.statistics.values())).examples for draft in drafts]
    starts = np.cumsum([0, *sizes])
    clusters = np.concatenate(
        [
            start + (np.arange(size) if draft.clusters is None else _renumber(draft.clusters))
            for draft, start, size in zip(drafts, starts, sizes, strict=False)
        ]
    )
    statistics = {
        name: metrics.combine(
            [
                metrics.pad(part, int(start), int(starts[-1]))
                for draft, start in zip(drafts, starts, strict=False)
                if isinstance(part := draft.statistics[name], Statistic)
            ]
        )
        for name in drafts[0].statistics
    }
    n = sum(draft.n for draft in drafts)
    units = Measurements(("",) * int(starts[-1]), {}, clusters, {})
    mean = _Draft(OVERALL, AVERAGE, "higher", True, n, statistics, units)
    for a, b in combinations(mean.order, 2):
        first, second = statistics[a], statistics[b]
        drawn = metrics.paired_bootstrap(
            first, second, clusters=clusters, resamples=resamples, seed=seed
        )
        bounds = known_interval(drawn.ci95)
        mean.pairs[a, b] = Difference(
            a=first.value(),
            b=second.value(),
            difference=second.value() - first.value(),
            ci95=bounds,
            n=n,
            share=True,
            better="higher",
            test="paired-bootstrap" if bounds else TOO_FEW,
            p=drawn.p,
            p_holm=drawn.p,
            verdict="no significant difference",
        )
    return mean


def _renumber(clusters: IntArray) -> IntArray:
    return np.asarray(np.unique(clusters, return_inverse=True)[1].reshape(-1))


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """Ranking of one benchmark and metric before the correction for many tests."""

    benchmark: str
    metric: str
    better: Literal["higher", "lower"]
    share: bool
    n: int
    statistics: Mapping[str, Statistic | RankStatistic]
    units: Measurements
    pairs: dict[tuple[str, str], Difference] = field(default_factory=dict)

    @property
    def clusters(self) -> IntArray | None:
        """Clusters of the examples; None where images are unknown."""
        return self.units.clusters

    @property
    def averages(self) -> bool:
        """Whether the metric is a share of examples, so that a mean over benchmarks has it."""
        return self.share and all(isinstance(one, Statistic) for one in self.statistics.values())

    def compare_ranked(self, resamples: int, seed: int) -> bool:
        """Compare all pairs by a metric that is no mean over examples; False for other metrics.

        Every model is resampled once, all in the same resamples.
        """
        ranked = {
            name: one for name, one in self.statistics.items() if isinstance(one, RankStatistic)
        }
        if not ranked:
            return False
        replicates = metrics.joint_rank_replicates(
            list(ranked.values()), clusters=self.clusters, resamples=resamples, seed=seed
        )
        drawn = dict(zip(ranked, replicates, strict=True))
        for a, b in combinations(self.order, 2):
            change = compare_ranks(ranked[a], ranked[b], drawn[a], drawn[b])
            self.pairs[a, b] = describe_change(self.units, self.metric, change, change.p, 1.0)
        return True

    @property
    def order(self) -> list[str]:
        """Models, best first; those of equal value by name."""
        sign = -1 if self.better == "higher" else 1
        values = {name: statistic.value() for name, statistic in self.statistics.items()}
        return sorted(values, key=lambda name: (sign * values[name], name))

    def finish(
        self, p_values: Sequence[float], level: float, resamples: int, seed: int
    ) -> BenchmarkRanking:
        """Build the ranking from corrected p-values, in the order of the pairs."""
        order = self.order
        position = {name: i for i, name in enumerate(order)}
        differ = np.zeros((len(order), len(order)), dtype=np.bool_)
        pairs = []
        for ((a, b), change), p in zip(self.pairs.items(), p_values, strict=True):
            verdict = decide_verdict(change.difference, p, level, self.better)
            pair = RankedPair(
                a=a, b=b, change=change.model_copy(update={"p_holm": p, "verdict": verdict})
            )
            i, j = position[a], position[b]
            differ[i, j] = differ[j, i] = not pair.noise
            pairs.append(pair)
        values = [self.statistics[name].value() for name in order]
        models = tuple(
            RankedModel(
                name=name,
                rank=1 + values.index(values[i]),
                tier=int(tier),
                value=values[i],
                ci95=known_interval(
                    statistic_interval(
                        self.statistics[name], self.clusters, resamples=resamples, seed=seed
                    )
                ),
                like=int((~differ[i]).sum()) - 1,
            )
            for i, (name, tier) in enumerate(
                zip(order, metrics.significance_tiers(differ), strict=True)
            )
        )
        groups = sorted(islice(metrics.maximal_groups(differ), MOST_GROUPS))
        return BenchmarkRanking(
            benchmark=self.benchmark,
            metric=self.metric,
            better=self.better,
            share=self.share,
            n=self.n,
            models=models,
            groups=tuple(tuple(order[i] for i in group) for group in groups),
            pairs=tuple(pairs),
        )
