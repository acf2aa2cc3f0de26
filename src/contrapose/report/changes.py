"""One number a change: the metric that stands for each part, models and scores side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contrapose.report.numbers import is_share
from contrapose.report.tables import Table
from contrapose.results import MetricValue, Results
from contrapose.results.suites import AVERAGE, MAIN

BESIDE = (*MAIN.values(), AVERAGE, "mean_recall")
"""Metrics that can stand for a part, the first that it has."""


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a benchmark and what every run makes of it.

    Attributes:
        part: its name.
        metric: the metric that stands for it.
        values: by the run's label; runs that were not asked about it are left out.
    """

    part: str
    metric: str
    values: Mapping[str, MetricValue]

    @property
    def measured_by(self) -> str:
        """Its metric in words, where that is not plain accuracy."""
        return "" if self.metric in ("accuracy", AVERAGE) else self.metric.replace("_", " ")

    @property
    def label(self) -> str:
        """The part, and its metric where that is not plain accuracy."""
        return f"{self.part} ({self.measured_by})" if self.measured_by else self.part

    @property
    def chance(self) -> float | None:
        """What guessing gets."""
        return next((value.chance for value in self.values.values()), None)


def run_label(run: Results) -> str:
    """The model and the score of a run, or the file its scores came from."""
    words = (run.model, run.score) if run.model else (run.scores,)
    return " · ".join(word for word in words if word) or run.benchmark


def changes(runs: Sequence[Results]) -> list[Change]:
    """Every part that any run was asked about, in the runs' order; without parts of parts."""
    parts: dict[str, dict[str, Mapping[str, MetricValue]]] = {}
    for run in runs:
        for part, metrics in run.subsets.items():
            if part.rpartition("/")[0] not in run.subsets:
                parts.setdefault(part, {})[run_label(run)] = metrics
    found = []
    for part, by_run in parts.items():
        metric = main_metric(next(iter(by_run.values())))
        values = {label: metrics[metric] for label, metrics in by_run.items() if metric in metrics}
        if values:
            found.append(Change(part, metric, values))
    return found


def overall(runs: Sequence[Results]) -> Change | None:
    """The headline of every run."""
    metric = main_metric(runs[0].metrics) if runs else ""
    values = {run_label(run): run.metrics[metric] for run in runs if metric in run.metrics}
    return Change(AVERAGE if metric == AVERAGE else "all", metric, values) if values else None


def main_metric(metrics: Mapping[str, MetricValue]) -> str:
    """The metric that stands for a part: its family's, or the first share there is."""
    shares = (name for name, value in metrics.items() if is_share(value))
    return next((name for name in BESIDE if name in metrics), None) or next(
        shares, next(iter(metrics), "")
    )


def changes_table(runs: Sequence[Results]) -> Table:
    """A row a change, a column a model and score, each with its interval."""
    labels = [run_label(run) for run in runs]
    last = overall(runs)
    rows = tuple(
        (
            change.label,
            "–" if change.chance is None else f"{100 * change.chance:.1f}",
            *(compact(change.values.get(label)) for label in labels),
        )
        for change in (*changes(runs), *([last] if last else []))
    )
    names = ", ".join(dict.fromkeys(run.benchmark for run in runs))
    title = f"{names} · right in %, with 95 % intervals · ties never win"
    return Table(title, ("<change", "chance", *labels), rows)


def compact(value: MetricValue | None) -> str:
    """A share with its interval, in few characters."""
    if value is None:
        return "–"
    low, high = value.ci95
    return f"{100 * value.value:.1f} ({100 * low:.1f}–{100 * high:.1f})"
