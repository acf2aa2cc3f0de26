"""Paired comparison of two runs on the same examples (methods, section 0)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from contrapose import __version__, metrics
from contrapose.data import Aggregation, Macro, Micro, Suite, find_benchmark, find_single_benchmark
from contrapose.errors import InputError, option
from contrapose.metrics import FloatArray, RankStatistic
from contrapose.metrics.statistics.significance import judge_replicates
from contrapose.results.measures import (
    ASIDE,
    CORRELATIONS,
    Better,
    Measurements,
    group_units,
    known_interval,
)
from contrapose.results.runs import is_run, read_run, split_choice
from contrapose.results.schema import BaselineComparisons, Comparison, Difference, Verdict
from contrapose.results.score_files import (
    MetricsRequest,
    measure_outcomes,
    read_annotations,
)
from contrapose.results.shapes import AVERAGE, Protocol
from contrapose.results.statistics import (
    better_direction,
    build_rank_statistics,
    build_statistics,
    count_units,
    is_share,
)
from contrapose.results.summary import RESAMPLES
from contrapose.results.tables import RunRecord
from contrapose.scores import detect_benchmark

Method = Literal["midp", "exact"]

TOO_FEW = "too few"
"""Name of the test where there are too few clusters for any."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonSide:
    """Side of a comparison: one run's benchmark and measures."""

    benchmark: str
    measured: Measurements


