"""A model's methods, called and checked: arrays of the right shape, or a clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics import FloatArray, token_sum
from contrapose.models import Answerer, Captioner, Language, Matcher, Model, QuestionTemplate
from contrapose.scoring.lists import Lists

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models import Ragged


class ModelError(InputError):
    """The model gave something that is no answer, or cannot answer at all: the run ends."""


Columns = dict[str, FloatArray | Lists]
"""What is stored of each answer, by name: `value` is the score."""

ROUNDING = 1e-3
"""How far above 0 rounding can leave a log-probability."""


def matches(model: Model, images: Sequence[Image], texts: Sequence[str]) -> Columns:
    """Match logits of the pairs."""
    logits = cast(Matcher, model).match(images, texts)
    return {"value": numbers(logits, (len(texts),), model, "match")}


def likelihoods(model: Model, images: Sequence[Any], texts: Sequence[str]) -> Columns:
    """Mean, sum, number and list of the caption's token log-probabilities."""
    ragged = cast(Captioner, model).token_logprobs(images, texts)
    return _token_columns(ragged, model, texts, "lm")


def blind_likelihoods(model: Model, texts: Sequence[str]) -> Columns:
    """The same of a language model, which sees no image."""
    return _token_columns(cast(Language, model).text_logprobs(texts), model, texts, "blind")


def answer_likelihoods(
    model: Model, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
) -> Columns:
    """Log-probability of the answer to the question about each caption."""
    given = cast(Answerer, model).answer_logprobs(images, texts, question)
    value = numbers(given, (len(texts),), model, "answer_logprobs")
    return {"value": _not_above_zero(value, model, "vqa")}


def _token_columns(ragged: Ragged, model: Model, texts: Sequence[str], score: str) -> Columns:
    offsets = np.asarray(as_array(ragged.offsets), dtype=np.int64)
    if len(offsets) != len(texts) + 1:
        raise ModelError(
            f"{model.name} gave token log-probabilities of {len(offsets) - 1} captions for "
            f"{len(texts)}."
        )
    flat: FloatArray = np.asarray(as_array(ragged.values), dtype=np.float64)
    if np.isnan(flat).any():  # the caller names the caption
        flat = np.where(np.isnan(flat), np.inf, flat)
    flat = _not_above_zero(flat, model, score)
    tokens = np.diff(offsets)
    total = token_sum(flat, offsets)
    return {
        "value": total / tokens,
        "sum": total,
        "tokens": tokens.astype(np.float64),
        "logprobs": Lists(flat.astype(np.float32), offsets),
    }


def _not_above_zero(values: FloatArray, model: Model, score: str) -> FloatArray:
    """Log-probabilities; a loss has the other sign, and is refused."""
    above = values[np.isfinite(values) & (values > ROUNDING)]
    if above.size:
        raise ModelError(
            f"{model.name} gave {above[0]:g} as a log-probability for score {score!r}; it is never "
            "above 0, and a loss has the other sign."
        )
    return np.where(np.isfinite(values), np.minimum(values, 0.0), values)


def unit(vectors: object, count: int, model: Model, *, several: bool = False) -> FloatArray:
    """(n, d) vectors as float32 of length one, whatever rounding the model left.

    Of several vectors each, (n, q, d), every one has length one, and they lie end to end.
    """
    shape = (count, None, None) if several else (count, None)
    array = numbers(vectors, shape, model, "embed")
    length = np.sqrt((array**2).sum(axis=-1, keepdims=True))
    if not np.isfinite(length).all() or not (length > 0).all():
        raise ModelError(
            f"{model.name} gave a vector of NaN, infinity or zeros for score 'itc'; "
            "its weights or its input are broken."
        )
    return np.asarray(array / length, dtype=np.float32).reshape(count, -1)


def numbers(values: object, shape: tuple[int | None, ...], model: Model, method: str) -> FloatArray:
    """What a model's method gave, as float64 of the shape it should have; None is any length."""
    array = as_array(values)
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ModelError(
            f"{model.name}: {method} gave an array of shape {array.shape} for {shape[0]} inputs."
        )
    return np.asarray(array, dtype=np.float64)


def require_numbers(columns: Columns, texts: Sequence[str], model: Model, score: str) -> None:
    """Refuse scores of NaN and infinity, with the caption they are of."""
    values = cast(FloatArray, columns["value"])
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ModelError(
            f"{model.name} gave a score {score!r} that is not a number for the caption "
            f"{texts[int(bad[0])]!r} ({bad.size} of {len(values)} in its batch)."
        )


def as_array(values: Any) -> np.ndarray[Any, Any]:
    """A tensor of any device and type, or anything like an array, as an array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (
            values.float() if values.is_floating_point() and values.element_size() < 4 else values
        )
        return np.asarray(values.numpy())
    return np.asarray(values)
