"""Checks of a model's identity, and of the shape and range of its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from contrapose.models.capabilities import ModelCard
from contrapose.models.conformance.check import (
    CAPTIONS,
    LOGPROB_METHODS,
    NEEDS_NUMBERS,
    QUESTION,
    SCORE_METHODS,
    SHARED_METHODS,
    Check,
    ConformanceError,
    Subject,
    needs_any,
    sample_images,
    to_array,
)
from contrapose.models.options import DTYPES


def _check_text(subject: Subject, attribute: str) -> None:
    value = getattr(subject.model, attribute, None)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise ConformanceError(f"{attribute} is {value!r}")


def _check_batch_size(subject: Subject) -> None:
    value = getattr(subject.model, "batch_size", None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConformanceError(f"batch_size is {value!r}")


def _check_capability(subject: Subject) -> None:
    """Check for at least one complete capability and no partial one."""
    complete = False
    for score, needed in SCORE_METHODS.items():
        there = [name for name in needed if hasattr(subject.model, name)]
        missing = [name for name in needed if name not in there]
        if missing and any(name not in SHARED_METHODS for name in there):
            raise ConformanceError(
                f"it has {there[0]} and no {missing[0]}, which {score} needs too"
            )
        complete = complete or not missing
    if not complete:
        methods = "; ".join(", ".join(needed) for needed in SCORE_METHODS.values())
        raise ConformanceError(f"it has none of: {methods}")


def _check_card(subject: Subject) -> None:
    card = subject.model.card
    if not isinstance(card, ModelCard):
        raise ConformanceError(f"card is a {type(card).__name__}")
    if card.dtype not in DTYPES:
        raise ConformanceError(f"its dtype is {card.dtype!r}, none of {', '.join(DTYPES)}")
    context = getattr(subject.model, "context", card.context)
    if card.context != context:
        raise ConformanceError(f"its context is {card.context}, and the model's is {context}")


def _check_evaluation_mode(subject: Subject) -> None:
    for name, module in _iterate_modules(subject.model):
        if module.training:
            raise ConformanceError(f"{name} is in training mode; call its eval()")


def _iterate_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over the torch modules that a model is or holds."""
    held = {"the model": model, **getattr(model, "__dict__", {})}
    for name, value in held.items():
        if hasattr(value, "modules") and hasattr(value, "training"):
            yield name, value


def _check_fingerprint(subject: Subject) -> None:
    assert subject.load is not None  # noqa: S101 - the check's condition
    first, again = subject.model.fingerprint, subject.load().fingerprint
    if first != again:
        raise ConformanceError(f"it is {first!r} and, loaded again, {again!r}")


IDENTITY_CHECKS = (
    Check(
        "name",
        "Its name is one line of text.",
        lambda subject: _check_text(subject, "name"),
        depends=False,
    ),
    Check(
        "fingerprint",
        "Its fingerprint is one line of text.",
        lambda subject: _check_text(subject, "fingerprint"),
        depends=False,
    ),
    Check(
        "fingerprint-stable",
        "Loaded twice, it has the same fingerprint.",
        _check_fingerprint,
        lambda subject: "" if subject.load else "no way to load it anew was given",
        depends=False,
    ),
    Check(
        "batch-size",
        "Its batch size is a whole number of at least 1.",
        _check_batch_size,
        depends=False,
    ),
    Check(
        "capability",
        "It can do at least one thing, and nothing by halves.",
        _check_capability,
        base=True,
        depends=False,
    ),
    Check(
        "card",
        "Its card is a ModelCard that agrees with the model.",
        _check_card,
        needs_any("card"),
        depends=False,
    ),
    Check(
        "counted-tokens",
        "It says which tokens its log-probabilities are of.",
        lambda subject: _check_text(subject, "lm_tokens"),
        needs_any("lm_tokens"),
        depends=False,
    ),
    Check(
        "evaluation-mode",
        "The torch modules it holds are in evaluation mode.",
        _check_evaluation_mode,
        lambda subject: "" if any(_iterate_modules(subject.model)) else "it holds no torch module",
        depends=False,
    ),
)  # fmt: skip


UNIT_TOLERANCE = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 2e-2}
"""Largest deviation of a vector's length from 1; the engine normalizes it again."""


def _check_image_vectors(subject: Subject) -> None:
    """Check for one vector per image, or several where the model states a pooling."""
    several = getattr(subject.model, "pool", None) is not None
    for count in (1, len(CAPTIONS)):
        shape = to_array(subject.model.embed_images(sample_images(count))).shape
        wanted = f"({count}, q, d)" if several else f"({count}, d)"
        _require_vectors("embed_images", shape, count, 3 if several else 2, wanted)


def _check_text_vectors(subject: Subject) -> None:
    for count in (1, len(CAPTIONS)):
        shape = to_array(subject.model.embed_texts(CAPTIONS[:count])).shape
        _require_vectors("embed_texts", shape, count, 2, f"({count}, d)")
    if hasattr(subject.model, "embed_images"):
        width = to_array(subject.model.embed_images(sample_images(1))).shape[-1]
        if width != shape[1]:
            raise ConformanceError(f"captions get vectors of {shape[1]} numbers, images of {width}")