def compare_runs(
    a: Path | RunRecord,
    b: Path | RunRecord,
    *,
    benchmark: str | None = None,
    root: Path | None = None,
    protocol: Protocol = "strict",
    threshold: float | None = None,
    partial: bool = False,
    names: Sequence[str] = (),
    method: Method = "midp",
    level: float = 0.05,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two runs, run folders or score files; see `MetricsRequest` and `compare`.

    Of a folder with several runs, `FOLDER@tiny,lm` names one. Of a suite, its average and its
    parts' main metrics are compared unless others are named.

    Raises:
        InputError: they are not of the same benchmark and examples.
    """
    sides = []
    for path in (a, b):
        if isinstance(path, RunRecord):
            sides.append(ComparisonSide(path.results.benchmark, path.measured))
            continue
        folder, choice = split_choice(path)
        if is_run(folder):
            sides.append(ComparisonSide(*read_run(folder, choice)))
        else:
            request = score_file_request(
                path, benchmark, root, protocol=protocol, threshold=threshold, partial=partial
            )
            sides.append(measure_side(request))
    if sides[0].benchmark != sides[1].benchmark:
        raise InputError(
            f"A is of {sides[0].benchmark} and B of {sides[1].benchmark}; "
            "only runs of the same benchmark can be compared."
        )
    first, second = align_units(sides[0].measured, sides[1].measured, partial=partial)
    if not names and AVERAGE in first.derived and _is_suite(sides[0].benchmark):
        names = (AVERAGE, *first.derived[AVERAGE].sources)
    changes, notes = compare(
        first,
        second,
        find_aggregation(sides[0].benchmark),
        names=names,
        method=method,
        level=level,
        resamples=resamples,
        seed=seed,
    )
    return Comparison(
        contrapose=__version__,
        benchmark=sides[0].benchmark,
        a=_side_name(a),
        b=_side_name(b),
        level=level,
        resamples=resamples,
        seed=seed,
        metrics=changes,
        notes=notes,
    )


def measure_side(request: MetricsRequest) -> ComparisonSide:
    """Measure a score file, to be compared.

    Raises:
        InputError: the file cannot be used.
    """
    single = find_single_benchmark(request.benchmark)
    _, measured, _ = measure_outcomes(request, single, read_annotations(request, single))
    return ComparisonSide(request.benchmark, measured)


def score_file_request(
    path: Path,
    benchmark: str | None = None,
    root: Path | None = None,
    *,
    protocol: Protocol = "strict",
    threshold: float | None = None,
    partial: bool = False,
) -> MetricsRequest:
    """Request of a score file that is compared.

    Raises:
        InputError: the file does not tell its benchmark and none is named.
    """
    name = benchmark or detect_benchmark(path)
    if name is None:
        raise InputError(f"does not tell its benchmark; pass {option('on', 'BENCH')}.", file=path)
    return MetricsRequest(name, path, root, protocol=protocol, threshold=threshold, partial=partial)


def _side_name(side: Path | RunRecord) -> str:
    if isinstance(side, Path):
        return str(side)
    named = (side.results.model, side.results.score)
    return " ".join(filter(None, named)) or str(side.results.scores)


def _is_suite(name: str) -> bool:
    try:
        return isinstance(find_benchmark(name), Suite)
    except InputError:
        return True  # a suite in memory, of which only the name is known here


def find_aggregation(name: str) -> Aggregation:
    """Aggregation of a benchmark; the mean over examples of suites and of examples in memory."""
    try:
        benchmark = find_benchmark(name)
    except InputError:
        return Micro()
    return Micro() if isinstance(benchmark, Suite) else benchmark.card.aggregation


def align_units(
    a: Measurements, b: Measurements, *, partial: bool
) -> tuple[Measurements, Measurements]:
    """Align two runs' measures to the same units in the same order.

    Raises:
        InputError: the units differ and `partial` is off, or none is shared.
    """
    if a.ids == b.ids:
        return a, b
    position = {name: i for i, name in enumerate(b.ids)}
    shared = [(i, position[name]) for i, name in enumerate(a.ids) if name in position]
    if not shared:
        raise InputError("A and B have no example in common.")
    if not partial and (len(shared) < len(a) or len(shared) < len(b)):
        raise InputError(
            f"A has {len(a)} examples and B {len(b)}, of which {len(shared)} are the same; "
            f"pass {option('partial', True)} to compare on those."
        )
    left, right = np.array(shared, dtype=np.int64).T
    return a.take(left), b.take(right)


def compare(
    a: Measurements,
    b: Measurements,
    aggregation: Aggregation,
    *,
    names: Sequence[str] = (),
    method: Method = "midp",
    level: float = 0.05,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[dict[str, Difference], tuple[str, ...]]:
    """Compare the headline metrics of two runs, tested and corrected.

    McNemar's test where outcomes are 0 or 1, counted alike, and the examples independent; the
    paired bootstrap, over clusters of examples that share an image, everywhere else: also for
    rank correlations and areas, which are no means over examples. With fewer than
    `metrics.FEWEST_UNITS` clusters there is no interval, no test and no verdict.

    Args:
        a: outcomes of the first run.
        b: outcomes of the second, of the same units in the same order.
        aggregation: how the benchmark adds up.
        names: the metrics to compare; none means every share of examples and correlation of which
            one direction is better, or every such metric where there are none. Only these count in
            the correction for many comparisons.
        method: which of McNemar's tests.
        level: significance level of the verdicts.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: a metric is not there.
    """
    over = group_units(a, aggregation) if isinstance(aggregation, Macro) else None
    repeated = a.clusters is not None and metrics.has_repeats(a.clusters)
    ours, theirs = build_statistics(a, over), build_statistics(b, over)
    changes: dict[str, MetricChange] = {}
    our_ranks, their_ranks = build_rank_statistics(a, over), build_rank_statistics(b, over)
    ranked = [name for name in our_ranks if name in their_ranks]
    known = [name for name in ours if name in theirs] + ranked
    directed = [
        name for name in known if better_direction(a, name) is not None and name not in ASIDE
    ]
    main = [name for name in directed if is_share(a, name) or name in CORRELATIONS]
    for name in names or main or directed:
        if name not in known:
            raise InputError(f"{name!r} cannot be compared; metrics here: {', '.join(known)}.")
        if name in ranked:
            first_rank, second_rank = our_ranks[name], their_ranks[name]
            draws = metrics.joint_rank_replicates(
                [first_rank, second_rank], clusters=a.clusters, resamples=resamples, seed=seed
            )
            changes[name] = compare_ranks(first_rank, second_rank, draws[0], draws[1])
            continue
        drawn = metrics.paired_bootstrap(
            ours[name], theirs[name], clusters=a.clusters, resamples=resamples, seed=seed
        )
        test, p = "paired-bootstrap", drawn.p
        if math.isnan(drawn.ci95[0]):
            test = TOO_FEW
        elif over is None and not repeated and _is_binary(a, name) and _is_binary(b, name):
            where = a.measures[name].where
            first, second = (side.measures[name].values[where] > 0 for side in (a, b))
            test, p = f"mcnemar-{method}", metrics.mcnemar(first, second, method=method).p
        bounds = known_interval(drawn.ci95)
        changes[name] = MetricChange(ours[name].value(), theirs[name].value(), bounds, test, p)
    if not changes:
        raise InputError("A and B share no metric that can be compared.")
    adjusted = metrics.holm([change.p for change in changes.values()])
    compared = {
        name: describe_change(a, name, change, float(p_holm), level)
        for (name, change), p_holm in zip(changes.items(), adjusted, strict=True)
    }
    notes = []
    if a.clusters is None:
        notes.append(
            f"examples are taken as independent; {option('root', 'DIR')} clusters them by image"
        )
    elif repeated:
        notes.append(
            "examples share images or prompts, so p-values come from the clustered paired bootstrap"
        )
    few = [name for name, change in changes.items() if change.test == TOO_FEW]
    if few:
        notes.append(
            f"no interval and no test of {', '.join(few)}: there are fewer than "
            f"{metrics.FEWEST_UNITS} clusters of examples that share images, too few to tell a "
            "difference from chance"
        )
    return compared, tuple(notes)


def correct_together(comparisons: Sequence[Comparison]) -> BaselineComparisons:
    """Comparisons whose p-values are corrected over the tests of all of them, by Holm's method."""
    pairs = [(i, name) for i, one in enumerate(comparisons) for name in one.metrics]
    adjusted = metrics.holm([comparisons[i].metrics[name].p for i, name in pairs])
    changed: list[dict[str, Difference]] = [{} for _ in comparisons]
    for (i, name), p in zip(pairs, map(float, adjusted), strict=True):
        change = comparisons[i].metrics[name]
        verdict = decide_verdict(change.difference, p, comparisons[i].level, change.better)
        changed[i][name] = change.model_copy(update={"p_holm": p, "verdict": verdict})
    corrected = tuple(
        one.model_copy(update={"metrics": some})
        for one, some in zip(comparisons, changed, strict=True)
    )
    return BaselineComparisons(contrapose=__version__, comparisons=corrected)


@dataclass(frozen=True, slots=True)
class MetricChange:
    """Change of one metric from run a to run b, before the correction for many tests.

    Attributes:
        a: value of the first run.
        b: value of the second.
        ci95: interval of the difference, b less a; None with too few clusters.
        test: name of the test.
        p: its p-value.
    """

    a: float
    b: float
    ci95: tuple[float, float] | None
    test: str
    p: float


def describe_change(
    measured: Measurements, name: str, change: MetricChange, p_holm: float, level: float
) -> Difference:
    """Difference of a metric as it is reported."""
    better = better_direction(measured, name)
    return Difference(
        a=change.a,
        b=change.b,
        difference=change.b - change.a,
        ci95=change.ci95,
        n=count_units(measured, name),
        share=is_share(measured, name),
        better=better,
        test=change.test,
        p=change.p,
        p_holm=p_holm,
        verdict=decide_verdict(change.b - change.a, p_holm, level, better),
    )


def compare_ranks(
    a: RankStatistic, b: RankStatistic, drawn_a: FloatArray, drawn_b: FloatArray
) -> MetricChange:
    """Compare two rank statistics by their replicates in the same resamples."""
    ours, theirs = a.value(), b.value()
    result = judge_replicates(theirs - ours, drawn_b - drawn_a)
    bounds = known_interval(result.ci95)
    test = TOO_FEW if bounds is None else "paired-bootstrap"
    return MetricChange(ours, theirs, bounds, test, result.p)


def _is_binary(measured: Measurements, name: str) -> bool:
    return name in measured.measures and measured.measures[name].binary


def decide_verdict(difference: float, p: float, level: float, better: Better | None) -> Verdict:
    """Verdict on a difference, b less a, by its corrected p-value."""
    if p >= level or difference == 0:
        return "no significant difference"
    if better is None:
        return "higher" if difference > 0 else "lower"
    return "better" if (difference > 0) == (better == "higher") else "worse"
