"""Terminal tables of diagnoses and of single-pair explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from contrapose.diagnose.explain import Explanation, PairValue
from contrapose.diagnose.schema import DiagnosisReport, ModelDiagnosis, SensitivityValue
from contrapose.report.tables import Table

MAX_REASONS = 5
SIDE_NOUNS = {"text": "words", "image": "regions"}


def diagnosis_tables(report: DiagnosisReport) -> list[Table | str]:
    """Output of `contrapose diagnose`."""
    parts: list[Table | str] = []
    for model in report.models:
        if any(metric.n for metric in model.metrics.values()):
            parts.append(metrics_table(report, model))
    parts += [kinds_table(model) for model in report.models if model.kinds]
    if report.players != "groups":
        parts.append(orders_table(report))
    for model in report.models:
        parts += [f"{model_label(model)}: {each.sentence}" for each in model.findings if each.tests]
    parts += [each.sentence for each in report.differences if each.tests]
    parts += source_lines(report)
    for model in report.models:
        parts += [f"{model_label(model)}: {sentence}" for sentence in cost_lines(model)]
    return [*parts, *(f"Note: {note}." for note in report.notes)]


def model_label(model: ModelDiagnosis) -> str:
    """Model name and score."""
    return f"{model.model} · {model.score}"


def metrics_table(report: DiagnosisReport, model: ModelDiagnosis) -> Table:
    """Table of every metric with its ρ, and the accuracy of the same comparisons."""
    rows = tuple(
        (
            key,
            metric.side,
            f"{metric.n:,}",
            format_sensitivity(metric.value),
            format_bounds(metric.ci95),
            format_correlation(metric.rho),
            format_bounds(metric.rho_ci95),
            format_percent(metric.accuracy),
            format_percent_bounds(metric.accuracy_ci95),
        )
        for key, metric in model.metrics.items()
    )
    title = (
        f"{model_label(model)} on {report.benchmark} · sensitivities to each pattern, with 95 % "
        "intervals · ρ of the score's difference with the dividend's"
    )
    header = (
        "<metric", "<side", "n", "sensitivity", "95 %", "ρ", "95 %", "right %", "95 %",
    )  # fmt: skip
    return Table(title, header, rows)


def kinds_table(model: ModelDiagnosis) -> Table:
    """Table of sensitivity and ρ of every metric per kind of change."""
    title = f"{model_label(model)}, by how right and wrong differ · sensitivity (ρ) and n"
    return _sensitivity_table(title, model, model.kinds)


def parts_table(report: DiagnosisReport, model: ModelDiagnosis) -> Table:
    """Table of sensitivity and ρ of every metric per part."""
    title = f"{model_label(model)} on the parts of {report.benchmark} · sensitivity (ρ) and n"
    return _sensitivity_table(title, model, model.parts)


def _sensitivity_table(
    title: str, model: ModelDiagnosis, columns: Mapping[str, Mapping[str, SensitivityValue]]
) -> Table:
    rows = tuple(
        (key, *(_sensitivity_cell(metrics[key]) for metrics in columns.values()))
        for key in model.metrics
    )
    return Table(title, ("<metric", *columns), rows)


def orders_table(report: DiagnosisReport) -> Table:
    """Table of score shares by size of coalition."""
    rows = tuple(
        (
            model_label(model),
            SIDE_NOUNS.get(order.side, order.side),
            f"{order.players}",
            f"{order.games:,}",
            " ".join(f"{100 * share:.0f}" for share in order.shares),
        )
        for model in report.models
        for order in model.orders
    )
    title = "Where the score lies · share of Σ|dividend| by size of coalition, in %, from 1"
    return Table(title, ("<model", "<players are", "players", "games", "<shares"), rows)


def source_lines(report: DiagnosisReport) -> list[str]:
    """Sources of the players, and how they are hidden."""
    found = [f"Words from {report.words}." if report.words else ""]
    found.append(f"Regions from {report.regions}." if report.regions else "")
    found.append(f"Hidden: {report.baseline_words}.")
    return [" ".join(filter(None, found))]


def cost_lines(model: ModelDiagnosis) -> list[str]:
    """Cost of the games, and the left-out examples with reasons."""
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
    for reason, count in reasons[:MAX_REASONS]:
        first = next(each.example for each in model.left_out if each.reason == reason)
        many = "example" if count == 1 else "examples"
        said.append(f"{count:,} {many}: {reason.rstrip('.')} (the first is {first}).")
    if len(reasons) > MAX_REASONS:
        rest = sum(count for _, count in reasons[MAX_REASONS:])
        said.append(f"{rest:,} more examples for other reasons; --json lists them.")
    return [*said, *(f"{note.rstrip('.')}." for note in model.notes)]


def format_sensitivity(value: float | None) -> str:
    """Format a sensitivity with three significant digits; a dash for None."""
    return "–" if value is None else f"{value:.3g}"


def format_correlation(value: float | None) -> str:
    """Format a correlation; a dash for None."""
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def format_bounds(ends: Sequence[float] | None) -> str:
    """Format an interval."""
    if ends is None:
        return "–"
    low, high = (f"{end:.2g}".replace("-", "−") for end in ends)
    return f"{low} to {high}"


def format_percent(value: float | None) -> str:
    """Format a share in per cent."""
    return "–" if value is None else f"{100 * value:.1f}"


def format_percent_bounds(ends: Sequence[float] | None) -> str:
    """Format an interval in per cent."""
    return "–" if ends is None else f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}"


def _sensitivity_cell(metric: SensitivityValue) -> str:
    if metric.value is None:
        return "–"
    return f"{format_sensitivity(metric.value)} ({format_correlation(metric.rho)}) {metric.n:>5,}"


BAR_LENGTH = 12
"""Characters of a bar on either side of the middle."""
MAX_PATTERNS = 15
"""Patterns that a table shows: those that add or take away most."""


def explanation_tables(found: Explanation) -> list[Table | str]:
    """Output of `contrapose explain`."""
    parts: list[Table | str] = []
    for side, title in (("words", "words, all of the image present"),
                        ("regions", "regions, all of the caption present")):  # fmt: skip
        values = [pair.words if side == "words" else pair.regions for pair in found.pairs]
        if not any(values):
            continue
        if len(values) == 2 and list(values[0]) == list(values[1]):
            parts.append(_contrast_table(f"Dividends of {title}", values[0], values[1]))
        else:
            parts += [
                _single_table(f"Dividends of {title} · {pair.text}", each)
                for pair, each in zip(found.pairs, values, strict=True)
            ]
    parts += [_score_sentence(found, pair) for pair in found.pairs]
    sources = [f"Words from {found.words}." if found.words else ""]
    sources.append(f"Regions from {found.regions}." if found.regions else "")
    parts.append(" ".join([*filter(None, sources), f"Hidden: {found.baseline}."]))
    return [*parts, *(f"Note: {note.rstrip('.')}." for note in found.notes)]


def draw_bar(value: float, far: float) -> str:
    """Signed text bar about a middle line."""
    length = round(BAR_LENGTH * min(abs(value) / far, 1.0)) if far > 0 else 0
    drawn = "█" * length
    left, right = (drawn, "") if value < 0 else ("", drawn)
    return f"{left:>{BAR_LENGTH}}│{right:<{BAR_LENGTH}}"


def _single_table(title: str, values: Mapping[str, float]) -> Table:
    kept = _largest_patterns([values])
    far = max(abs(values[name]) for name in kept)
    rows = tuple(
        (name, _format_dividend(values[name]), draw_bar(values[name], far)) for name in kept
    )
    return Table(title, ("<pattern", "dividend", "<−                      +"), rows)


def _contrast_table(title: str, one: Mapping[str, float], other: Mapping[str, float]) -> Table:
    kept = _largest_patterns([one, other])
    far = max(abs(each[name]) for name in kept for each in (one, other))
    rows = tuple(
        (
            name,
            _format_dividend(one[name]),
            draw_bar(one[name], far),
            _format_dividend(other[name]),
            draw_bar(other[name], far),
            _format_dividend(one[name] - other[name]),
        )
        for name in kept
    )
    header = ("<pattern", "text", "<−                      +", "against",
              "<−                      +", "difference")  # fmt: skip
    return Table(title, header, rows)


def _largest_patterns(values: Sequence[Mapping[str, float]]) -> list[str]:
    names = list(values[0])
    size = {name: max(abs(each[name]) for each in values) for name in names}
    kept = set(sorted(names, key=lambda name: -size[name])[:MAX_PATTERNS])
    return [name for name in names if name in kept]


def _score_sentence(found: Explanation, pair: PairValue) -> str:
    said = f"{found.model} · {found.score} of {pair.text!r}: {pair.score:.4f}"
    said += f", {pair.nobody:.4f} without any player"
    for what, values in (("words", pair.word_shapley), ("regions", pair.region_shapley)):
        if values:
            shares = ", ".join(
                f"{name} {_format_dividend(value)}" for name, value in values.items()
            )
            said += f"; Shapley values of {what}: {shares}"
    return f"{said}."


def _format_dividend(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
