"""Score requests of each score: which images and captions, which table, which model call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine.columns import (
    compute_answer_likelihoods,
    compute_blind_likelihoods,
    compute_image_vectors,
    compute_likelihoods,
    compute_match_logits,
    compute_text_vectors,
)
from contrapose.engine.context import NO_ID, ModelCall, ScoreRequest, ScoringContext
from contrapose.engine.images import EncodedImageCache
from contrapose.engine.plan import ScoringPlan, compute_caption_ids, text_only_pairs
from contrapose.engine.score_types import LIKELIHOOD_SCORES
from contrapose.metrics import IntArray


def build_caption_request(context: ScoringContext, texts: Sequence[str]) -> ScoreRequest:
    """Build the request for the vectors of distinct captions."""
    return ScoreRequest(
        context, "itc", "itc: captions", context.table("itc", ":text"),
        (), NO_ID, texts, compute_caption_ids(context, texts), text_only_pairs(len(texts)),
        partial(compute_text_vectors, context.model),
    )  # fmt: skip


def build_image_request(
    context: ScoringContext, refs: Sequence[ImageRef], ids: Sequence[str]
) -> ScoreRequest:
    """Build the request for the vectors of distinct images."""
    return ScoreRequest(
        context, "itc", "itc: images", context.table("itc", ":image"),
        refs, ids, NO_ID, NO_ID, text_only_pairs(len(ids))[:, ::-1],
        partial(compute_image_vectors, context.model),
    )  # fmt: skip


def build_blind_request(context: ScoringContext, texts: Sequence[str]) -> ScoreRequest:
    """Build the request for a language model's caption scores."""
    return ScoreRequest(
        context, "blind", "blind: captions", context.table("blind"),
        (), NO_ID, texts, compute_caption_ids(context, texts), text_only_pairs(len(texts)),
        partial(compute_blind_likelihoods, context.model),
    )  # fmt: skip


def build_pair_request(context: ScoringContext, score: str, plan: ScoringPlan) -> ScoreRequest:
    """Build the request for the pairs of a plan, `itm`, `lm` or `vqa`."""
    return ScoreRequest(
        context, score, f"{score}: pairs", context.table(score),
        plan.images, plan.image_ids, plan.texts,
        compute_caption_ids(context, plan.texts, plan.text_ids), plan.pairs,
        build_pair_call(context, score), encoded=build_image_encoder(context, score, plan.pairs),
    )  # fmt: skip


def build_pair_call(context: ScoringContext, score: str) -> ModelCall:
    """Build the model call for a score of pairs."""
    if score == "vqa":
        return partial(compute_answer_likelihoods, context.model, question=context.question)
    return partial(compute_likelihoods if score == "lm" else compute_match_logits, context.model)


def build_image_encoder(
    context: ScoringContext, score: str, pairs: IntArray
) -> EncodedImageCache | None:
    """Build a cache of encoded images where the captions of an image fill more than a batch."""
    if score not in LIKELIHOOD_SCORES:
        return None
    many = len(pairs) > len(np.unique(pairs[:, 0])) * context.initial_batch_size
    return EncodedImageCache(context.model) if many else None
