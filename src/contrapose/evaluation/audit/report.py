"""Audit report: run the audit, and put its verdict into sentences."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose import __version__
from contrapose.data.example_columns import ExampleColumns
from contrapose.engine import Progress
from contrapose.engine.pace import report_phase
from contrapose.errors import InputError, option
from contrapose.evaluation.audit.captions import (
    AuditCaptions,
    AuditRequest,
    collect_captions,
    count_examples,
)
from contrapose.evaluation.audit.measures import (
    BlindMeasurements,
    blind_metric,
    blind_record,
    compare_likelihoods,
    measure_blind,
    read_likelihoods,
)
from contrapose.evaluation.audit.scores import blind_scores
from contrapose.evaluation.selection import Selection, sample_selection, select
from contrapose.files import gc_paused
from contrapose.metrics import solvable_blind
from contrapose.results.measures import describe_aggregation, note_few_clusters
from contrapose.results.schema import (
    WHOLE,
    AuditPart,
    AuditReport,
    BlindResult,
    LikelihoodPart,
    MetricValue,
)
from contrapose.results.shapes import AVERAGE
from contrapose.results.summary import SUITE_AGGREGATION
from contrapose.results.tables import RunRecord

NAMED = 12
"""Parts that a sentence names."""


def build_parts(results: Sequence[BlindResult]) -> list[AuditPart]:
    """List every part and the scores that solve it, the whole benchmark first."""
    names = dict.fromkeys([WHOLE, *(name for result in results for name in result.subsets)])
    parts = []
    for name in names:
        rows = [(result.label, value) for result in results if (value := part_value(result, name))]
        if not rows or rows[0][1].chance is None:
            continue
        metric = blind_metric(_part_metrics(results[0], name)) or ""
        parts.append(
            AuditPart(
                name=name,
                metric=metric,
                n=max(value.n for _, value in rows),
                chance=rows[0][1].chance,
                solved_by=tuple(label for label, value in rows if _is_solved(value)),
                reversed_by=tuple(
                    result.label
                    for result in results
                    if name in result.reversed and _is_solved(result.reversed[name])
                ),
            )
        )
    return parts


def part_value(result: BlindResult, part: str) -> MetricValue | None:
    """Value of a part's main metric."""
    values = _part_metrics(result, part)
    metric = blind_metric(values)
    return None if metric is None else values[metric]


def write_verdict(
    benchmark: str,
    results: Sequence[BlindResult],
    parts: Sequence[AuditPart],
    balanced: Sequence[str],
    likelihoods: Sequence[LikelihoodPart],
) -> list[str]:
    """Write the verdict in sentences: the whole, flagged parts, and those nobody can solve."""
    sentences: list[str] = []
    overall = next((part for part in parts if part.name == WHOLE), None)
    if overall is not None:
        sentences.append(_headline_sentence(benchmark, results, overall))
    inner = [part for part in parts if part.name != WHOLE]
    flagged = [part for part in inner if part.solved_by]
    if len(inner) > 1:
        if flagged:
            named = [_describe_best(part.name, results) for part in flagged]
            sentences.append(
                f"Flagged, {len(flagged)} of {len(inner)} parts: {_join_names(named)}."
            )
        else:
            sentences.append(f"None of its {len(inner)} parts is solved better than by guessing.")
    turned = [part for part in (inner if len(inner) > 1 else parts) if _is_only_reversed(part)]
    if turned:
        named = [_describe_reversed(part, results) for part in turned]
        sentences.append(
            f"Solved the other way round, by what a score likes less: {_join_names(named)}."
        )
    for name in balanced:
        sentences.append(
            f"{name}: each caption is right for some images and wrong for others, so a blind score "
            "cannot solve it."
        )
    if likelihoods:
        sentences += _likelihood_sentences(
            [part for part in likelihoods if part.part != WHOLE] or likelihoods
        )
    return sentences


def _headline_sentence(benchmark: str, results: Sequence[BlindResult], overall: AuditPart) -> str:
    label, value = _find_best(WHOLE, results)
    chance = f"{100 * overall.chance:.1f} %"
    plain = overall.metric in ("accuracy", AVERAGE)
    metric = "" if plain else f" ({overall.metric.replace('_', ' ')})"
    if overall.solved_by:
        return (
            f"A score that never looks solves {_format_share(value)} of {benchmark}{metric}, where "
            f"guessing gets {chance}: {label}."
        )
    return (
        f"No score here that never looks does better than guessing on {benchmark}{metric}: the "
        f"best, {label}, gets {_format_share(value)}, and guessing {chance}."
    )


def _likelihood_sentences(parts: Sequence[LikelihoodPart]) -> list[str]:
    sentences = []
    for kind, words in (
        ("won by prior alone", "The likelihood wins by prior alone on"),
        ("beyond blind", "It does better than every blind score here on"),
        ("undecided", "Above chance, and undecided, is"),
        ("not above chance", "It is not above chance on"),
    ):
        named = [
            f"{part.part} ({100 * part.likelihood.value:.1f} against {100 * part.blind.value:.1f})"
            for part in parts
            if part.verdict == kind
        ]
        if named:
            sentences.append(f"{words} {_join_names(named)}.")
    return sentences


def _find_best(part: str, results: Sequence[BlindResult]) -> tuple[str, MetricValue]:
    rows = [(result.label, value) for result in results if (value := part_value(result, part))]
    return max(rows, key=lambda row: row[1].value)


def _describe_best(part: str, results: Sequence[BlindResult]) -> str:
    label, value = _find_best(part, results)
    return f"{part} ({_format_share(value)}, {label.partition(' (')[0]})"


