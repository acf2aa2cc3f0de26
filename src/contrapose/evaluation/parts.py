"""Evaluation of one part of a benchmark with one score: fitness, scoring, measuring."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data import Card, ComposedSet, EditSet, Example, Gallery
from contrapose.data.example_columns import ExampleColumns
from contrapose.data.video_clips import has_videos
from contrapose.engine import (
    LIKELIHOOD_SCORES,
    Prior,
    ScoringContext,
    Shard,
    describe_fusion,
    describe_prior,
    score_example_parts,
    score_priors,
    score_priors_ahead,
    score_tokens,
)
from contrapose.engine.score_names import is_chat
from contrapose.errors import NoPriorError, option
from contrapose.evaluation.answer_pairs import PAIR_THRESHOLD, has_answer_pairs, score_answer_pairs
from contrapose.evaluation.selection import BenchmarkLike, ScoringOptions, Selection
from contrapose.evaluation.skips import (
    NothingLeftError,
    SkipReasons,
    skipped_candidates,
    without_skipped,
    without_skipped_queries,
)
from contrapose.metrics import FloatArray, IntArray
from contrapose.models import Model, QuestionTemplate
from contrapose.models.capabilities import has_cosine_match
from contrapose.results.schema import AlphaReport
from contrapose.results.shapes import MatrixScores, MeasureInput, Protocol, measure
from contrapose.results.summary import MeasuredPart
from contrapose.results.tables import ScoreTable, answers_table, grid_table, rankings_table
from contrapose.scores import Answers, Skip

if TYPE_CHECKING:
    from contrapose.evaluation.chat import ChatTranscript
    from contrapose.results.debias import Alpha

DEBIASED: Mapping[str, str] = {f"{score}-alpha": score for score in LIKELIHOOD_SCORES}
"""Likelihoods with the prior removed where captions are compared → the plain likelihoods."""

TOKENS = ("lm", "blind")
"""Scores with token log-probabilities."""

JUDGED = ("judgement", "question_groups", "questions", "probes", "foil")
"""Families whose scores say yes or no: a match logit above 0 says yes."""

HALF = math.log(0.5)
"""Threshold of `vqa`: above it a yes is likelier than not."""


@dataclass(frozen=True, slots=True)
class EvalRequest(ScoringOptions):
    """Request of `contrapose eval`: options beside those of `ScoringOptions`.

    Attributes:
        benchmarks: names as `find_benchmark` knows them, benchmarks, or their data.
        scores: names of scores; none means all that a model gives.
        strict: refuse to skip anything.
        common: measure every model on the examples, images and captions that none of them skipped.
        long: skip captions that are longer than a model reads, or cut them.
        rerank: candidates of each query of a gallery that `itm` and `lm` score, 0 for all; None
            decides by its size.
        prior: also report `lm` and `vqa` with this prior removed, as `lm-alpha`, `vqa-alpha`.
        alpha: share of the prior that is removed.
        question: the question of `vqa`.
        prompt: the text before a caption of `lm`; None takes each model's own.
        oracle: judge of edit queries: a model, its name, or a `.npy` file of probabilities; None
            takes the benchmark's own.
        protocol: "strict", or the rules of each benchmark's official script, with strict ones
            beside.
        tokens: also put the token log-probabilities of `lm` and `blind` into the score tables.
        frames: frames of each video, and whether each is scored by itself; None takes the
            benchmark's own.
        shard: the share of the batches to score; nothing is measured. None scores all.
        merge: measure what shards scored, and refuse where something is missing.
        engine: "local", or "ray", whose workers score.
    """

    benchmarks: tuple[BenchmarkLike, ...]
    scores: tuple[str, ...] = ()
    strict: bool = False
    common: bool = False
    long: Literal["skip", "cut"] = "skip"
    rerank: int | None = None
    prior: Prior | None = None
    alpha: Alpha = "auto"
    question: QuestionTemplate = field(default_factory=QuestionTemplate)
    prompt: str | None = None
    oracle: str | Model | None = None
    protocol: Protocol = "strict"
    tokens: bool = False
    frames: tuple[int, bool] | None = None
    shard: Shard | None = None
    merge: bool = False
    engine: Literal["local", "ray"] = "local"


@dataclass(frozen=True, slots=True, eq=False)
class PartRun:
    """Evaluation of one part with one score: its measures, score table and skipped examples.

    Attributes:
        part: the card and the measures.
        table: the scores, pair by pair; None when they are too many.
        alpha: the α sweep, where a prior is removed.
        skipped: examples that could not be scored, with reasons.
        candidates: skipped answers of a gallery or edit set that are no queries.
        rerank: how many of each query of a gallery were scored; 0 for all.
        chat: the transcript of a chat score.
        spec: what else determines the score: λ of edit queries, and its scores on dev.
        strict: under the official protocol, the measures where ties are never wins.
    """

    part: MeasuredPart
    table: ScoreTable | None
    alpha: AlphaReport | None = None
    skipped: SkipReasons = field(default_factory=dict)
    candidates: tuple[str, ...] = ()
    rerank: int = 0
    chat: ChatTranscript | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    strict: MeasuredPart | None = None


def score_parts(
    context: ScoringContext, selection: Selection, score: str, names: Sequence[str]
) -> dict[str, Answers]:
    """Score the examples of all parts in common batches; galleries and chat are left out."""
    parts = {
        name: data
        for name in names
        if isinstance(data := selection.parts[name][1], list | ExampleColumns) and data
    }
    if is_chat(score) or not parts:
        return {}
    cards = {name: selection.parts[name][0].card for name in parts}
    paired = {
        name: score_answer_pairs(context, cards[name], parts.pop(name))
        for name in list(parts)
        if has_answer_pairs(context, cards[name], score)
    }
    if not parts:
        return paired
    answers = score_example_parts(context, DEBIASED.get(score, score), list(parts.values()))
    if score == "lm-alpha" and len(parts) > 1:
        score_priors_ahead(context, [example for data in parts.values() for example in data])
    return {**paired, **dict(zip(parts, answers, strict=True))}


def ask_own_question(context: ScoringContext, selection: Selection, score: str) -> ScoringContext:
    """Context in which `vqa` asks the benchmark's question, unless the user gave another."""
    questions = {benchmark.card.question for benchmark, _ in selection.parts.values()}
    default = context.question.text == QuestionTemplate().text
    if DEBIASED.get(score, score) != "vqa" or not default or len(questions) != 1:
        return context
    (text,) = questions
    return replace(context, question=replace(context.question, text=text)) if text else context


