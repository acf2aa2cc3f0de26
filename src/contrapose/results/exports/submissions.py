"""Submissions to evaluation servers: ranked images of CIRR and CIRCO, pair scores of EqBen."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data.benchmarks.eqben import read_submission
from contrapose.errors import InputError, option
from contrapose.files import StrictProblems
from contrapose.results.exports.tasks import slugify, unique_name
from contrapose.results.runs import read_runs
from contrapose.results.tables import RANKING_COLUMNS, RunRecord

SUBMISSIONS: Mapping[str, tuple[str, ...]] = {
    "cirr": ("cirr", "cirr-test"),
    "circo": ("circo", "circo-test"),
    "eqben": ("eqben",),
}
"""Benchmarks whose runs each format is for."""

DEPTH = 50
"""Images of each query in a submission."""

SCORE_FILE = "prediction.npy"
"""Name of the scores in the authors' script of EqBen."""

SUBSET_DEPTH = 3
"""Images of each query in CIRR's submission of subsets."""


def submission_files(
    folder: Path,
    format: str,  # noqa: A002
    root: Path | None = None,
) -> dict[str, bytes]:
    """Build the submission files of a run folder, by name.

    CIRR has two, `recall.json` and `recall_subset.json`, CIRCO one, `submission.json`, and EqBen
    `prediction.npy`, the scores in the order of its shuffled list. Where the folder holds several
    runs of the benchmark, each has a folder by its model and score.

    Args:
        folder: the run folder.
        format: name of the benchmark.
        root: folder of EqBen's annotations; None takes the one that the run was made with.

    Raises:
        InputError: the folder holds no run of that benchmark, a run has no ranked images or no
            scores, or it skipped a query, which the server would refuse.
    """
    wanted = SUBMISSIONS[format]
    runs = [run for run in read_runs(folder) if run.results.benchmark in wanted]
    if not runs:
        raise InputError(
            f"holds no run of {' or '.join(wanted)}, whose submission {format} is.", file=folder
        )
    files: dict[str, bytes] = {}
    taken: set[str] = set()
    for run in runs:
        result = run.results
        label = slugify("_".join(filter(None, (result.benchmark, result.model, result.score))))
        inside = f"{unique_name(label, taken)}/" if len(runs) > 1 else ""
        if format == "eqben":
            files[f"{inside}{SCORE_FILE}"] = _eqben_scores(run, folder, root)
            continue
        built = _cirr_files(run, folder) if format == "cirr" else _circo_files(run, folder)
        files |= {
            f"{inside}{name}": f"{json.dumps(content)}\n".encode()
            for name, content in built.items()
        }
    return files


def _eqben_scores(run: RunRecord, folder: Path, root: Path | None) -> bytes:
    """Bytes of the `.npy` array of scores, one for each row of the shuffled list."""
    known = run.request.get("root")
    root = root or (Path(known) if known else None)
    if root is None or run.scores is None:
        raise InputError(
            f"the run has no {'scores' if run.scores is None else 'folder of annotations'}; "
            f"{option('root', 'DIR')} names the folder of the shuffled list.",
            file=folder,
        )
    inside = root / "eqben"
    pairs = read_submission(inside if inside.is_dir() else root, StrictProblems())
    table = run.scores
    columns = (np.asarray(table[name]).tolist() for name in ("example", "image", "text", "value"))
    value = {(example, i, j): score for example, i, j, score in zip(*columns, strict=True)}
    lost = next((pair for pair in pairs if pair not in value), None)
    if lost is not None:
        raise InputError(
            f"the run has no score of image {lost[1]} with caption {lost[2]} of {lost[0]}, and a "
            "submission has every pair; it was limited, or skipped examples.",
            file=folder,
        )
    content = io.BytesIO()
    np.save(content, np.array([value[pair] for pair in pairs], dtype=np.float64))
    return content.getvalue()


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
