"""Oracle of edit queries: a matcher's probability that an image fits a caption.

A model judges by its match probability (`itm`), else by the probability of a yes (`vqa`), else by
the softmax of its cosines over the captions of the benchmark (`itc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.data import EditSet, Gallery
from contrapose.data.benchmarks.simat import add_oracle_file
from contrapose.engine import REQUIRED_CAPABILITY, ScoringContext, score_gallery
from contrapose.errors import InputError, option
from contrapose.evaluation.selection import Selection
from contrapose.files import local_path
from contrapose.models import Model

ORACLE_SUFFIX = ".npy"
"""Suffix of a file of probabilities."""

TEMPERATURE = 0.01
"""Temperature of the softmax over captions, that of CLIP."""


def add_oracle(selection: Selection, judge: str | Model, context: ScoringContext) -> Selection:
    """Selection whose edit queries are judged by a model or a file of probabilities.

    Args:
        selection: a benchmark with edit queries.
        judge: a model, or the name of a `.npy` file: images × captions.
        context: store and options of scoring; its model is not asked.

    Raises:
        InputError: there are no edit queries, the file does not fit, or the model gives no score of
            an image with a caption.
    """
    if not any(isinstance(data, EditSet) for _, data in selection.parts.values()):
        raise InputError(
            f"{option('oracle')} judges edit queries, and {selection.name} has none; leave it out."
        )
    parts: dict[str, Any] = dict(selection.parts)
    for name, (benchmark, data) in selection.parts.items():
        if not isinstance(data, EditSet):
            continue
        if isinstance(judge, str):
            parts[name] = benchmark, add_oracle_file(data, local_path(judge))
        else:
            asked = sorted({query.target_caption for query in data.queries})
            parts[name] = benchmark, judge_edits(data, _context_of(judge, context), asked)
    return replace(selection, parts=parts)


def _context_of(judge: Model, context: ScoringContext) -> ScoringContext:
    """Context of the oracle, with nothing skipped yet."""
    return ScoringContext(
        judge,
        context.store,
        question=context.question,
        progress=context.progress,
        images=context.images,
        cache_use=context.cache_use,
        executor=context.executor,
    )


def judge_edits(data: EditSet, context: ScoringContext, captions: Sequence[int]) -> EditSet:
    """Edit set with the probabilities of a model for some captions, by their positions.

    NaN, which fits nothing, where it has none.

    Raises:
        InputError: the model gives no score of an image with a caption.
    """
    model = context.model
    known = ("itm", "vqa", "itc")
    score = next((one for one in known if isinstance(model, REQUIRED_CAPABILITY[one])), None)
    if score is None:
        raise InputError(f"{model.name} cannot be the oracle: it gives none of {', '.join(known)}.")
    # The softmax of itc is over all captions.
    asked = list(range(len(data.captions))) if score == "itc" else list(captions)
    gallery = Gallery("oracle", data.images, tuple(data.captions[i] for i in asked), pairs=())
    scores = np.full((len(data.images), len(data.captions)), np.nan)
    scores[:, asked] = score_gallery(context, score, gallery, rerank=0).scores
    words = {
        "itm": "match probability (itm)",
        "vqa": "probability of a yes (vqa)",
        "itc": "softmax of its cosines over all captions, τ = 0.01 (itc)",
    }
    return replace(
        data,
        oracle=_probabilities(score, scores),
        judge=f"{model.name}: its {words[score]} must be above ½",
    )


def _probabilities(score: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    if score == "vqa":
        return np.asarray(np.exp(scores))
    if score == "itm":
        return np.asarray(1 / (1 + np.exp(-np.clip(scores, -700, 700))))
    logits = scores / TEMPERATURE
    shares = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
