"""Runs from other programs' logs: their outcomes of each item, our statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrapose import __version__, metrics
from contrapose.errors import InputError, printable
from contrapose.metrics import FloatArray
from contrapose.results.measures import (
    Better,
    Measure,
    Measurements,
    measure_from_outcome,
    note_few_clusters,
)
from contrapose.results.schema import Results
from contrapose.results.score_files import RunRecord
from contrapose.results.summary import RESAMPLES, summarize
from contrapose.scores.logs import ItemLog, read_logs

LOWER = re.compile(
    r"perplexity|brier|loss|error|(^|_)(wer|cer|ter|mae|mse|rmse)($|_)", re.IGNORECASE
)
"""Names of metrics of which lower is better, where the log does not say."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """Options of an import; see `contrapose.api.import_logs`."""

    log: Path
    model: str | None = None
    resamples: int = RESAMPLES
    seed: int = 0


def import_runs(requests: Sequence[ImportRequest]) -> list[RunRecord]:
    """Read logs as runs, one for each task and filter, scorer or subset.

    Raises:
        InputError: a log cannot be read, or two runs have the same model, task and score.
    """
    runs: list[RunRecord] = []
    names: dict[tuple[str, str, str], Path] = {}
    for request in requests:
        for log in read_logs(request.log, request.model):
            key = (log.model, f"{log.tool}:{log.task}", log.score)
            if key in names:
                shown = printable(", ".join(filter(None, key)))
                raise InputError(
                    f"is of {shown}, and so is {names[key]}: write them to folders of their own.",
                    file=request.log,
                )
            names[key] = request.log
            runs.append(_build_run(log, request))
    return runs


def _build_run(log: ItemLog, request: ImportRequest) -> RunRecord:
    measured = measure_log(log)
    values = summarize(measured, resamples=request.resamples, seed=request.seed)
    notes = (
        *measured.notes,
        "intervals take items as independent: the log does not say which of them share an image",
        *note_few_clusters({"all": values}),
    )
    results = Results(
        contrapose=__version__,
        benchmark=f"{log.tool}:{log.task}",
        model=log.model,
        score=log.score or log.tool,
        scores=str(request.log),
        protocol="strict",
        aggregation="mean over items",
        examples=len(measured),
        clusters=None,
        resamples=request.resamples,
        seed=request.seed,
        metrics=values,
        subsets={},
        notes=notes,
    )
    return RunRecord(request, None, measured, results, spec={"log": log.tool})


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
                better=log.better.get(name) or _guess_direction(name, values),
            )
    return Measurements(tuple(log.ids), {}, None, measures, notes=tuple(log.notes))


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
