"""A diagnosis as tables: the metrics, whether the interactions dominate, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from contrapose.diagnose.schema import DiagnosisReport, ModelDiagnosis, SensitivityValue
from contrapose.report.tables import Table

MOST_REASONS = 5
SIDES = {"text": "words", "image": "regions"}


def diagnosis_tables(report: DiagnosisReport) -> list[Table | str]:
    """What `contrapose diagnose` prints."""
    parts: list[Table | str] = []
    for model in report.models:
        if any(metric.n for metric in model.metrics.values()):
            parts.append(metrics_table(report, model))
    parts += [kinds_table(model) for model in report.models if model.kinds]
    if report.players != "groups":
        parts.append(orders_table(report))
    for model in report.models:
        parts += [f"{label(model)}: {each.sentence}" for each in model.findings if each.tests]
    parts += [each.sentence for each in report.differences if each.tests]
    parts += sources(report)
    for model in report.models:
        parts += [f"{label(model)}: {sentence}" for sentence in took(model)]
    return [*parts, *(f"Note: {note}." for note in report.notes)]


def label(model: ModelDiagnosis) -> str:
    """The model and its score."""
    return f"{model.model} · {model.score}"


def metrics_table(report: DiagnosisReport, model: ModelDiagnosis) -> Table:
    """Every metric with its ρ, and the accuracy of the same comparisons."""
    rows = tuple(
        (
            key,
            metric.side,
            f"{metric.n:,}",
            number(metric.value),
            bounds(metric.ci95),
            signed(metric.rho),
            bounds(metric.rho_ci95),
            percent(metric.accuracy),
            bounds_percent(metric.accuracy_ci95),
        )
        for key, metric in model.metrics.items()
    )
    title = (
        f"{label(model)} on {report.benchmark} · sensitivities to each pattern, with 95 % "
        "intervals · ρ of the score's difference with the dividend's"
    )
    header = (
        "<metric", "<side", "n", "sensitivity", "95 %", "ρ", "95 %", "right %", "95 %",
    )  # fmt: skip
    return Table(title, header, rows)


def kinds_table(model: ModelDiagnosis) -> Table:
    """Sensitivity and ρ of every metric for every kind of change."""
    title = f"{label(model)}, by how right and wrong differ · sensitivity (ρ) and n"
    return _by(title, model, model.kinds)


def parts_table(report: DiagnosisReport, model: ModelDiagnosis) -> Table:
    """Sensitivity and ρ of every metric in every part."""
    title = f"{label(model)} on the parts of {report.benchmark} · sensitivity (ρ) and n"
    return _by(title, model, model.parts)


def _by(
    title: str, model: ModelDiagnosis, columns: Mapping[str, Mapping[str, SensitivityValue]]
) -> Table:
    rows = tuple(
        (key, *(_cell(metrics[key]) for metrics in columns.values())) for key in model.metrics
    )
    return Table(title, ("<metric", *columns), rows)


def orders_table(report: DiagnosisReport) -> Table:
    """How much of the scores lies in coalitions of each size."""
    rows = tuple(
        (
            label(model),
            SIDES.get(order.side, order.side),
            f"{order.players}",
            f"{order.games:,}",
            " ".join(f"{100 * share:.0f}" for share in order.shares),
        )
        for model in report.models
        for order in model.orders
    )
    title = "Where the score lies · share of Σ|dividend| by size of coalition, in %, from 1"
    return Table(title, ("<model", "<players are", "players", "games", "<shares"), rows)


def sources(report: DiagnosisReport) -> list[str]:
    """Where the players come from, and how they are hidden."""
    found = [f"Words from {report.words}." if report.words else ""]
    found.append(f"Regions from {report.regions}." if report.regions else "")
    found.append(f"Hidden: {report.baseline_words}.")
    return [" ".join(filter(None, found))]


def took(model: ModelDiagnosis) -> list[str]:
    """What the games took, and what was left out."""
    counts = model.counts
    made = (
        f"{counts.encodings:,} encodings made"
        if counts.encodings
        else f"{counts.pairs:,} pairs asked"
    )
    said = [
        f"{counts.games:,} games of {counts.cells:,} scores; {made}, "
        f"{counts.naive:,} if every score were asked by itself."
    ]
    reasons = Counter(each.reason for each in model.left_out).most_common()
    for reason, count in reasons[:MOST_REASONS]:
        first = next(each.example for each in model.left_out if each.reason == reason)
        many = "example" if count == 1 else "examples"
        said.append(f"{count:,} {many}: {reason.rstrip('.')} (the first is {first}).")
    if len(reasons) > MOST_REASONS:
        rest = sum(count for _, count in reasons[MOST_REASONS:])
        said.append(f"{rest:,} more examples for other reasons; --json lists them.")
    return [*said, *(f"{note.rstrip('.')}." for note in model.notes)]


def number(value: float | None) -> str:
    """A sensitivity: three significant digits; a dash for none."""
    return "–" if value is None else f"{value:.3g}"


def signed(value: float | None) -> str:
    """A correlation; a dash for none."""
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def bounds(ends: Sequence[float] | None) -> str:
    """An interval."""
    if ends is None:
        return "–"
    low, high = (f"{end:.2g}".replace("-", "−") for end in ends)
    return f"{low} to {high}"


def percent(value: float | None) -> str:
    """A share in per cent."""
    return "–" if value is None else f"{100 * value:.1f}"


def bounds_percent(ends: Sequence[float] | None) -> str:
    """Its interval."""
    return "–" if ends is None else f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}"


def _cell(metric: SensitivityValue) -> str:
    if metric.value is None:
        return "–"
    return f"{number(metric.value)} ({signed(metric.rho)}) {metric.n:>5,}"
