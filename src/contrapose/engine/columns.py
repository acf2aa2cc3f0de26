"""Stored columns of scores: model calls, and what their output must be.

A call on a GPU gives a function that waits for it, so that the next batch can be handed over first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from contrapose.arrays import Ragged, normalize_rows, to_array
from contrapose.engine.score_types import has_pooling
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, token_sum
from contrapose.models import (
    Answerer,
    Captioner,
    Encoder,
    Language,
    Matcher,
    Model,
    QuestionTemplate,
)


class ModelError(InputError):
    """A model returned invalid output or cannot run at all: the run ends."""


Columns = dict[str, FloatArray | Ragged]
"""Stored columns of scored inputs by name; `value` is the score."""

PendingColumns = Columns | Callable[[], Columns]
"""Columns, or a function that waits for a GPU and gives them."""


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Scored batch: ids, columns of the rows that have scores, and how many rows were tried.

    Attributes:
        images: content ids of images.
        texts: content ids of captions.
        pending: columns, or functions that wait for a GPU and give them.
        tried: rows that were tried.
    """

    images: list[str]
    texts: list[str]
    pending: list[PendingColumns]
    tried: int

    @property
    def waits(self) -> bool:
        """Whether a GPU may still be computing some of the columns."""
        return any(map(callable, self.pending))

    def columns(self) -> list[Columns]:
        """Wait for the columns.

        Raises:
            InputError: the model's output is invalid.
        """
        return [some() if callable(some) else some for some in self.pending]


LOGPROB_TOLERANCE = 1e-3
"""Rounding error above 0 that is tolerated in a log-probability."""


def compute_image_vectors(
    model: Model, images: Sequence[Any], _texts: Sequence[str]
) -> PendingColumns:
    """Compute unit vectors of images; several vectors of an image lie end to end."""
    output = cast(Encoder, model).embed_images(images)
    count, several = len(images), has_pooling(model)

    def convert(vectors: object) -> Columns:
        return {"vector": normalize_vectors(vectors, count, model, several=several)}

    return _defer(output, convert)


def compute_text_vectors(
    model: Model, _images: Sequence[Any], texts: Sequence[str]
) -> PendingColumns:
    """Compute unit vectors of captions."""
    output = cast(Encoder, model).embed_texts(texts)
    return _defer(output, lambda vectors: {"vector": normalize_vectors(vectors, len(texts), model)})


def compute_match_logits(
    model: Model, images: Sequence[Any], texts: Sequence[str]
) -> PendingColumns:
    """Compute the match logits of pairs."""
    output = cast(Matcher, model).match(images, texts)
    return _defer(
        output, lambda logits: {"value": check_shape(logits, (len(texts),), model, "match")}
    )


def _defer(output: Any, convert: Callable[[object], Columns]) -> PendingColumns:
    """Convert a model's output at once, or later where a GPU may still be computing it.

    Its copy is queued here, behind the computation and before that of the next batch.
    """
    if not getattr(output, "is_cuda", False):
        return convert(output)
    import torch

    copy = output.detach().to("cpu", non_blocking=True)
    done: Any = cast(Any, torch.cuda).Event()
    done.record(torch.cuda.current_stream(output.device))

    def wait() -> Columns:
        done.synchronize()
        return convert(copy)

    return wait


def compute_likelihoods(model: Model, images: Sequence[Any], texts: Sequence[str]) -> Columns:
    """Compute mean, sum, count and list of each caption's token log-probabilities."""
    ragged = cast(Captioner, model).token_logprobs(images, texts)
    return _build_token_columns(ragged, model, texts, "lm")


def compute_blind_likelihoods(
    model: Model, _images: Sequence[Any], texts: Sequence[str]
) -> Columns:
    """Compute the token log-probabilities of a language model, which sees no image."""
    return _build_token_columns(cast(Language, model).text_logprobs(texts), model, texts, "blind")


def compute_answer_likelihoods(
    model: Model, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
) -> Columns:
    """Compute the log-probability of the answer to the question about each caption."""
    logprobs = cast(Answerer, model).answer_logprobs(images, texts, question)
    value = check_shape(logprobs, (len(texts),), model, "answer_logprobs")
    return {"value": _clip_logprobs(value, model, "vqa")}


def _build_token_columns(ragged: Ragged, model: Model, texts: Sequence[str], score: str) -> Columns:
    offsets = np.asarray(to_array(ragged.offsets), dtype=np.int64)
    if len(offsets) != len(texts) + 1:
        raise ModelError(
            f"{model.name} gave token log-probabilities of {len(offsets) - 1} captions for "
            f"{len(texts)}."
        )
    flat: FloatArray = np.asarray(to_array(ragged.values), dtype=np.float64)
    if np.isnan(flat).any():  # the caller names the caption
        flat = np.where(np.isnan(flat), np.inf, flat)
    flat = _clip_logprobs(flat, model, score)
    tokens = np.diff(offsets)
    total = token_sum(flat, offsets)
    return {
        "value": total / tokens,
        "sum": total,
        "tokens": tokens.astype(np.float64),
        "logprobs": Ragged(flat.astype(np.float32), offsets),
    }


def _clip_logprobs(values: FloatArray, model: Model, score: str) -> FloatArray:
    """Clip rounding above 0 in log-probabilities; refuse larger values, which are losses."""
    above = values[np.isfinite(values) & (values > LOGPROB_TOLERANCE)]
    if above.size:
        raise ModelError(
            f"{model.name} gave {above[0]:g} as a log-probability for score {score!r}; it is never "
            "above 0, and a loss has the other sign."
        )
    return np.where(np.isfinite(values), np.minimum(values, 0.0), values)


def normalize_vectors(
    vectors: object, count: int, model: Model, *, several: bool = False
) -> FloatArray:
    """Normalize (n, d) vectors to unit length, as float32.

    Of several vectors per input, (n, q, d), each has unit length, and they lie end to end.
    """
    shape = (count, None, None) if several else (count, None)
    array = check_shape(vectors, shape, model, "embed")
    length = np.sqrt((array**2).sum(axis=-1))
    if not np.isfinite(length).all() or not (length > 0).all():
        raise ModelError(
            f"{model.name} gave a vector of NaN, infinity or zeros for score 'itc'; "
            "its weights or its input are broken."
        )
    return normalize_rows(array).reshape(count, -1)


def check_shape(
    values: object, shape: tuple[int | None, ...], model: Model, method: str
) -> FloatArray:
    """Convert a model's output to float64 and check its shape; None is any length."""
    array = to_array(values)
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ModelError(
            f"{model.name}: {method} gave an array of shape {array.shape} for {shape[0]} inputs."
        )
    return np.asarray(array, dtype=np.float64)


def require_finite(columns: Columns, texts: Sequence[str], model: Model, score: str) -> None:
    """Refuse NaN and infinite scores, naming the caption; vectors and replies have none."""
    if "value" not in columns:
        return
    values = cast(FloatArray, columns["value"])
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ModelError(
            f"{model.name} gave a score {score!r} that is not a number for the caption "
            f"{texts[int(bad[0])]!r} ({bad.size} of {len(values)} in its batch)."
        )