def _describe_reversed(part: AuditPart, results: Sequence[BlindResult]) -> str:
    rows = [(r.label, r.reversed[part.name]) for r in results if part.name in r.reversed]
    label, value = max(rows, key=lambda row: row[1].value)
    return f"{part.name} ({_format_share(value)}, {label.partition(' (')[0]})"


def _is_only_reversed(part: AuditPart) -> bool:
    return bool(part.reversed_by) and not part.solved_by


def _is_solved(value: MetricValue) -> bool:
    return solvable_blind(value.ci95, value.chance)


def _part_metrics(result: BlindResult, part: str) -> dict[str, MetricValue]:
    return result.metrics if part == WHOLE else result.subsets.get(part, {})


def _format_share(value: MetricValue) -> str:
    if value.ci95 is None:
        return f"{100 * value.value:.1f} %"
    low, high = value.ci95
    return f"{100 * value.value:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def _join_names(named: Sequence[str]) -> str:
    shown = ", ".join(named[:NAMED])
    return shown if len(named) <= NAMED else f"{shown} and {len(named) - NAMED} more"


def audit_benchmark(request: AuditRequest, *, progress: Progress | None = None) -> AuditReport:
    """Audit how much of a benchmark blind scores solve; see `audit_examples`."""
    return audit_examples(request, progress=progress)[0]


def audit_examples(
    request: AuditRequest, *, progress: Progress | None = None
) -> tuple[AuditReport, list[RunRecord]]:
    """Audit how much of a benchmark blind scores solve; none of its images is opened.

    Args:
        request: the benchmark, the blind scores and the options.
        progress: called after each batch of a model's scores.

    Returns:
        The report, and a record of the examples for each blind score.

    Raises:
        InputError: an unknown name, no choice among captions, or a file that cannot be used.
        MissingExtraError: a library that a model needs is not installed.
    """
    with gc_paused(), report_phase(progress, "reading the benchmark"):
        selection = select(
            request.benchmark,
            root=request.root,
            subsets=request.subsets,
            limit=request.limit,
            offline=request.offline,
            progress=progress,
        )
        if request.sample is not None:
            selection = sample_selection(selection, request.sample, request.seed)
        captions, balanced = collect_captions(selection)
    likelihood, notes = None, _note_left_out(selection, captions, balanced)
    if request.likelihoods is not None:
        if list(captions.frames) != [""]:
            raise InputError(
                f"{selection.name} takes no {option('likelihoods')}: it is no set of one kind."
            )
        likelihood, more = read_likelihoods(request, captions.cards[""], captions.frames[""])
        notes += more
    if not captions.frames:
        return _build_report(request, selection, captions, balanced, [], [], notes), []
    scores, more = blind_scores(captions, request, progress)
    with report_phase(progress, "intervals"):
        achieved = [
            measure_blind(score, captions, resamples=request.resamples, seed=request.seed)
            for score in scores
        ]
    notes += more
    for score in achieved:
        if score.result.left_out:
            notes.append(
                f"{score.result.left_out:,} examples have a caption without {score.result.label}, "
                "and are left out of it"
            )
    records = [
        blind_record(selection.name, score, one, captions)
        for score, one in zip(scores, achieved, strict=True)
        if one.result.metrics
    ]
    achieved = [score for score in achieved if score.result.metrics]
    compared: list[LikelihoodPart] = []
    if likelihood is not None:
        compared = compare_likelihoods(
            likelihood,
            achieved,
            captions.cards[""],
            resamples=request.resamples,
            seed=request.seed,
        )
    report = _build_report(request, selection, captions, balanced, achieved, compared, notes)
    return report, records


def _build_report(
    request: AuditRequest,
    selection: Selection,
    captions: AuditCaptions,
    balanced: tuple[str, ...],
    achieved: list[BlindMeasurements],
    compared: list[LikelihoodPart],
    notes: list[str],
) -> AuditReport:
    results = tuple(score.result for score in achieved)
    parts = build_parts(results) if results else []
    data = [part for _, part in selection.parts.values() if isinstance(part, list | ExampleColumns)]
    examples, clusters = count_examples(list(captions.frames.values()))
    cards = list(captions.cards.values())
    few = note_few_clusters(
        {
            part: values
            for result in results
            for part, values in {WHOLE: result.metrics, **result.subsets}.items()
        }
    )
    words = SUITE_AGGREGATION
    if not selection.suite:
        words = describe_aggregation(cards[0].aggregation) if cards else "none"
    cells = sum(part_value(result, part.name) is not None for result in results for part in parts)
    if cells > 1:
        notes = [
            *notes,
            f"{cells} accuracies were looked at: about {max(1, round(cells * 0.025))} of them "
            "would lie above chance by luck where nothing can be solved",
        ]
    return AuditReport(
        contrapose=__version__,
        benchmark=selection.name,
        aggregation=words,
        examples=examples or sum(map(len, data)),
        clusters=clusters,
        resamples=request.resamples,
        seed=request.seed,
        balanced=balanced,
        scores=results,
        parts=tuple(parts),
        likelihoods_from=None if request.likelihoods is None else str(request.likelihoods),
        likelihoods=tuple(compared),
        verdict=tuple(write_verdict(selection.name, results, parts, balanced, compared)),
        notes=(*notes, *few),
    )


def _note_left_out(
    selection: Selection, captions: AuditCaptions, balanced: tuple[str, ...]
) -> list[str]:
    """Notes on the parts of a suite without a choice among captions."""
    audited = {*captions.frames, *balanced, selection.name}
    return [
        f"{name} is not audited: there is no choice among a few captions"
        for name in selection.parts
        if name and name not in audited
    ]
