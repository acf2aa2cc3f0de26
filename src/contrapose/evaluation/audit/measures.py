"""Metrics of blind scores, and their comparison with a captioner's likelihoods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Micro
from contrapose.data.example_columns import ExampleColumns
from contrapose.errors import InputError, option
from contrapose.evaluation.audit.captions import AuditCaptions, AuditRequest
from contrapose.evaluation.audit.scores import BlindScore
from contrapose.evaluation.selection import select
from contrapose.metrics import BoolArray, FloatArray, IntArray, holm
from contrapose.results.compare import align_units, compare
from contrapose.results.measures import Measurements, units_by_tag
from contrapose.results.records import build_record, matrices_table
from contrapose.results.schema import (
    WHOLE,
    BlindResult,
    LikelihoodPart,
    LikelihoodVerdict,
    MetricValue,
    ScoreSpread,
)
from contrapose.results.shapes import AVERAGE, MeasureInput, find_shape, main_metric, measure
from contrapose.results.summary import MeasuredPart, summarize, summarize_parts
from contrapose.results.tables import RunRecord, ScoreTable
from contrapose.scores import Answers, Frame, build_frame, read_scores

BINS = 40

Metrics = dict[str, MetricValue]


@dataclass(frozen=True, slots=True, eq=False)
class BlindMeasurements:
    """Metrics of a blind score, and the measures they summarize.

    Attributes:
        result: what is reported.
        measured: part by part.
    """

    result: BlindResult
    measured: Mapping[str, Measurements]


def measure_blind(
    score: BlindScore, captions: AuditCaptions, *, resamples: int, seed: int
) -> BlindMeasurements:
    """Measure a blind score on every part."""
    parts: dict[str, MeasuredPart] = {}
    turned: dict[str, MeasuredPart] = {}
    left_out = 0
    for name, frame in captions.frames.items():
        card, values = captions.cards[name], score.captions[name]
        complete = ~(np.isnan(values) & frame.present.any(axis=1)).any(axis=1)
        left_out += int((~complete).sum())
        chosen = np.flatnonzero(complete)
        if not chosen.size:
            continue
        for target, sign in ((parts, 1), (turned, -1)):
            measured = measure_captions(sign * values[chosen], frame.take(chosen), card)
            target[name] = MeasuredPart(card, measured)
    overall, subsets = summarize_blind(parts, resamples, seed)
    headline, reversed_subsets = summarize_blind(turned, resamples, seed)
    reversed_ = {WHOLE: headline, **reversed_subsets}
    result = BlindResult(
        score=score.score,
        by=score.by,
        meaning=score.meaning,
        metrics=overall,
        subsets=subsets,
        reversed={
            name: values[metric]
            for name, values in reversed_.items()
            if (metric := blind_metric(values)) is not None
        },
        spread=_spread_scores(score, captions),
        left_out=left_out,
    )
    return BlindMeasurements(result, {name: part.measured for name, part in parts.items()})


def blind_record(
    benchmark: str, score: BlindScore, measured: BlindMeasurements, captions: AuditCaptions
) -> RunRecord:
    """Record of the examples of a blind score: its scores and captions, and no images."""
    tables: list[ScoreTable] = []
    texts: dict[str, tuple[str, ...]] = {}
    for name in measured.measured:
        frame, values = captions.frames[name], score.captions[name]
        prefix = f"{name}/" if name else ""
        ids = [prefix + unit for unit in frame.ids]
        scores = np.repeat(values[:, None, :], frame.match.shape[1], axis=1)
        tables.append(matrices_table(ids, np.where(frame.present, scores, np.nan), frame.match))
        texts |= dict(zip(ids, frame.texts or (), strict=False))
    return build_record(
        benchmark, score.by, score.score, measured.measured, tables, captions=texts,
        spec={"model_string": None},
    )  # fmt: skip


def measure_captions(values: FloatArray, frame: Frame, card: Card) -> Measurements:
    """Measure (k, n) scores of captions, taken as the scores under every image."""
    scores = np.repeat(values[:, None, :], frame.match.shape[1], axis=1)
    measured = measure(MeasureInput(Answers(frame, scores), card))
    blind = find_shape(card).blind
    kept = {name: value for name, value in measured.measures.items() if name in blind}
    return Measurements(measured.ids, measured.tags, measured.clusters, kept)


def blind_metric(values: Mapping[str, MetricValue]) -> str | None:
    """Metric that stands for a part: the average of a suite, or what captions alone decide."""
    return AVERAGE if AVERAGE in values else main_metric(values, blind=True)


def summarize_blind(
    parts: Mapping[str, MeasuredPart], resamples: int, seed: int
) -> tuple[Metrics, dict[str, Metrics]]:
    """Headline of a blind score and its parts; of a suite, the average of the main metrics."""
    if not parts:
        return {}, {}
    summary = summarize_parts(parts, resamples=resamples, seed=seed)
    return _drop_equal_aggregations(summary.metrics), summary.subsets


def _drop_equal_aggregations(values: Metrics) -> Metrics:
    """Drop a second aggregation that equals the first but for rounding."""
    return {
        name: value
        for name, value in values.items()
        if (first := values.get(name.removesuffix("_micro").removesuffix("_macro"))) is None
        or first is value
        or abs(first.value - value.value) > 1e-9
    }


def _spread_scores(score: BlindScore, captions: AuditCaptions) -> ScoreSpread:
    values: list[FloatArray] = []
    right: list[BoolArray] = []
    for name, frame in captions.frames.items():
        there = frame.present.any(axis=1) & ~np.isnan(score.captions[name])
        values.append(score.captions[name][there])
        right.append(np.asarray(np.any(frame.match & frame.present, axis=1))[there])
    counts = metrics.histogram(np.concatenate(values), np.concatenate(right), bins=BINS)
    return ScoreSpread(
        edges=tuple(counts.edges.tolist()),
        right=tuple(counts.right.tolist()),
        wrong=tuple(counts.wrong.tolist()),
    )


LEVEL = 0.05


def read_likelihoods(
    request: AuditRequest, card: Card, frame: Frame
) -> tuple[Measurements, list[str]]:
    """Measure a file of likelihoods on those audited examples that it holds.

    Raises:
        InputError: the file is not one of this benchmark, or has none of the examples.
    """
    path = request.likelihoods
    if path is None or frame.match.shape[1] != 1:
        raise InputError(
            f"{option('likelihoods')} compares captions of one image, which {card.name} is not."
        )
    examples = select(request.benchmark, root=request.root, offline=True).parts[""][1]
    if not isinstance(examples, list | ExampleColumns):
        raise InputError(f"{card.name} takes no {option('likelihoods')}.")
    answers = read_scores(path, card, build_frame(examples), partial=True)
    position = {name: i for i, name in enumerate(answers.frame.ids)}
    at = [(k, position[name]) for k, name in enumerate(frame.ids) if name in position]
    if not at:
        raise InputError("holds none of the examples that are audited.", file=path)
    mine, theirs = np.array(at, dtype=np.int64).T
    values = answers.scores[theirs][:, 0, : frame.match.shape[2]]
    if len(at) == len(frame):
        return measure_captions(values, frame, card), []
    note = f"likelihoods are there for {len(at):,} of {len(frame):,} examples"
    return measure_captions(values, frame.take(mine), card), [note]


def compare_likelihoods(
    likelihood: Measurements,
    blind: Sequence[BlindMeasurements],
    card: Card,
    *,
    resamples: int,
    seed: int,
) -> list[LikelihoodPart]:
    """Compare the likelihood with the best blind score, part by part; means over examples.

    Every part is compared with the blind score that does best there, example by example; p-values
    are corrected for the number of parts (Holm), and the verdict follows from them.
    """
    metric = find_shape(card).blind[0]
    likelihood = _keep_metric(likelihood, metric)
    by = tuple(tag for tag in card.by if any(likelihood.tags.get(tag, ())))
    parts = _drop_duplicate_parts(
        {WHOLE: np.arange(len(likelihood)), **units_by_tag(likelihood, by)}
    )
    sides = [
        (
            score.result.label,
            *align_units(_keep_metric(score.measured[""], metric), likelihood, partial=True),
        )
        for score in blind
        if "" in score.measured
    ]
    compared: list[LikelihoodPart] = []
    for name, positions in parts.items():
        wanted = {likelihood.ids[i] for i in positions.tolist()}
        rows = []
        for label, a, b in sides:
            inside = np.array([i for i, unit in enumerate(a.ids) if unit in wanted], dtype=np.int64)
            if inside.size:
                rows.append((label, a.take(inside), b.take(inside)))
        if not rows:
            continue
        label, a, b = max(rows, key=lambda row: row[1].measures[metric].values.mean())
        wrong = b.take(np.flatnonzero(a.measures[metric].values == 0))
        change = compare(a, b, Micro(), names=(metric,), resamples=resamples, seed=seed)[0][metric]
        compared.append(
            LikelihoodPart(
                part=name,
                metric=metric,
                likelihood=summarize(b, resamples=resamples, seed=seed)[metric],
                blind=summarize(a, resamples=resamples, seed=seed)[metric],
                by=label,
                difference=change.difference,
                ci95=change.ci95,
                test=change.test,
                p=change.p,
                p_holm=change.p,
                where_wrong=_summarize_selected(wrong, metric, resamples, seed),
                verdict="undecided",
            )
        )
    adjusted = holm([part.p for part in compared])
    return [
        part.model_copy(update={"p_holm": float(p), "verdict": _likelihood_verdict(part, float(p))})
        for part, p in zip(compared, adjusted, strict=True)
    ]


def _drop_duplicate_parts(parts: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Drop parts that hold the same units as an earlier one."""
    first = {units.tobytes(): name for name, units in reversed(list(parts.items()))}
    return {name: units for name, units in parts.items() if first[units.tobytes()] == name}


def _summarize_selected(
    wrong: Measurements, metric: str, resamples: int, seed: int
) -> MetricValue | None:
    """Metric of the likelihood on the examples that the blind score has wrong, without chance.

    They are selected against the blind score, and with it against the likelihood's own prior: a
    likelihood that sees nothing is below 50 % there, so no chance level applies.
    """
    if not len(wrong):
        return None
    value = summarize(wrong, resamples=resamples, seed=seed)[metric]
    return value.model_copy(update={"chance": None})


def _likelihood_verdict(part: LikelihoodPart, p_holm: float) -> LikelihoodVerdict:
    """Verdict by the paired test on all examples of the part."""
    if not _is_above_chance(part.likelihood):
        return "not above chance"
    if part.difference > 0 and p_holm < LEVEL:
        return "beyond blind"
    return "won by prior alone" if _is_above_chance(part.blind) else "undecided"


def _is_above_chance(value: MetricValue) -> bool:
    return metrics.solvable_blind(value.ci95, value.chance)


def _keep_metric(measured: Measurements, metric: str) -> Measurements:
    return replace(measured, measures={metric: measured.measures[metric]}, derived={})
