"""Measures of other programs' logs: their values of each item, or the outcomes of their scores."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from contrapose import metrics
from contrapose.data import Card, TagValue
from contrapose.errors import InputError, option
from contrapose.metrics import FloatArray
from contrapose.results.measures import (
    Better,
    Measure,
    Measurements,
    measure_from_outcome,
    units_by_tag,
)
from contrapose.results.schema import MetricValue
from contrapose.results.summary import summarize
from contrapose.scores.logs import ItemLog, is_log, read_logs

LOWER = re.compile(
    r"perplexity|brier|loss|error|(^|_)(wer|cer|ter|mae|mse|rmse)($|_)", re.IGNORECASE
)
"""Names of metrics of which lower is better, where the log does not say."""


def read_benchmark_log(scores: object, card: Card, *, partial: bool) -> ItemLog | None:
    """Read a log as the scores or outcomes of a benchmark; None where the scores are no log.

    Raises:
        InputError: it holds several runs, or another number of items than the benchmark has.
    """
    if not isinstance(scores, Path) or not is_log(scores):
        return None
    logs = read_logs(scores)
    if len(logs) > 1:
        named = ", ".join(log.score or log.task for log in logs)
        raise InputError(
            f"holds {len(logs)} runs ({named}); `contrapose import` reads them all.", file=scores
        )
    log, total = logs[0], sum(card.counts.values())
    times, rest = divmod(len(log.ids), total) if total else (1, 0)
    if (rest or times < 1) and not partial:
        raise InputError(
            f"holds {len(log.ids):,} items, and {card.name} has {total:,} examples; pass "
            f"{option('partial', True)} to report these.",
            file=scores,
        )
    words = f"outcomes are those of {log.tool}'s log of {log.task}"
    if log.pairs is None:
        log.notes.append(words if times < 2 else f"{words}, {times} items an example")
    return log


def summarize_log(
    measured: Measurements, resamples: int, seed: int
) -> tuple[dict[str, MetricValue], dict[str, dict[str, MetricValue]]]:
    """Metrics of all items of a log, and of those of each group that it names."""
    values = summarize(measured, resamples=resamples, seed=seed)
    groups = units_by_tag(measured, tuple(measured.tags)) if measured.tags else {}
    return values, {
        name: summarize(measured.take(where), resamples=resamples, seed=seed)
        for name, where in groups.items()
        if len(where) < len(measured)
    }


def measure_log(log: ItemLog) -> Measurements:
    """Measures of a log's items: its values, or the outcomes of its scores of pairs."""
    if log.pairs is not None:
        measures = _measure_pairs(log.pairs)
    else:
        measures = {}
        for name, column in log.values.items():
            where = np.array([value is not None for value in column], dtype=np.bool_)
            values = np.array([value or 0.0 for value in column], dtype=np.float64)
            chance = log.chance.get(name)
            measures[name] = Measure(
                values,
                where,
                chance=None if chance is None else np.array(chance, dtype=np.float64),
                better=(better := log.better.get(name) or _guess_direction(name, values)),
                share=better == "higher" and bool(((values >= 0) & (values <= 1)).all()),
            )
    tags: dict[str, tuple[TagValue, ...]] = {**log.tags}
    return Measurements(tuple(log.ids), tags, None, measures, notes=tuple(log.notes))


def _measure_pairs(scores: FloatArray) -> dict[str, Measure]:
    """Outcomes of scores (items, images, captions) whose right pairs are on the diagonal."""
    _, images, captions = scores.shape
    match = np.eye(images, captions, dtype=np.bool_)
    if images == 1:
        return {"accuracy": measure_from_outcome(metrics.accuracy(scores, match))}
    functions = {
        "text": metrics.text_score,
        "image": metrics.image_score,
        "group": metrics.group_score,
    }
    return {
        name: measure_from_outcome(function(scores, match)) for name, function in functions.items()
    }


def _guess_direction(name: str, values: FloatArray) -> Better | None:
    """Better direction of a metric by its name; None where that does not tell."""
    if LOWER.search(name):
        return "lower"
    return "higher" if ((values >= 0) & (values <= 1)).all() else None
