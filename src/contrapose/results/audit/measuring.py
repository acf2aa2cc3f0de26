"""What a blind score achieves: the benchmark's own metrics, its score taken for every image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contrapose import metrics
from contrapose.data import Card
from contrapose.metrics import BoolArray, FloatArray
from contrapose.results.audit.captions import Captions
from contrapose.results.audit.schema import WHOLE, BlindResult, Spread
from contrapose.results.audit.scores import BlindScore
from contrapose.results.families import Question, measure, primary
from contrapose.results.measured import Measured
from contrapose.results.pipeline import add_up
from contrapose.results.schema import MetricValue
from contrapose.results.suites import AVERAGE, Part, average, merged
from contrapose.scoring import Answers, Frame

BINS = 40

Metrics = dict[str, MetricValue]


@dataclass(frozen=True, slots=True, eq=False)
class Achieved:
    """A result, and the outcomes that it adds up.

    Attributes:
        result: what is reported.
        measured: part by part.
    """

    result: BlindResult
    measured: Mapping[str, Measured]


def achieve(score: BlindScore, captions: Captions, *, resamples: int, seed: int) -> Achieved:
    """What a blind score achieves on every part."""
    parts: dict[str, Part] = {}
    turned: dict[str, Part] = {}
    left_out = 0
    for name, frame in captions.frames.items():
        card, values = captions.cards[name], score.captions[name]
        whole = ~(np.isnan(values) & frame.present.any(axis=1)).any(axis=1)
        left_out += int((~whole).sum())
        chosen = np.flatnonzero(whole)
        if not chosen.size:
            continue
        parts[name] = Part(card, measure_captions(values[chosen], frame.take(chosen), card))
        turned[name] = Part(card, measure_captions(-values[chosen], frame.take(chosen), card))
    overall, subsets = _added(parts, resamples, seed)
    headline, reversed_subsets = _added(turned, resamples, seed)
    reversed_ = {WHOLE: headline, **reversed_subsets}
    result = BlindResult(
        score=score.score,
        by=score.by,
        meaning=score.meaning,
        metrics=overall,
        subsets=subsets,
        reversed={
            name: found[metric]
            for name, found in reversed_.items()
            if (metric := main_metric(found)) is not None
        },
        spread=_spread(score, captions),
        left_out=left_out,
    )
    return Achieved(result, {name: part.measured for name, part in parts.items()})


def measure_captions(values: FloatArray, frame: Frame, card: Card) -> Measured:
    """The outcomes when (k, n) scores of captions are taken for each image."""
    scores = np.repeat(values[:, None, :], frame.match.shape[1], axis=1)
    measured = measure(Question(Answers(frame, scores), card))
    kept = {name: each for name, each in measured.measures.items() if name in shown(card)}
    return Measured(measured.ids, measured.tags, measured.clusters, kept)


def shown(card: Card) -> tuple[str, ...]:
    """The metrics of a family that an order of captions decides; the first stands for it."""
    others = ("original_accuracy", "brittleness") if card.family == "triple" else ()
    return primary(card), *others


def main_metric(found: Mapping[str, MetricValue]) -> str | None:
    """The metric that stands for a part."""
    names = (AVERAGE, "accuracy", "pairwise_accuracy", "augmented_accuracy", "text")
    return next((name for name in names if name in found), None)


def _added(
    parts: Mapping[str, Part], resamples: int, seed: int
) -> tuple[Metrics, dict[str, Metrics]]:
    """The headline and the parts; of a suite, the average of its parts' main metrics."""
    if not parts:
        return {}, {}
    if list(parts) == [""]:
        part = parts[""]
        overall, subsets, _ = add_up(part.measured, part.card, resamples=resamples, seed=seed)
        return _differing(overall), subsets
    subsets = {}
    for name, part in parts.items():
        own, inner, _ = add_up(part.measured, part.card, resamples=resamples, seed=seed)
        subsets[name] = own
        if len(inner) > 1:
            subsets |= {f"{name}/{value}": values for value, values in inner.items()}
    return average(parts, merged(parts), resamples=resamples, seed=seed), subsets


def _differing(found: Metrics) -> Metrics:
    """Without a second aggregation that is the first but for rounding: subsets of equal size."""
    return {
        name: value
        for name, value in found.items()
        if (first := found.get(name.removesuffix("_micro").removesuffix("_macro"))) is None
        or first is value
        or abs(first.value - value.value) > 1e-9
    }


def _spread(score: BlindScore, captions: Captions) -> Spread:
    values: list[FloatArray] = []
    right: list[BoolArray] = []
    for name, frame in captions.frames.items():
        there = frame.present.any(axis=1) & ~np.isnan(score.captions[name])
        values.append(score.captions[name][there])
        right.append(np.asarray(np.any(frame.match & frame.present, axis=1))[there])
    found = metrics.histogram(np.concatenate(values), np.concatenate(right), bins=BINS)
    return Spread(
        edges=tuple(found.edges.tolist()),
        right=tuple(found.right.tolist()),
        wrong=tuple(found.wrong.tolist()),
    )