def run_part(
    context: ScoringContext,
    selection: Selection,
    name: str,
    score: str,
    request: EvalRequest,
    answers: Answers | None,
) -> PartRun:
    """Measure one part, without the examples that were skipped.

    Args:
        context: the model, the store and the options of scoring.
        selection: the benchmark.
        name: of the part.
        score: name of the score.
        request: options of the evaluation.
        answers: the scores of the part's examples; None for galleries, edit and composed queries
            and chat, which are scored here.

    Raises:
        NothingLeftError: all examples were skipped.
    """
    benchmark, data = selection.parts[name]
    card, prefix = benchmark.card, f"{name}/" if name else ""
    if isinstance(data, Gallery):
        return _run_gallery(context, card, data, score, request, prefix)
    if isinstance(data, EditSet):
        return _run_edits(context, card, data, score, request, prefix)
    if isinstance(data, ComposedSet):
        return _run_composed(context, card, data, score, request, prefix)
    if answers is None:
        from contrapose.evaluation.chat import measure_chat

        measured, other, chat, skipped = measure_chat(
            context, card, data, score, prefix, request.protocol
        )
        strict = None if other is None else MeasuredPart(card, other)
        part = MeasuredPart(card, measured)
        return PartRun(part, None, skipped=skipped, chat=chat, strict=strict)
    if score in DEBIASED:  # of all captions, so that batches do not depend on what was skipped
        prior = score_priors(context, answers.frame, DEBIASED[score], data)
    kept = _require_answers(answers, card.name)
    if score not in DEBIASED:
        tokens = _score_tokens(context, score, data, answers, request)
        table = answers_table(kept, prefix, tokens=tokens)
        threshold = HALF if score == "vqa" else None
        if has_answer_pairs(context, card, score):
            threshold = PAIR_THRESHOLD
        cosines = score == "itc" or (score == "itm" and has_cosine_match(context.model))
        judged = score == "itm" and card.family in JUDGED and not cosines
        if judged and kept.scores[kept.frame.present].min() < 0:
            threshold = 0.0
        question = MeasureInput(kept, card, threshold=threshold, cosines=cosines)
        part, strict, _ = _measure_part(question, request)
        return PartRun(part, table, skipped=answers.skipped, strict=strict)
    prior = prior[[name not in answers.skipped for name in answers.frame.ids]]
    blank = np.isnan(prior) & kept.frame.present.any(axis=1)
    if blank.any():  # captions that the model reads under an image, and not under noise
        unread = Skip("the caption has no prior", "the model gives a caption no prior")
        more = {kept.frame.ids[k]: unread for k in np.flatnonzero(blank.any(axis=1)).tolist()}
        answers = replace(answers, skipped={**answers.skipped, **more})
        kept, prior = _require_answers(answers, card.name), prior[~blank.any(axis=1)]
    words = describe_prior(context.prior, context.model)
    part, strict, alpha = _measure_part(MeasureInput(kept, card), request, prior=(prior, words))
    table = answers_table(kept, prefix, prior=prior)
    return PartRun(part, table, alpha, answers.skipped, strict=strict)


