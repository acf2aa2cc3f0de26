"""An audit in words: who solves which part without looking, and how much of the whole."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.metrics import solvable_blind
from contrapose.results.audit.measuring import main_metric
from contrapose.results.audit.schema import (
    WHOLE,
    AuditPart,
    BlindResult,
    LikelihoodPart,
)
from contrapose.results.schema import MetricValue

NAMED = 12
"""Parts that a sentence names."""


def parts_of(results: Sequence[BlindResult]) -> list[AuditPart]:
    """Every part and the scores that solve it, the whole first."""
    names = dict.fromkeys([WHOLE, *(name for result in results for name in result.subsets)])
    found = []
    for name in names:
        rows = [(result.label, value) for result in results if (value := value_of(result, name))]
        if not rows or rows[0][1].chance is None:
            continue
        metric = main_metric(_metrics(results[0], name)) or ""
        found.append(
            AuditPart(
                name=name,
                metric=metric,
                n=max(value.n for _, value in rows),
                chance=rows[0][1].chance,
                solved_by=tuple(label for label, value in rows if _solves(value)),
                reversed_by=tuple(
                    result.label
                    for result in results
                    if name in result.reversed and _solves(result.reversed[name])
                ),
            )
        )
    return found


def value_of(result: BlindResult, part: str) -> MetricValue | None:
    """The metric that stands for a part."""
    found = _metrics(result, part)
    metric = main_metric(found)
    return None if metric is None else found[metric]


def verdict(
    benchmark: str,
    results: Sequence[BlindResult],
    parts: Sequence[AuditPart],
    balanced: Sequence[str],
    likelihoods: Sequence[LikelihoodPart],
) -> list[str]:
    """Sentences: the whole, the parts that are flagged, those that cannot be solved."""
    said: list[str] = []
    whole = next((part for part in parts if part.name == WHOLE), None)
    if whole is not None:
        said.append(_whole(benchmark, results, whole))
    inner = [part for part in parts if part.name != WHOLE]
    flagged = [part for part in inner if part.solved_by]
    if len(inner) > 1:
        if flagged:
            named = [_best_words(part.name, results) for part in flagged]
            said.append(f"Flagged, {len(flagged)} of {len(inner)} parts: {_listed(named)}.")
        else:
            said.append(f"None of its {len(inner)} parts is solved better than by guessing.")
    turned = [part for part in (inner if len(inner) > 1 else parts) if _only_reversed(part)]
    if turned:
        named = [_reversed_words(part, results) for part in turned]
        said.append(f"Solved the other way round, by what a score likes less: {_listed(named)}.")
    for name in balanced:
        said.append(
            f"{name}: both captions are right once, so a blind score cannot solve it: its text and "
            "image scores are 0 by construction."
        )
    if likelihoods:
        said += _likelihoods([each for each in likelihoods if each.part != WHOLE] or likelihoods)
    return said


def _whole(benchmark: str, results: Sequence[BlindResult], whole: AuditPart) -> str:
    label, value = _best(WHOLE, results)
    chance = f"{100 * whole.chance:.1f} %"
    metric = "" if whole.metric in ("accuracy", "average") else f" ({_words(whole.metric)})"
    if whole.solved_by:
        return (
            f"A score that never looks solves {_share(value)} of {benchmark}{metric}, where "
            f"guessing gets {chance}: {label}."
        )
    return (
        f"No score here that never looks does better than guessing on {benchmark}{metric}: the "
        f"best, {label}, gets {_share(value)}, and guessing {chance}."
    )


def _likelihoods(parts: Sequence[LikelihoodPart]) -> list[str]:
    said = []
    for kind, words in (
        ("won by prior alone", "The likelihood wins by prior alone on"),
        ("beyond blind", "It does better than every blind score here on"),
        ("undecided", "Above chance, and undecided, is"),
        ("not above chance", "It is not above chance on"),
    ):
        named = [
            f"{each.part} ({100 * each.likelihood.value:.1f} against {100 * each.blind.value:.1f})"
            for each in parts
            if each.verdict == kind
        ]
        if named:
            said.append(f"{words} {_listed(named)}.")
    return said


def _best(part: str, results: Sequence[BlindResult]) -> tuple[str, MetricValue]:
    rows = [(result.label, value) for result in results if (value := value_of(result, part))]
    return max(rows, key=lambda row: row[1].value)


def _best_words(part: str, results: Sequence[BlindResult]) -> str:
    label, value = _best(part, results)
    return f"{part} ({_share(value)}, {label.partition(' (')[0]})"


def _reversed_words(part: AuditPart, results: Sequence[BlindResult]) -> str:
    rows = [(r.label, r.reversed[part.name]) for r in results if part.name in r.reversed]
    label, value = max(rows, key=lambda row: row[1].value)
    return f"{part.name} ({_share(value)}, {label.partition(' (')[0]})"


def _only_reversed(part: AuditPart) -> bool:
    return bool(part.reversed_by) and not part.solved_by


def _solves(value: MetricValue) -> bool:
    return solvable_blind(value.ci95, value.chance)


def _metrics(result: BlindResult, part: str) -> dict[str, MetricValue]:
    return result.metrics if part == WHOLE else result.subsets.get(part, {})


def _share(value: MetricValue) -> str:
    low, high = value.ci95
    return f"{100 * value.value:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def _listed(named: Sequence[str]) -> str:
    shown = ", ".join(named[:NAMED])
    return shown if len(named) <= NAMED else f"{shown} and {len(named) - NAMED} more"


def _words(metric: str) -> str:
    return metric.replace("_", " ")
