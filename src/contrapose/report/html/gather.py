"""From finished runs to a report: what is shown is picked from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from contrapose.data.example import diagonal
from contrapose.metrics import FloatArray, equivariance
from contrapose.report.changes import run_label
from contrapose.report.html.failures import Case, worst_failures
from contrapose.report.html.page import Report
from contrapose.results import Run
from contrapose.results.outcomes import DEBIASED
from contrapose.results.selection import Selection


def gather(
    title: str, runs: Sequence[Run], cases: Mapping[str, Case], *, lead: str = "", each: int = 2
) -> Report:
    """The report of some runs.

    Args:
        title: above everything.
        runs: of every model and score.
        cases: the examples, for the pictures of failures; see `cases_of`.
        lead: a paragraph below the title.
        each: failures of a run and part.
    """
    return Report(
        title=title,
        runs=[run.results for run in runs],
        lead=lead,
        equivariance=_equivariance(runs, cases),
        failures=worst_failures(runs, cases, each=each),
    )


def cases_of(selection: Selection) -> dict[str, Case]:
    """The examples of a benchmark by the ids that score tables know them by."""
    return {
        f"{part}/{example.id}" if part else example.id: Case(part, example)
        for part, (_, data) in selection.parts.items()
        if isinstance(data, list)
        for example in data
    }


def _equivariance(runs: Sequence[Run], cases: Mapping[str, Case]) -> dict[str, FloatArray]:
    """E_text of all 2 × 2 examples of each run, in standard deviations of its scores for them.

    Runs with the prior taken out are passed over: their tables hold the scores before that.
    """
    names = [name for name, case in cases.items() if case.example.match == diagonal(2)]
    places = {name: i for i, name in enumerate(names)}
    found: dict[str, FloatArray] = {}
    for run in runs:
        if run.scores is None or run.results.score in DEBIASED:
            continue
        at = np.array([places.get(name, -1) for name in run.scores["example"]], dtype=np.int64)
        rows = np.flatnonzero(at >= 0)
        scores = np.full((len(names), 2, 2), np.nan)
        image, text = (np.asarray(run.scores[each][rows], np.int64) for each in ("image", "text"))
        scores[at[rows], image, text] = run.scores["value"][rows]
        whole = scores[np.isfinite(scores).all(axis=(1, 2))]
        if len(whole):
            found[run_label(run.results)] = equivariance(whole).text
    return found
