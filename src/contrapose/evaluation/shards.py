"""Shard of an evaluation: score its share of every request into the store, and measure nothing.

The requests are those of an ordinary evaluation, in the same order and cut into the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contrapose.data import Benchmark, ComposedSet, EditSet, Example, Gallery
from contrapose.data.example_columns import ExampleColumns
from contrapose.engine import (
    OtherImages,
    ScoringContext,
    embed_composed,
    embed_edits,
    score_example_share,
    score_gallery_share,
    score_gallery_texts,
    score_priors,
    score_priors_ahead,
)
from contrapose.engine.chat import collect_replies
from contrapose.engine.chat_prompts import find_template
from contrapose.engine.score_names import is_chat
from contrapose.engine.shards import ShardSurvey
from contrapose.errors import NoPriorError
from contrapose.evaluation.answer_pairs import has_answer_pairs, score_answer_pair_share
from contrapose.evaluation.parts import DEBIASED, EvalRequest
from contrapose.evaluation.selection import PartData, Selection
from contrapose.results.shapes import find_shape
from contrapose.scores import build_frame

RERANK_NOTE = (
    "The pairs to be re-ranked are known only when the vectors of all shards are in the cache: run "
    "the shards once more."
)
REFRESH_NOTE = (
    "The pairs to be re-ranked are known only when all shards have computed their vectors again: "
    "run all shards twice."
)


def score_selection_share(
    context: ScoringContext,
    selection: Selection,
    score: str,
    names: Sequence[str],
    request: EvalRequest,
) -> None:
    """Score the shard's share of one benchmark with one score.

    Args:
        context: the model, the store, the shard and the options of scoring.
        selection: the benchmark.
        score: name of the score.
        names: the parts that the score fits.
        request: options of the evaluation.
    """
    base = DEBIASED.get(score, score)
    if context.shard is not None and not isinstance(context.shard, ShardSurvey):
        narrow = replace(context, shard=replace(context.shard, share_only=True))
    else:
        narrow = context
    examples = {
        name: data
        for name in names
        if isinstance(data := selection.parts[name][1], list | ExampleColumns) and data
    }
    for name in list(examples):
        card = selection.parts[name][0].card
        if has_answer_pairs(context, card, score):
            score_answer_pair_share(narrow, card, examples.pop(name))
    if examples and not is_chat(score):
        score_example_share(narrow, base, list(examples.values()))
        if score == "lm-alpha" and len(examples) > 1:
            score_priors_ahead(context, [example for data in examples.values() for example in data])
    for name in names:
        try:
            _score_part(context, *selection.parts[name], score, request)
        except NoPriorError:  # the run that makes the table notes a part without a prior
            if not selection.suite:
                raise


def _score_part(
    context: ScoringContext, benchmark: Benchmark, data: PartData, score: str, request: EvalRequest
) -> None:
    """Score what examples of all parts do not share: galleries, queries, chat and priors."""
    if isinstance(data, Gallery):
        _score_gallery(context, score, data, request)
    elif isinstance(data, EditSet):
        embed_edits(context, score, data)
    elif isinstance(data, ComposedSet):
        embed_composed(context, score, data)
    elif data and is_chat(score):
        _ask_chat(context, score, benchmark, data)
    elif data and score in DEBIASED:
        score_priors(context, build_frame(data), DEBIASED[score], data)


def _score_gallery(
    context: ScoringContext, score: str, data: Gallery, request: EvalRequest
) -> None:
    base = DEBIASED.get(score, score)
    done = score_gallery_share(context, base, data, rerank=request.rerank)
    if not done and context.shard is not None and context.shard.count > 1:
        note = REFRESH_NOTE if context.cache_use == "refresh" else RERANK_NOTE
        context.shard.notes[note] = None
    if score in DEBIASED and not isinstance(context.prior, OtherImages):
        score_gallery_texts(context, base, data)


def _ask_chat(
    context: ScoringContext, score: str, benchmark: Benchmark, data: Sequence[Example]
) -> None:
    chat = find_shape(benchmark.card).chat
    collect_replies(context, find_template(score, tuple(chat.metrics)), data, chat.options)
