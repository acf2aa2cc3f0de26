"""Terminal tables of diagnoses and of single-pair explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from contrapose.diagnose.explain import Explanation, PairValue
from contrapose.diagnose.metrics import Sensitivity
from contrapose.diagnose.schema import DiagnosisReport, ModelDiagnosis
from contrapose.errors import option
from contrapose.report.tables import Table, format_bounds, format_number, format_percent, strongest
from contrapose.report.verdicts import legend_table, spell_player, verdict_lines

MAX_REASONS = 5
SIDE_NOUNS = {"text": "words", "image": "regions"}


def diagnosis_tables(report: DiagnosisReport) -> list[Table | str]:
    """Output of `contrapose diagnose`: verdicts first, then tables with a legend, then tests."""
    parts: list[Table | str] = [*verdict_lines(report), ""]
    for model in report.models:
        if any(metric.n for metric in model.metrics.values()):
            parts.append(metrics_table(report, model))
    parts += [kinds_table(model) for model in report.models if model.kinds]
    legend = legend_table(report)
    parts += [legend] if legend.rows else []
    if report.players != "groups":
        parts.append(orders_table(report))
    for model in report.models:
        parts += [
            f"{model_label(model)}: {finding.sentence}"
            for finding in model.findings
            if finding.tests
        ]
    parts += [difference.sentence for difference in report.differences if difference.tests]
    parts.append(sources_line(report.words, report.regions, report.baseline_words))
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
            format_number(metric.value),
            format_bounds(metric.ci95),
            format_correlation(metric.rho),
            format_bounds(metric.rho_ci95),
            format_percent(metric.accuracy),
            format_bounds(metric.accuracy_ci95, ".1f", scale=100),
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
    title: str, model: ModelDiagnosis, columns: Mapping[str, Mapping[str, Sensitivity]]
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


def sources_line(words: str | None, regions: str | None, baseline: str) -> str:
    """Sentence on the sources of the players, and on how they are hidden."""
    sentences = (
        f"Words from {words}." if words else "",
        f"Regions from {regions}." if regions else "",
        f"Hidden: {baseline}.",
    )
    return " ".join(filter(None, sentences))


def cost_lines(model: ModelDiagnosis) -> list[str]:
    """Cost of the games, and the left-out examples with reasons."""
    counts = model.counts
    computed = (
        f"{counts.encodings:,} encodings made"
        if counts.encodings
        else f"{counts.pairs:,} pairs asked"
    )
    lines = [
        f"{counts.games:,} games (one image with one caption) of {model.examples:,} "
        f"{'example' if model.examples == 1 else 'examples'}, {counts.cells:,} scores; {computed}, "
        f"{counts.naive:,} if every score were asked by itself."
    ]
    reasons = Counter(example.reason for example in model.left_out).most_common()
    for reason, count in reasons[:MAX_REASONS]:
        first = next(left.example for left in model.left_out if left.reason == reason)
        noun = "example" if count == 1 else "examples"
        lines.append(f"{count:,} {noun}: {reason.rstrip('.')} (the first is {first}).")
    if len(reasons) > MAX_REASONS:
        rest = sum(count for _, count in reasons[MAX_REASONS:])
        lines.append(f"{rest:,} more examples for other reasons; {option('json')} lists them.")
    return [*lines, *(f"{note.rstrip('.')}." for note in model.notes)]


def format_correlation(value: float | None) -> str:
    """Format a correlation; a dash for None."""
    return format_number(value, "+.2f")


def _sensitivity_cell(metric: Sensitivity) -> str:
    if metric.value is None:
        return "–"
    return f"{format_number(metric.value)} ({format_correlation(metric.rho)}) {metric.n:>5,}"


BAR_LENGTH = 12
"""Characters of a bar on either side of the middle."""
MAX_PATTERNS = 15
"""Patterns that a table shows: those with the largest dividends."""
DIVIDEND = "+.4f"
"""Format of dividends and Shapley values."""


def explanation_tables(explanation: Explanation) -> list[Table | str]:
    """Output of `contrapose explain`: the answer first, then tables of dividends."""
    parts: list[Table | str] = [*explanation_lines(explanation), ""]
    for side, title in (("words", "words, all of the image present"),
                        ("regions", "regions, all of the caption present")):  # fmt: skip
        values = [pair.words if side == "words" else pair.regions for pair in explanation.pairs]
        if not any(values):
            continue
        name = "Dividends"
        if side == "regions" and len(values[0]) > MAX_PATTERNS:
            name = "Shapley values"
            values = [pair.region_shapley for pair in explanation.pairs]
        if len(values) == 2 and list(values[0]) == list(values[1]):
            parts.append(_contrast_table(f"{name} of {title}", values[0], values[1]))
        else:
            parts += [
                _single_table(f"{name} of {title} · {pair.text}", dividends)
                for pair, dividends in zip(explanation.pairs, values, strict=True)
            ]
    parts += [_score_sentence(explanation, pair) for pair in explanation.pairs]
    parts.append(sources_line(explanation.words, explanation.regions, explanation.baseline))
    return [*parts, *(f"Note: {note.rstrip('.')}." for note in explanation.notes)]


def explanation_lines(explanation: Explanation) -> list[str]:
    """Answer in plain words: the scores, and the players that raise or lower them most."""
    first, *others = explanation.pairs
    name = f"{explanation.model} ({explanation.score})"
    if not others:
        lines = [f"{name} scores “{first.text}” {first.score:.4f}."]
        for side, values in (("words", first.word_shapley), ("regions", first.region_shapley)):
            if values:
                lines.append(
                    f"Of the {side}: {_extremes(values, 'raised most by', 'lowered most by')}."
                )
        return lines
    (second,) = others
    margin = first.score - second.score
    better, worse = (first, second) if margin >= 0 else (second, first)
    lines = [
        f"{name} scores “{better.text}” above “{worse.text}” by {abs(margin):.4f} "
        f"({better.score:.4f} against {worse.score:.4f})."
        if margin
        else f"{name} scores both captions {first.score:.4f}: a tie."
    ]
    for side, one, other in (
        ("words", first.word_shapley, second.word_shapley),
        ("regions", first.region_shapley, second.region_shapley),
    ):
        if one and list(one) == list(other):
            difference = {key: one[key] - other[key] for key in one}
            ends = [f"most for “{pair.text}”:" for pair in explanation.pairs]
            lines.append(f"Of the {side}: {_extremes(difference, *ends)}.")
    return lines


def _extremes(values: Mapping[str, float], raises: str, lowers: str) -> str:
    """Players with the largest value above and below 0, in words."""
    high, low = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    parts = [
        f"{words} {spell_player(name)}, {format_number(values[name], DIVIDEND)}"
        for words, name, shown in ((raises, high, values[high] > 0), (lowers, low, values[low] < 0))
        if shown
    ]
    return "; ".join(parts) or "none has any effect"


def draw_bar(value: float, far: float) -> str:
    """Signed text bar about a middle line."""
    length = round(BAR_LENGTH * min(abs(value) / far, 1.0)) if far > 0 else 0
    bar = "█" * length
    left, right = (bar, "") if value < 0 else ("", bar)
    return f"{left:>{BAR_LENGTH}}│{right:<{BAR_LENGTH}}"


def _single_table(title: str, values: Mapping[str, float]) -> Table:
    names = strongest([values], MAX_PATTERNS)
    far = max(abs(values[name]) for name in names)
    rows = tuple(
        (name, format_number(values[name], DIVIDEND), draw_bar(values[name], far)) for name in names
    )
    return Table(title, ("<pattern", "dividend", "<−                      +"), rows)


def _contrast_table(title: str, one: Mapping[str, float], other: Mapping[str, float]) -> Table:
    names = strongest([one, other], MAX_PATTERNS)
    far = max(abs(values[name]) for name in names for values in (one, other))
    rows = tuple(
        (
            name,
            format_number(one[name], DIVIDEND),
            draw_bar(one[name], far),
            format_number(other[name], DIVIDEND),
            draw_bar(other[name], far),
            format_number(one[name] - other[name], DIVIDEND),
        )
        for name in names
    )
    header = ("<pattern", "text", "<−                      +", "against",
              "<−                      +", "difference")  # fmt: skip
    return Table(title, header, rows)


def _score_sentence(explanation: Explanation, pair: PairValue) -> str:
    sentence = f"{explanation.model} · {explanation.score} of {pair.text!r}: {pair.score:.4f}"
    sentence += f", {pair.nobody:.4f} without any player"
    for side, values in (("words", pair.word_shapley), ("regions", pair.region_shapley)):
        if values:
            shares = ", ".join(
                f"{name} {format_number(value, DIVIDEND)}" for name, value in values.items()
            )
            sentence += f"; Shapley values of {side}: {shares}"
    return f"{sentence}."
