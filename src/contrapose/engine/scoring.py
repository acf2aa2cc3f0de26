"""Scores of distinct images, captions and pairs: from the store, and computed where missing.

A batch's composition never decides a score: each image is embedded by itself, each pair scored by
itself, and captions of like length are batched together only to save padding. Token counts are kept
in the store too. A caption that is truncated gets another content id: its score is never taken for
one of the full caption.

Token counts are kept in the store beside the answers, so that a second run need not tokenise. A
caption that is cut gets another content id: its answer is never taken for one of the whole caption.

A batch's composition never decides an answer: each image is embedded by itself, each pair scored
by itself, and captions of like length stand together only to save padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from contrapose.data import ImageRef, text_id
from contrapose.engine.batches import PendingRequest, run_requests, sort_pairs
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.images import EncodedImageCache
from contrapose.engine.plan import ScoringPlan, compute_text_ids
from contrapose.engine.score_types import (
    LIKELIHOOD_SCORES,
    Columns,
    compute_answer_likelihoods,
    compute_blind_likelihoods,
    compute_likelihoods,
    compute_match_logits,
    has_pooling,
    normalize_vectors,
    require_finite,
)
from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.models import Encoder, TokenCounter
from contrapose.models.masking.text import full_caption
from contrapose.scores.skips import Skip

TOKEN_COUNTS = "tokens"  # noqa: S105 - a name in the store
"""The shelf of token counts."""

CAPTIONS_PER_COUNT = 4096


def count_tokens(asking: ScoringContext, texts: Sequence[str]) -> IntArray:
    """Count the tokens of each caption, or words where the model does not count tokens."""
    model = asking.model
    if not isinstance(model, TokenCounter):
        return np.array([len(text.split()) for text in texts], dtype=np.int64)
    shelf = asking.store.answer_table(model.fingerprint, TOKEN_COUNTS)
    ids, pairs = [text_id(text) for text in texts], text_only_pairs(len(texts))
    missing = np.flatnonzero(shelf.find(("",), ids, pairs) < 0).tolist()
    counts: list[int] = []
    for start in range(0, len(missing), CAPTIONS_PER_COUNT):
        # Blank captions are refused elsewhere, and not every tokeniser takes them.
        some = [
            texts[i] if texts[i].strip() else "."
            for i in missing[start : start + CAPTIONS_PER_COUNT]
        ]
        counts += map(int, model.token_counts(some))
    if missing:
        shelf.add(
            [""] * len(missing), [ids[i] for i in missing], {"value": np.array(counts, np.float64)}
        )
    return shelf.values(shelf.find(("",), ids, pairs)).astype(np.int64)


def find_truncated(asking: ScoringContext, texts: Sequence[str]) -> list[int]:
    """Find the captions that the model truncates."""
    model = asking.model
    if not isinstance(model, TokenCounter) or not model.cuts:
        return []
    return np.flatnonzero(count_tokens(asking, texts) > model.context).tolist()


def truncation_notes(asking: ScoringContext, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a note on truncated captions for the results; each distinct caption counts once."""
    model = asking.model
    if not isinstance(model, TokenCounter) or not model.cuts:
        return ()
    distinct = list(dict.fromkeys(texts))
    cut = len(find_truncated(asking, distinct))
    if not cut:
        return ()
    were = "were" if cut > 1 else "was"
    return (f"{cut:,} of {len(distinct):,} captions {were} cut to {model.context} tokens",)


def compute_caption_ids(
    asking: ScoringContext, texts: Sequence[str], ids: Sequence[str]
) -> Sequence[str]:
    """Compute the captions' ids in the store; truncated captions have ids of their own."""
    cut = find_truncated(asking, texts)
    if not cut or not isinstance(asking.model, TokenCounter):
        return ids
    named = list(ids)
    for i in cut:
        named[i] = text_id(f"{texts[i]}\0cut to {asking.model.context}")
    return named


def find_unreadable_captions(
    asking: ScoringContext, texts: Sequence[str], lengths: IntArray
) -> dict[int, Skip]:
    """Find captions that cannot be scored: empty, or too long and not to be truncated."""
    found = {
        i: Skip("the caption is empty", "a caption is empty")
        for i, text in enumerate(texts)
        if not text.strip()
    }
    model = asking.model
    if isinstance(model, TokenCounter) and not model.cuts:
        for i in np.flatnonzero(lengths > model.context).tolist():
            found.setdefault(
                i,
                Skip(
                    "the caption is longer than the model reads",
                    f"the caption {full_caption(texts[i])[:40]!r}… has {lengths[i]:,} tokens; "
                    f"{model.name} reads {model.context} (--long cut cuts it)",
                ),
            )
    return found


def text_only_pairs(count: int) -> IntArray:
    """Build the pairs of position 0 with each of so many captions."""
    return np.stack([np.zeros(count, dtype=np.int64), np.arange(count)], axis=1)


NO_ID = ("",)
"""In place of images, or of captions, where an answer needs none."""


