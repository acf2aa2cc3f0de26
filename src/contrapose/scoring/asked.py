"""A model's answers in the shape of the data: examples, galleries, edit queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.data import EditSet, Example, Gallery
from contrapose.errors import InputError
from contrapose.metrics import FloatArray
from contrapose.scoring.answers import Answers, Frame, frame_of
from contrapose.scoring.ask import (
    Asking,
    image_vectors,
    pair_values,
    prior_values,
    text_vectors,
)
from contrapose.scoring.plan import distinct_images, distinct_texts, plan_examples, plan_grid
from contrapose.scoring.scores import require_score


def ask_examples(asking: Asking, score: str, examples: Sequence[Example]) -> Answers:
    """The score of every pair of every example; each distinct pair is asked once.

    Raises:
        InputError: the model cannot give the score, or gives something that is no number.
    """
    require_score(asking.model, score)
    frame = frame_of(examples)
    plan = plan_examples(examples)
    values = pair_values(asking, score, plan)
    return Answers(frame, np.where(plan.places >= 0, values[plan.places], np.nan))


def ask_ahead(asking: Asking, score: str, examples: Sequence[Example]) -> None:
    """Ask about examples of several benchmarks in one go, so that reading them then asks nothing.

    One long piece of work fills its batches better than many short ones, and its time left can be
    told.
    """
    require_score(asking.model, score)
    if examples:
        pair_values(asking, score, plan_examples(examples))


def ask_prior(asking: Asking, frame: Frame) -> FloatArray:
    """The log prior of each example's captions, k × n, NaN where there is none."""
    require_score(asking.model, "prior")
    if frame.texts is None:
        raise InputError("the prior needs the captions themselves.")
    captions, at = distinct_texts([text for texts in frame.texts for text in texts])
    flat = prior_values(asking, captions)[at]
    prior = np.full((len(frame), frame.match.shape[2]), np.nan)
    start = 0
    for k, texts in enumerate(frame.texts):
        prior[k, : len(texts)] = flat[start : start + len(texts)]
        start += len(texts)
    return prior


def ask_gallery(asking: Asking, score: str, gallery: Gallery) -> FloatArray:
    """Images × texts. Class names stand in every template, whose vectors or scores are averaged."""
    require_score(asking.model, score)
    templates = gallery.templates or ("{}",)
    texts = [template.replace("{}", text) for text in gallery.texts for template in templates]
    if score != "itc":
        plan = plan_grid(gallery.images, texts)
        values = pair_values(asking, score, plan)[plan.places]
        return np.asarray(values.reshape(len(values), -1, len(templates)).mean(axis=2))
    refs, ids, image_at = distinct_images(gallery.images)
    captions, text_at = distinct_texts(texts)
    images, words = image_vectors(asking, refs, ids), text_vectors(asking, captions)[text_at]
    ensembles = _unit(words.reshape(-1, len(templates), words.shape[1]).mean(axis=1))
    return np.asarray(images[image_at] @ ensembles.T)


def ask_edits(asking: Asking, score: str, edits: EditSet) -> FloatArray:
    """Queries × database: cosine of E(image) + E(target) − E(source) with every image.

    Raises:
        InputError: the score is not `itc`; the others have no vectors to add.
    """
    require_score(asking.model, score)
    if score != "itc":
        raise InputError(f"edit queries need vectors: score itc, not {score}.")
    refs, ids, image_at = distinct_images(edits.images)
    words = [word for query in edits.queries for word in (query.source, query.target)]
    captions, text_at = distinct_texts(words)
    images = image_vectors(asking, refs, ids)[image_at]
    source, target = (
        text_vectors(asking, captions)[text_at]
        .reshape(len(edits.queries), 2, -1)
        .transpose(1, 0, 2)
    )
    start = images[[query.image for query in edits.queries]]
    return np.asarray(_unit(start + (target - source)) @ images.T)


def _unit(vectors: FloatArray) -> FloatArray:
    length = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)
