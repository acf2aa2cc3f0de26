"""Runs from other programs' logs: their outcomes of each item, our statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrapose import __version__
from contrapose.errors import InputError, printable
from contrapose.results.log_measures import measure_log, summarize_log
from contrapose.results.measures import note_few_clusters
from contrapose.results.schema import Results
from contrapose.results.summary import RESAMPLES
from contrapose.results.tables import RunRecord
from contrapose.scores.logs import ItemLog, read_logs


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
    values, subsets = summarize_log(measured, request.resamples, request.seed)
    notes = (
        *measured.notes,
        "intervals take items as independent: the log does not say which of them share an image",
        *note_few_clusters({"all": values, **subsets}),
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
        subsets=subsets,
        notes=notes,
    )
    return RunRecord(request, None, measured, results, spec={"log": log.tool})
