"""Submission files of CIRR's and CIRCO's evaluation servers, from a run's ranked images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.errors import InputError
from contrapose.results.exports.tasks import slugify, unique_name
from contrapose.results.runs import read_runs
from contrapose.results.score_files import RunRecord
from contrapose.results.tables import RANKING_COLUMNS

SUBMISSIONS: Mapping[str, tuple[str, ...]] = {
    "cirr": ("cirr", "cirr-test"),
    "circo": ("circo", "circo-test"),
}
"""Benchmarks whose runs each format is for."""

DEPTH = 50
"""Images of each query in a submission."""

SUBSET_DEPTH = 3
"""Images of each query in CIRR's submission of subsets."""


def submission_files(folder: Path, format: str) -> dict[str, str]:  # noqa: A002
    """Build the submission files of a run folder, by name.

    CIRR has two, `recall.json` and `recall_subset.json`, CIRCO one, `submission.json`. Where the
    folder holds several runs of the benchmark, each has a folder by its model and score.

    Raises:
        InputError: the folder holds no run of that benchmark, a run has no ranked images, or it
            skipped a query, which the server would refuse.
    """
    wanted = SUBMISSIONS[format]
    runs = [run for run in read_runs(folder) if run.results.benchmark in wanted]
    if not runs:
        raise InputError(
            f"holds no run of {' or '.join(wanted)}, whose submission {format} is.", file=folder
        )
    files: dict[str, str] = {}
    taken: set[str] = set()
    for run in runs:
        result = run.results
        label = slugify("_".join(filter(None, (result.benchmark, result.model, result.score))))
        inside = f"{unique_name(label, taken)}/" if len(runs) > 1 else ""
        built = _cirr_files(run, folder) if format == "cirr" else _circo_files(run, folder)
        files |= {f"{inside}{name}": json.dumps(content) + "\n" for name, content in built.items()}
    return files


def _cirr_files(run: RunRecord, folder: Path) -> dict[str, dict[str, Any]]:
    header = {"version": "rc2"}
    return {
        "recall.json": {**header, "metric": "recall"} | _read_lists(run, "gallery", DEPTH, folder),
        "recall_subset.json": {**header, "metric": "recall_subset"}
        | _read_lists(run, "subset", SUBSET_DEPTH, folder),
    }


def _circo_files(run: RunRecord, folder: Path) -> dict[str, dict[str, Any]]:
    lists = _read_lists(run, "gallery", DEPTH, folder)
    numbers = {query: [int(name) for name in names] for query, names in lists.items()}
    return {"submission.json": numbers}


def _read_lists(run: RunRecord, kind: str, depth: int, folder: Path) -> dict[str, Sequence[str]]:
    """Names of the best images of each query, best first."""
    table = run.scores
    if table is None or not set(RANKING_COLUMNS) <= table.keys():
        raise InputError(
            f"the run of {run.results.benchmark} has no ranked images; runs of a score file do not "
            "keep them.",
            file=folder,
        )
    if run.results.skipped is not None:
        raise InputError(
            f"the run skipped {run.results.skipped.examples:,} queries, and a submission ranks "
            f"every one; the first: {run.results.skipped.first}.",
            file=folder,
        )
    lists: dict[str, list[str]] = {query: [] for query in run.measured.ids}
    rows = np.flatnonzero(np.asarray(table["list"]) == kind).tolist()
    for row in rows:
        names = lists[str(table["example"][row])]
        if len(names) < depth:
            names.append(str(table["name"][row]))
    return dict(lists)
