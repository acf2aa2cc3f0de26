"""Asking a model: what the store does not know yet, in batches, kept as it comes in.

A batch's composition never decides an answer: each image is embedded by itself, each pair scored
by itself, and captions of like length stand together only to save padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from contrapose.data import ImageRef
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.models import Encoder
from contrapose.scoring.asking import Asking
from contrapose.scoring.batches import order_of
from contrapose.scoring.calls import (
    Columns,
    answer_likelihoods,
    blind_likelihoods,
    likelihoods,
    matches,
    require_numbers,
    unit,
)
from contrapose.scoring.lengths import caption_ids, lengths_of, only_texts, unread
from contrapose.scoring.looking import Looking
from contrapose.scoring.plan import Plan, text_ids_of
from contrapose.scoring.question import Question
from contrapose.scoring.scores import LIKELIHOODS, pools
from contrapose.scoring.together import Job, ask_together

NO_ID = ("",)
"""In place of images, or of captions, where an answer needs none."""


def vectors(
    asking: Asking, refs: Sequence[ImageRef], ids: Sequence[str], texts: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """(n, d) unit vectors of distinct images and captions; NaN for what cannot be seen or read.

    Where an image has several they lie end to end, (n, q · d). Captions are asked first: meanwhile
    images are decoded.
    """
    encoder, several = cast(Encoder, asking.model), pools(asking.model)

    def embed_images(images: list[Any], texts: list[str]) -> Columns:
        found = encoder.embed_images(images)
        return {"vector": unit(found, len(images), encoder, several=several)}

    def embed_texts(images: list[Any], texts: list[str]) -> Columns:
        return {"vector": unit(encoder.embed_texts(texts), len(texts), encoder)}

    read = Question(
        asking, "itc", "itc: captions", asking.shelf("itc", ":text"),
        (), NO_ID, texts, caption_ids(asking, texts, text_ids_of(texts)),
        only_texts(len(texts)), embed_texts,
    )  # fmt: skip
    seen = Question(
        asking, "itc", "itc: images", asking.shelf("itc", ":image"),
        refs, ids, NO_ID, NO_ID, only_texts(len(ids))[:, ::-1], embed_images,
    )  # fmt: skip
    text_rows, image_rows = asked(read, seen)
    return seen.shelf.values(image_rows, "vector"), read.shelf.values(text_rows, "vector")


def blind_values(asking: Asking, texts: Sequence[str]) -> FloatArray:
    """(n,) mean log P of distinct captions, which a language model reads without any image."""
    question = blind_question(asking, texts)
    (rows,) = asked(question)
    return question.shelf.values(rows)


def blind_question(asking: Asking, texts: Sequence[str]) -> Question:
    """What a language model is asked about captions."""

    def read(images: list[Any], texts: list[str]) -> Columns:
        columns = blind_likelihoods(asking.model, texts)
        require_numbers(columns, texts, asking.model, "blind")
        return columns

    return Question(
        asking, "blind", "blind: captions", asking.shelf("blind"),
        (), NO_ID, texts, caption_ids(asking, texts, text_ids_of(texts)),
        only_texts(len(texts)), read,
    )  # fmt: skip


def pair_question(asking: Asking, score: str, plan: Plan) -> Question:
    """What is asked about the pairs of a plan, `itm`, `lm` or `vqa`."""
    return Question(
        asking, score, f"{score}: pairs", asking.shelf(score),
        plan.images, plan.image_ids, plan.texts,
        caption_ids(asking, plan.texts, plan.text_ids), plan.pairs,
        pair_call(asking, score, plan.pairs),
    )  # fmt: skip


def pair_call(
    asking: Asking, score: str, pairs: IntArray, *, named: str = ""
) -> Callable[[list[Any], list[str]], Columns]:
    """How the model is called for a score of pairs, which errors may call by another name.

    Where the captions of an image fill more than a batch, it is looked at once for all of them.
    """
    model = asking.model
    images = len(np.unique(pairs[:, 0]))
    look = Looking(model) if score in LIKELIHOODS and len(pairs) > images * asking.size else None

    def scored(pictures: list[Any], texts: list[str]) -> Columns:
        sights = pictures if look is None else look(pictures)
        if score == "vqa":
            columns = answer_likelihoods(model, sights, texts, asking.question)
        elif score == "lm":
            columns = likelihoods(model, sights, texts)
        else:
            columns = matches(model, pictures, texts)
        require_numbers(columns, texts, model, named or score)
        return columns

    return scored


def asked(*questions: Question) -> list[IntArray]:
    """Ask what is missing; for each question and pair its row on the shelf, −1 for no answer."""
    rows = [question.rows() for question in questions]
    jobs = [_job(question, found < 0) for question, found in zip(questions, rows, strict=True)]
    waiting = [job for job in jobs if job.missing.any()]
    if waiting:
        ask_together(questions[0].asking, waiting)
    return [
        job.question.rows() if job.missing.any() else found
        for job, found in zip(jobs, rows, strict=True)
    ]


def _job(question: Question, missing: BoolArray) -> Job:
    """What is asked of a question, and in which order."""
    asking, pairs = question.asking, question.pairs
    if not missing.any():
        return Job(question, np.zeros(0, dtype=np.int64), missing)
    lengths: IntArray = np.zeros(1, dtype=np.int64)
    if question.text_ids is not NO_ID:
        lengths = lengths_of(asking, question.texts)
        for j, skip in unread(asking, question.texts, lengths).items():
            asking.skips.texts[question.score, question.text_ids[j]] = skip
    askable = _askable(question, missing)
    order = order_of(pairs, lengths)
    missing &= askable
    if missing.any() and asking.policy == "none":
        raise InputError(
            f"{int(missing.sum()):,} of {len(pairs):,} answers of {asking.model.name} "
            f"({question.what}) are not in the cache; leave out --ask none to ask for them."
        )
    return Job(question, order[askable[order]], missing)


def _askable(question: Question, missing: BoolArray) -> BoolArray:
    """For each pair whether nothing is known against it."""
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
