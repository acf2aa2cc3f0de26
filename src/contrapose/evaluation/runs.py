"""One run: a model and a score on a selection of examples, with its provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from contrapose import __version__
from contrapose.data import Gallery
from contrapose.data.example_columns import ExampleColumns
from contrapose.engine import (
    SCORES,
    ScoringContext,
    base_score,
    describe_prior,
    describe_videos,
    store_key,
)
from contrapose.engine.pace import report_phase
from contrapose.engine.score_names import is_chat
from contrapose.errors import InputError, NoPriorError
from contrapose.evaluation.answer_pairs import describe_answer_pairs, has_answer_pairs
from contrapose.evaluation.jobs import find_fitting_parts
from contrapose.evaluation.parts import (
    DEBIASED,
    EvalRequest,
    PartRun,
    run_part,
    score_parts,
)
from contrapose.evaluation.selection import Selection
from contrapose.evaluation.skips import (
    NothingLeftError,
    require_no_skips,
    skip_note,
    summarize_skips,
)
from contrapose.models import PromptedCaptioner
from contrapose.results.environment import capture_environment, describe_loaded
from contrapose.results.schema import AlphaReport, Results, UsageReport
from contrapose.results.summary import (
    PartsSummary,
    headline,
    official_notes,
    summarize_parts,
)
from contrapose.results.tables import RunRecord, ScoreTable, stack_tables
from contrapose.scores import Skip

if TYPE_CHECKING:
    from contrapose.data import Card
    from contrapose.evaluation.chat import ChatTranscript


def provenance(
    context: ScoringContext, score: str, alphas: Iterable[AlphaReport], videos: str = ""
) -> dict[str, Any]:
    """Provenance of a score: model, name of the score in the store, videos, images of its prior."""
    base = DEBIASED.get(score, "lm" if score == "prior" else score)
    spec: dict[str, Any] = {
        "fingerprint": context.model.fingerprint,
        "loaded": describe_loaded(context.model),
        "made": capture_environment(),
    }
    if base_score(base) in SCORES:
        spec["stored_as"] = store_key(context.model, base, context.question)
    if videos:
        spec["videos"] = videos
    prior = _describe_prior(context, score, alphas)
    return {**spec, "prior": prior} if prior else spec


def provenance_notes(
    context: ScoringContext, score: str, alphas: Iterable[AlphaReport]
) -> tuple[str, ...]:
    """Notes on the provenance of a score: the question, the prompt, the images of the prior."""
    notes = []
    if DEBIASED.get(score, score) == "lm" and isinstance(context.model, PromptedCaptioner):
        notes.append(f"lm counts {context.model.lm_tokens}")
    if DEBIASED.get(score, score) == "vqa":
        vqa = context.question
        notes.append(f"vqa is log P({vqa.answer!r}) after the question {vqa.text!r}")
    prior = _describe_prior(context, score, alphas)
    return (*notes, f"the prior is under {prior}") if prior else tuple(notes)


def _describe_prior(context: ScoringContext, score: str, alphas: Iterable[AlphaReport]) -> str:
    """Describe the images of the prior, of each part; empty where there is none."""
    if score == "prior":
        return describe_prior(context.prior, context.model)
    return "; ".join(dict.fromkeys(alpha.prior for alpha in alphas))


def _summarize(
    context: ScoringContext, parts: Mapping[str, PartRun], request: EvalRequest
) -> PartsSummary:
    with report_phase(context.progress, "intervals"):
        return summarize_parts(
            {name: part.part for name, part in parts.items()},
            resamples=request.resamples,
            seed=request.seed,
        )


def _measure_part(context: ScoringContext, *arguments: Any) -> PartRun:
    with report_phase(context.progress, "measuring"):
        return run_part(context, *arguments)


def run_selection(
    context: ScoringContext, selection: Selection, score: str, request: EvalRequest
) -> RunRecord:
    """Evaluate one model on one benchmark with one score."""
    names, notes = find_fitting_parts(context, selection, score)
    answers = score_parts(context, selection, score, names)
    parts: dict[str, PartRun] = {}
    skipped: dict[str, Skip] = {}
    for name in names:
        prefix = f"{name}/" if selection.suite else ""
        try:
            parts[name] = _measure_part(context, selection, name, score, request, answers.get(name))
            lost = parts[name].skipped
        except NothingLeftError as error:
            notes.append(f"{name} is left out: {error.message.rstrip('.')}")
            lost = error.skipped
            if len(selection.parts) == len(notes) and not request.strict:
                raise
        except NoPriorError as error:
            if not selection.suite:
                raise
            notes.append(f"{name} has no {score}: {str(error).rstrip('.')}")
            continue
        skipped |= {f"{prefix}{unit}": why for unit, why in lost.items()}
    if request.strict:
        require_no_skips(skipped, selection.name)
    if not parts:
        raise InputError(f"{selection.name}: {notes[-1]}.")
    data = [data for _, data in selection.parts.values()]
    videos = describe_videos(
        context.model,
        [part for part in data if isinstance(part, list | ExampleColumns)],
        [image for part in data if isinstance(part, Gallery) for image in part.images],
        chat=is_chat(score),
    )
    paired = _describe_paired(context, [part.part.card for part in parts.values()], score)
    alphas = {name: part.alpha for name, part in parts.items() if part.alpha is not None}
    chats = {name: part.chat for name, part in parts.items() if part.chat is not None}
    summary = _summarize(context, parts, request)
    strict = {name: part.strict for name, part in parts.items() if part.strict is not None}
    rerank = max(part.rerank for part in parts.values())
    usage, usage_notes, replies = _join_chats(list(chats.values()))
    measured = summary.measured
    results = Results(
        contrapose=__version__,
        benchmark=selection.name,
        model=context.model.name,
        score=f"{score}:rerank={rerank}" if rerank else score,
        protocol=request.protocol,
        aggregation=summary.aggregation,
        examples=len(measured),
        clusters=measured.cluster_count,
        resamples=request.resamples,
        seed=request.seed,
        metrics=summary.metrics,
        strict=headline(strict, resamples=request.resamples, seed=request.seed) if strict else {},
        subsets=summary.subsets,
        alpha=alphas.get(""),
        part_alphas=alphas if selection.suite else {},
        skipped=summarize_skips(skipped),
        usage=usage,
        notes=(
            *official_notes(request.protocol, (part.part.card for part in parts.values())),
            *(provenance_notes(context, score, alphas.values()) if not paired else paired[:1]),
            *filter(None, (videos,)),
            *measured.notes,
            *summary.notes,
            *usage_notes,
            *notes,
            *skip_note(skipped, len(measured)),
        ),
    )
    spec = provenance(context, score, alphas.values(), videos)
    if paired:
        spec["stored_as"] = paired[1]
    if scales := {name or "all": dict(part.spec) for name, part in parts.items() if part.spec}:
        spec["edits"] = scales
    if skipped:
        spec["skipped"] = {unit: why.detail for unit, why in skipped.items()}
    candidates = [
        f"{name}/{unit}" if selection.suite else unit
        for name, part in parts.items()
        for unit in part.candidates
    ]
    if candidates:
        spec["skipped_candidates"] = candidates
    if chats:
        spec["prompts"] = {name or "all": asdict(chat.template) for name, chat in chats.items()}
    tables = [part.table for part in parts.values() if part.table is not None]
    scores = stack_tables(tables) if tables else None
    return RunRecord(request, scores, measured, results, spec, replies, selection.units())


def _describe_paired(context: ScoringContext, cards: Sequence[Card], score: str) -> tuple[str, ...]:
    """Note and name of a score of two answers; empty where it is another."""
    card = next((card for card in cards if has_answer_pairs(context, card, score)), None)
    return () if card is None else describe_answer_pairs(context, card)


def _join_chats(
    chats: Sequence[ChatTranscript],
) -> tuple[UsageReport | None, tuple[str, ...], ScoreTable | None]:
    """Usage, a note on it, and replies of all parts; nothing where no part was chat."""
    if not chats:
        return None, (), None
    from contrapose.evaluation.chat import stack_replies, sum_usage, usage_note

    usage = sum_usage(chat.usage for chat in chats)
    return usage, usage_note(usage), stack_replies(chats)