def _measure_part(
    question: MeasureInput,
    request: EvalRequest,
    notes: tuple[str, ...] = (),
    prior: tuple[FloatArray, str] | None = None,
) -> tuple[MeasuredPart, MeasuredPart | None, AlphaReport | None]:
    """Measure a part by the request's protocol, and by the strict one where that is another.

    Args:
        question: scores and card.
        request: options of the evaluation.
        notes: for the reader of the results.
        prior: log prior of the captions and its images in words; None removes none.
    """

    def measure_by(protocol: Protocol) -> tuple[MeasuredPart, AlphaReport | None]:
        asked, alpha = replace(question, protocol=protocol), None
        if prior is None:
            measured = measure(asked)
        else:
            from contrapose.results.debias import remove_prior

            measured, alpha = remove_prior(
                asked, prior[0], alpha=request.alpha, seed=request.seed, prior_words=prior[1]
            )
        noted = replace(measured, notes=(*measured.notes, *notes))
        return MeasuredPart(question.card, noted), alpha

    part, alpha = measure_by(request.protocol)
    return part, None if request.protocol == "strict" else measure_by("strict")[0], alpha


def _run_gallery(
    context: ScoringContext,
    card: Card,
    data: Gallery,
    score: str,
    request: EvalRequest,
    prefix: str,
) -> PartRun:
    from contrapose.engine.galleries import (
        compute_gallery_prior,
        describe_gallery_prior,
        score_gallery,
    )

    base = DEBIASED.get(score, score)
    if score in DEBIASED and request.rerank:
        raise NoPriorError(f"{score} needs every pair of a gallery; leave out {option('rerank')}.")
    grid = score_gallery(context, base, data, rerank=request.rerank)
    values = grid.scores
    if grid.from_text is not None:  # a pair that one ranking did not score is lower there
        values = np.maximum(values, grid.from_text)
    table = grid_table(values, data, prefix, scored=grid.scored)
    candidates = skipped_candidates(data, grid)
    full = data
    data, grid, skipped = without_skipped(data, grid)
    question = MeasureInput(MatrixScores(grid.scores, data, grid.from_text), card)
    prior = None
    if score in DEBIASED:
        words = describe_gallery_prior(context.prior, context.model, data)
        prior = compute_gallery_prior(context, base, full, data, grid), words
    part, strict, alpha = _measure_part(question, request, grid.notes, prior)
    return PartRun(part, table, alpha, skipped, candidates, grid.rerank, strict=strict)


def _run_edits(
    context: ScoringContext,
    card: Card,
    data: EditSet,
    score: str,
    request: EvalRequest,
    prefix: str,
) -> PartRun:
    from contrapose.engine.edits import score_edits

    scored = score_edits(context, score, data)
    data, grid = scored.data, scored.matrix
    table = grid_table(grid.scores, data, prefix)
    candidates = skipped_candidates(data, grid)
    data, grid, skipped = without_skipped_queries(data, grid)
    question = MeasureInput(MatrixScores(grid.scores, data), card)
    part, strict, _ = _measure_part(question, request, grid.notes)
    spec: dict[str, Any] = {} if scored.scale is None else {"scale": scored.scale}
    if scored.curve:
        spec |= {"dev_scores": [list(point) for point in scored.curve]}
    return PartRun(part, table, skipped=skipped, candidates=candidates, spec=spec, strict=strict)


def _run_composed(
    context: ScoringContext,
    card: Card,
    data: ComposedSet,
    score: str,
    request: EvalRequest,
    prefix: str,
) -> PartRun:
    from contrapose.engine.composed import score_composed

    rankings, skipped = score_composed(context, score, data)
    if not rankings.data.queries:
        raise NothingLeftError(card.name, skipped)
    notes = (describe_fusion(score),)
    part, strict, _ = _measure_part(MeasureInput(rankings, card), request, notes)
    return PartRun(part, rankings_table(rankings, prefix), skipped=skipped, strict=strict)


def _score_tokens(
    context: ScoringContext,
    score: str,
    data: Sequence[Example],
    answers: Answers,
    request: EvalRequest,
) -> tuple[Ragged, IntArray] | None:
    """Token log-probabilities of the examples not skipped, if the request wants them."""
    if not request.tokens or score not in TOKENS or has_videos(data):
        return None
    lists, positions = score_tokens(context, score, data)
    kept = [name not in answers.skipped for name in answers.frame.ids]
    return lists, positions[np.array(kept, dtype=np.bool_)]


def _require_answers(answers: Answers, name: str) -> Answers:
    """Answers of the examples that were not skipped; an error if none is left."""
    kept = answers.without_skipped()
    if not len(kept.frame):
        raise NothingLeftError(name, answers.skipped)
    return kept
