"""Checks of a single answer: its shape, and what its numbers may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contrapose.models.conformance.arrays import array
from contrapose.models.conformance.check import (
    LOGPROBS,
    NUMBERS,
    QUESTION,
    Check,
    ConformanceError,
    Subject,
)
from contrapose.models.conformance.samples import CAPTIONS, images

UNIT = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 2e-2}
"""How far from 1 the length of a vector may be: it is brought to 1 exactly when it is used."""


def _lacks(*methods: str) -> Callable[[Subject], str]:
    """Why a check does not apply: the model has none of some methods."""
    return lambda subject: (
        ""
        if any(hasattr(subject.model, method) for method in methods)
        else f"the model has no {' or '.join(methods)}"
    )


def _image_vectors(subject: Subject) -> None:
    """One vector an image; several where the model says how they are pooled."""
    several = getattr(subject.model, "pool", None) is not None
    for count in (1, len(CAPTIONS)):
        shape = array(subject.model.embed_images(images(count))).shape
        wanted = f"({count}, q, d)" if several else f"({count}, d)"
        _require_vectors("embed_images", shape, count, 3 if several else 2, wanted)


def _text_vectors(subject: Subject) -> None:
    for count in (1, len(CAPTIONS)):
        shape = array(subject.model.embed_texts(CAPTIONS[:count])).shape
        _require_vectors("embed_texts", shape, count, 2, f"({count}, d)")
    if hasattr(subject.model, "embed_images"):
        width = array(subject.model.embed_images(images(1))).shape[-1]
        if width != shape[1]:
            raise ConformanceError(f"captions get vectors of {shape[1]} numbers, images of {width}")


def _require_vectors(
    method: str, shape: tuple[int, ...], count: int, dimensions: int, wanted: str
) -> None:
    if len(shape) != dimensions or shape[0] != count or not all(shape):
        raise ConformanceError(f"{method} gave an array of shape {shape} for {count}, not {wanted}")


def _logits(subject: Subject) -> None:
    for count in (1, len(CAPTIONS)):
        shape = array(subject.model.match(images(count), CAPTIONS[:count])).shape
        if shape != (count,):
            raise ConformanceError(
                f"match gave an array of shape {shape} for {count} pairs, not ({count},)"
            )


def _answers(subject: Subject) -> None:
    for count in (1, len(CAPTIONS)):
        found = subject.model.answer_logprobs(images(count), CAPTIONS[:count], QUESTION)
        shape = array(found).shape
        if shape != (count,):
            raise ConformanceError(
                f"answer_logprobs gave an array of shape {shape} for {count} pairs, not ({count},)"
            )


def _offsets(subject: Subject) -> None:
    model = subject.model
    for count in (1, len(CAPTIONS)):
        if hasattr(model, "token_logprobs"):
            _require_offsets(model.token_logprobs(images(count), CAPTIONS[:count]), count)
        if hasattr(model, "text_logprobs"):
            _require_offsets(model.text_logprobs(CAPTIONS[:count]), count)


def _require_offsets(ragged: Any, count: int) -> None:
    values, offsets = array(ragged.values), array(ragged.offsets)
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


def _finite(subject: Subject) -> None:
    for answer in subject.answers:
        for i, numbers in enumerate(answer.ask(images(len(CAPTIONS)), CAPTIONS)):
            if not np.isfinite(numbers).all():
                raise ConformanceError(f"{answer.method} gave NaN or infinity for {CAPTIONS[i]!r}")


def _unit(subject: Subject) -> None:
    for answer in subject.answers:
        if not answer.method.startswith("embed"):
            continue
        vectors = answer.ask(images(len(CAPTIONS)), CAPTIONS)
        lengths = np.linalg.norm(np.stack(vectors), axis=-1).reshape(-1)
        worst = float(lengths[np.argmax(np.abs(lengths - 1))])
        if abs(worst - 1) > UNIT[subject.dtype]:
            raise ConformanceError(f"{answer.method} gave a vector of length {worst:.6g}")


def _below_zero(subject: Subject) -> None:
    for answer in subject.answers:
        if answer.method not in LOGPROBS:
            continue
        highest = max(float(each.max()) for each in answer.ask(images(4), CAPTIONS))
        if highest > 1e-6:
            raise ConformanceError(
                f"one of {answer.method} is {highest:.6g}; the logarithm of a probability is never "
                "above 0"
            )


CHECKS = (
    Check(
        "vectors-of-images",
        "embed_images gives an (n, d) array, also of one image; (n, q, d) where it has a pool.",
        _image_vectors,
        _lacks("embed_images"),
        base=True,
    ),
    Check(
        "vectors-of-captions",
        "embed_texts gives an (n, d) array, of the same d as for images.",
        _text_vectors,
        _lacks("embed_texts"),
        base=True,
    ),
    Check(
        "logits",
        "match gives one number a pair.",
        _logits,
        _lacks("match"),
        base=True,
    ),
    Check(
        "offsets",
        "token_logprobs and text_logprobs say where each caption's tokens begin and end.",
        _offsets,
        _lacks("token_logprobs", "text_logprobs"),
        base=True,
    ),
    Check(
        "answers",
        "answer_logprobs gives one number a pair.",
        _answers,
        _lacks("answer_logprobs"),
        base=True,
    ),
    Check("finite", "Every number is finite.", _finite, NUMBERS, base=True),
    Check("unit-vectors", "Vectors have length 1.", _unit, _lacks("embed_images")),
    Check(
        "log-probabilities",
        "No log-probability is above 0.",
        _below_zero,
        _lacks(*LOGPROBS),
    ),
)  # fmt: skip