def embed_distinct(
    asking: ScoringContext, refs: Sequence[ImageRef], ids: Sequence[str], texts: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Embed distinct images and captions as (n, d) unit vectors; NaN for skipped ones.

    Where an image has several they lie end to end, (n, q · d). Captions are asked first: meanwhile
    images are decoded.
    """
    encoder, several = cast(Encoder, asking.model), has_pooling(asking.model)

    def embed_images(images: list[Any], texts: list[str]) -> Columns:
        found = encoder.embed_images(images)
        return {"vector": normalize_vectors(found, len(images), encoder, several=several)}

    def embed_texts(images: list[Any], texts: list[str]) -> Columns:
        return {"vector": normalize_vectors(encoder.embed_texts(texts), len(texts), encoder)}

    read = ScoreRequest(
        asking, "itc", "itc: captions", asking.answer_table("itc", ":text"),
        (), NO_ID, texts, compute_caption_ids(asking, texts, compute_text_ids(texts)),
        text_only_pairs(len(texts)), embed_texts,
    )  # fmt: skip
    seen = ScoreRequest(
        asking, "itc", "itc: images", asking.answer_table("itc", ":image"),
        refs, ids, NO_ID, NO_ID, text_only_pairs(len(ids))[:, ::-1], embed_images,
    )  # fmt: skip
    text_rows, image_rows = score_missing(read, seen)
    return seen.answer_table.values(image_rows, "vector"), read.answer_table.values(
        text_rows, "vector"
    )


def score_blind(asking: ScoringContext, texts: Sequence[str]) -> FloatArray:
    """Compute (n,) mean log P of distinct captions by a language model without images."""
    question = build_blind_request(asking, texts)
    (rows,) = score_missing(question)
    return question.answer_table.values(rows)


def build_blind_request(asking: ScoringContext, texts: Sequence[str]) -> ScoreRequest:
    """Build the request for a language model's caption scores."""

    def read(images: list[Any], texts: list[str]) -> Columns:
        columns = compute_blind_likelihoods(asking.model, texts)
        require_finite(columns, texts, asking.model, "blind")
        return columns

    return ScoreRequest(
        asking, "blind", "blind: captions", asking.answer_table("blind"),
        (), NO_ID, texts, compute_caption_ids(asking, texts, compute_text_ids(texts)),
        text_only_pairs(len(texts)), read,
    )  # fmt: skip


def build_pair_request(asking: ScoringContext, score: str, plan: ScoringPlan) -> ScoreRequest:
    """Build the request for the pairs of a plan, `itm`, `lm` or `vqa`."""
    return ScoreRequest(
        asking, score, f"{score}: pairs", asking.answer_table(score),
        plan.images, plan.image_ids, plan.texts,
        compute_caption_ids(asking, plan.texts, plan.text_ids), plan.pairs,
        build_pair_call(asking, score, plan.pairs),
    )  # fmt: skip


def build_pair_call(
    asking: ScoringContext, score: str, pairs: IntArray, *, named: str = ""
) -> Callable[[list[Any], list[str]], Columns]:
    """Build the model call for a score of pairs; errors may name it differently.

    Where the captions of an image fill more than a batch, it is looked at once for all of them.
    """
    model = asking.model
    images = len(np.unique(pairs[:, 0]))
    look = (
        EncodedImageCache(model)
        if score in LIKELIHOOD_SCORES and len(pairs) > images * asking.size
        else None
    )

    def scored(pictures: list[Any], texts: list[str]) -> Columns:
        sights = pictures if look is None else look(pictures)
        if score == "vqa":
            columns = compute_answer_likelihoods(model, sights, texts, asking.question)
        elif score == "lm":
            columns = compute_likelihoods(model, sights, texts)
        else:
            columns = compute_match_logits(model, pictures, texts)
        require_finite(columns, texts, model, named or score)
        return columns

    return scored


def score_missing(*questions: ScoreRequest) -> list[IntArray]:
    """Score what is missing; return each pair's row in the table, −1 for no score."""
    rows = [question.rows() for question in questions]
    jobs = [
        _pending_request(question, found < 0)
        for question, found in zip(questions, rows, strict=True)
    ]
    waiting = [job for job in jobs if job.missing.any()]
    if waiting:
        run_requests(questions[0].asking, waiting)
    return [
        job.question.rows() if job.missing.any() else found
        for job, found in zip(jobs, rows, strict=True)
    ]


def _pending_request(question: ScoreRequest, missing: BoolArray) -> PendingRequest:
    """Find what is missing of a request, and the order to score it in."""
    asking, pairs = question.asking, question.pairs
    if not missing.any():
        return PendingRequest(question, np.zeros(0, dtype=np.int64), missing)
    lengths: IntArray = np.zeros(1, dtype=np.int64)
    if question.text_ids is not NO_ID:
        lengths = count_tokens(asking, question.texts)
        for j, skip in find_unreadable_captions(asking, question.texts, lengths).items():
            asking.skips.texts[question.score, question.text_ids[j]] = skip
    askable = _is_scorable(question, missing)
    order = sort_pairs(pairs, lengths)
    missing &= askable
    if missing.any() and asking.cache_use == "only":
        raise InputError(
            f"{int(missing.sum()):,} of {len(pairs):,} answers of {asking.model.name} "
            f"({question.what}) are not in the cache; "
            f"leave out {option('cache_use', 'only')} to ask for them."
        )
    return PendingRequest(question, order[askable[order]], missing)


def _is_scorable(question: ScoreRequest, missing: BoolArray) -> BoolArray:
    """Return for each pair whether it is not known to be skipped."""
    skips = question.asking.skips
    images = np.array([name not in skips.images for name in question.image_ids], dtype=np.bool_)
    texts = np.array(
        [(question.score, name) not in skips.texts for name in question.text_ids], dtype=np.bool_
    )
    askable = images[question.pairs[:, 0]] & texts[question.pairs[:, 1]]
    if skips.pairs:
        for p in np.flatnonzero(missing).tolist():
            i, j = question.pairs[p].tolist()
            named = question.score, question.image_ids[i], question.text_ids[j]
            askable[p] &= named not in skips.pairs
    return np.asarray(askable)