def _require_vectors(
    method: str, shape: tuple[int, ...], count: int, dimensions: int, wanted: str
) -> None:
    if len(shape) != dimensions or shape[0] != count or not all(shape):
        raise ConformanceError(f"{method} gave an array of shape {shape} for {count}, not {wanted}")


def _check_logits(subject: Subject) -> None:
    for count in (1, len(CAPTIONS)):
        shape = to_array(subject.model.match(sample_images(count), CAPTIONS[:count])).shape
        if shape != (count,):
            raise ConformanceError(
                f"match gave an array of shape {shape} for {count} pairs, not ({count},)"
            )


def _check_answers(subject: Subject) -> None:
    for count in (1, len(CAPTIONS)):
        scores = subject.model.answer_logprobs(sample_images(count), CAPTIONS[:count], QUESTION)
        shape = to_array(scores).shape
        if shape != (count,):
            raise ConformanceError(
                f"answer_logprobs gave an array of shape {shape} for {count} pairs, not ({count},)"
            )


def _check_offsets(subject: Subject) -> None:
    model = subject.model
    for count in (1, len(CAPTIONS)):
        if hasattr(model, "token_logprobs"):
            _require_offsets(model.token_logprobs(sample_images(count), CAPTIONS[:count]), count)
        if hasattr(model, "text_logprobs"):
            _require_offsets(model.text_logprobs(CAPTIONS[:count]), count)


def _require_offsets(ragged: Any, count: int) -> None:
    values, offsets = to_array(ragged.values), to_array(ragged.offsets)
    if values.ndim != 1:
        raise ConformanceError(f"the values have shape {values.shape}, not (tokens,)")
    if offsets.shape != (count + 1,):
        raise ConformanceError(f"there are {offsets.size} offsets for {count} captions")
    if offsets[0] != 0 or offsets[-1] != len(values):
        raise ConformanceError(
            f"offsets go from {offsets[0]:g} to {offsets[-1]:g}, and there are {len(values)} values"
        )
    if not (np.diff(offsets) >= 1).all():
        raise ConformanceError("a caption has no token")


def _check_finite(subject: Subject) -> None:
    for method in subject.methods:
        for i, numbers in enumerate(method.score(sample_images(len(CAPTIONS)), CAPTIONS)):
            if not np.isfinite(numbers).all():
                raise ConformanceError(f"{method.name} gave NaN or infinity for {CAPTIONS[i]!r}")


def _check_unit_length(subject: Subject) -> None:
    for method in subject.methods:
        if not method.name.startswith("embed"):
            continue
        vectors = method.score(sample_images(len(CAPTIONS)), CAPTIONS)
        lengths = np.linalg.norm(np.stack(vectors), axis=-1).reshape(-1)
        worst = float(lengths[np.argmax(np.abs(lengths - 1))])
        if abs(worst - 1) > UNIT_TOLERANCE[subject.dtype]:
            raise ConformanceError(f"{method.name} gave a vector of length {worst:.6g}")


def _check_logprobs(subject: Subject) -> None:
    for method in subject.methods:
        if method.name not in LOGPROB_METHODS:
            continue
        highest = max(
            float(logprobs.max()) for logprobs in method.score(sample_images(4), CAPTIONS)
        )
        if highest > 1e-6:
            raise ConformanceError(
                f"one of {method.name} is {highest:.6g}; the logarithm of a probability is never "
                "above 0"
            )


OUTPUT_CHECKS = (
    Check(
        "vectors-of-images",
        "embed_images gives an (n, d) array, also of one image; (n, q, d) where it has a pool.",
        _check_image_vectors,
        needs_any("embed_images"),
        base=True,
    ),
    Check(
        "vectors-of-captions",
        "embed_texts gives an (n, d) array, of the same d as for images.",
        _check_text_vectors,
        needs_any("embed_texts"),
        base=True,
    ),
    Check(
        "logits",
        "match gives one number a pair.",
        _check_logits,
        needs_any("match"),
        base=True,
    ),
    Check(
        "offsets",
        "token_logprobs and text_logprobs say where each caption's tokens begin and end.",
        _check_offsets,
        needs_any("token_logprobs", "text_logprobs"),
        base=True,
    ),
    Check(
        "answers",
        "answer_logprobs gives one number a pair.",
        _check_answers,
        needs_any("answer_logprobs"),
        base=True,
    ),
    Check("finite", "Every number is finite.", _check_finite, NEEDS_NUMBERS, base=True),
    Check("unit-vectors", "Vectors have length 1.", _check_unit_length,
    needs_any("embed_images")),
    Check(
        "log-probabilities",
        "No log-probability is above 0.",
        _check_logprobs,
        needs_any(*LOGPROB_METHODS),
    ),
)  # fmt: skip
