"""Checks that neither the batch nor the order of calls changes an output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.models.conformance.check import (
    CAPTIONS,
    NEEDS_CAPTIONS,
    NEEDS_IMAGES,
    NEEDS_NUMBERS,
    NEEDS_PAIRS,
    Check,
    ConformanceError,
    FloatArray,
    ScoreMethod,
    Subject,
    count_words,
    relative_difference,
    repeat_word,
    same_pixels,
    sample_images,
)

CAPTION_COUNT = len(CAPTIONS)

SAME_TOLERANCE = 1e-6
"""Relative difference up to which scores of different pairs count as the same."""

LONG_TOKENS = 48
"""Tokens of a long caption, if the context allows."""


def require_same(
    subject: Subject,
    method: ScoreMethod,
    one: Sequence[FloatArray],
    other: Sequence[FloatArray],
    when: str,
) -> None:
    """Raise unless two lists of outputs for the same pairs agree within the tolerance."""
    difference = relative_difference(one, other)
    if difference > subject.tolerance:
        raise ConformanceError(
            f"{method.name} differs by {difference:.2g} (relative) {when}; "
            f"{subject.tolerance:g} is allowed in {subject.dtype}"
        )


def _check_deterministic(subject: Subject) -> None:
    for method in subject.methods:
        first, again = (method.score(sample_images(CAPTION_COUNT), CAPTIONS) for _ in range(2))
        if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
            raise ConformanceError(
                f"{method.name} differs by {relative_difference(first, again):.2g} (relative)"
            )


def _check_alone(subject: Subject) -> None:
    images = sample_images(CAPTION_COUNT)
    for method in subject.methods:
        together = method.score(images, CAPTIONS)
        alone = [
            method.score([image], [text])[0] for image, text in zip(images, CAPTIONS, strict=True)
        ]
        require_same(subject, method, together, alone, "alone and in a batch")


def _check_order(subject: Subject) -> None:
    images = sample_images(CAPTION_COUNT)
    for method in subject.methods:
        there = method.score(images, CAPTIONS)
        back = method.score(images[::-1], CAPTIONS[::-1])[::-1]
        require_same(subject, method, there, back, "when the batch is reversed")


def _check_padding(subject: Subject) -> None:
    model, images = subject.model, sample_images(2)
    words = LONG_TOKENS
    if hasattr(model, "token_counts"):
        counts = model.token_counts([repeat_word(1), repeat_word(2)])
        words = max(count_words(min(LONG_TOKENS, model.context - 2), counts), 1)
    for method in subject.caption_methods():
        short = method.score(images, [CAPTIONS[0], CAPTIONS[1]])
        beside = method.score(images, [CAPTIONS[0], repeat_word(words)])
        require_same(subject, method, short[:1], beside[:1], "beside a long caption")


def _check_pairing(subject: Subject) -> None:
    """Check every image with every caption, one caption several times in a batch."""
    one, other = sample_images(2)
    captions = CAPTIONS[:2]
    for method in subject.pair_methods():
        straight = method.score([one, other], captions)
        crossed = method.score([one, other], captions[::-1])
        images = [one.copy(), other.copy(), one.copy(), other.copy()]
        texts = [captions[0], captions[0], captions[1], captions[1]]
        expected = [straight[0], crossed[1], crossed[0], straight[1]]
        scores = method.score(images, texts)
        require_same(subject, method, expected, scores, "when captions repeat in a batch")


def _check_lengths(subject: Subject) -> None:
    for method in subject.pair_methods():
        for images_given, texts_given in ((2, 1), (1, 2)):
            try:
                method.score(sample_images(images_given), CAPTIONS[:texts_given])
            except Exception:  # noqa: S112 - any refusal is one
                continue
            raise ConformanceError(
                f"{method.name} took {images_given} images with {texts_given} captions"
            )


def _check_same_object(subject: Subject) -> None:
    one, other = sample_images(2)
    for method in subject.image_methods():
        shared = method.score([one, one, other], CAPTIONS[:3])
        copies = method.score([one, one.copy(), other.copy()], CAPTIONS[:3])
        require_same(subject, method, shared, copies, "for one image object and for copies of it")


def _check_captions_differ(subject: Subject) -> None:
    image = sample_images(1)[0]
    for method in subject.caption_methods():
        images = [image.copy() for _ in CAPTIONS]
        _require_different(method, method.score(images, CAPTIONS), "captions")


def _check_images_differ(subject: Subject) -> None:
    for method in subject.image_methods():
        scores = method.score(sample_images(CAPTION_COUNT), [CAPTIONS[0]] * CAPTION_COUNT)
        _require_different(method, scores, "images")


def _require_different(method: ScoreMethod, scores: Sequence[FloatArray], what: str) -> None:
    if all(relative_difference(scores[:1], [score]) <= SAME_TOLERANCE for score in scores[1:]):
        raise ConformanceError(f"{method.name} is the same for {len(scores)} different {what}")


def _check_inputs_unchanged(subject: Subject) -> None:
    for method in subject.methods:
        images, texts = sample_images(CAPTION_COUNT), list(CAPTIONS)
        method.score(images, texts)
        if texts != list(CAPTIONS) or len(images) != CAPTION_COUNT:
            raise ConformanceError(f"{method.name} changed a list that it was given")
        if not all(map(same_pixels, images, sample_images(CAPTION_COUNT))):
            raise ConformanceError(f"{method.name} changed an image that it was given")


BATCH_CHECKS = (
    Check(
        "deterministic",
        "Asked twice, it gives the very same numbers.",
        _check_deterministic,
        NEEDS_NUMBERS,
    ),
    Check(
        "alone", "A pair gets the same number alone and in a batch.", _check_alone, NEEDS_NUMBERS
    ),
    Check("order", "The order of a batch does not matter.", _check_order, NEEDS_NUMBERS),
    Check(
        "padding",
        "A caption's number does not hang on how long others are.",
        _check_padding,
        NEEDS_CAPTIONS,
    ),
    Check("pairing", "The i-th image goes with the i-th caption.", _check_pairing, NEEDS_PAIRS),
    Check(
        "lengths",
        "Unequal numbers of images and captions are refused.",
        _check_lengths,
        NEEDS_PAIRS,
    ),
    Check(
        "same-image",
        "One image object several times is as copies are.",
        _check_same_object,
        NEEDS_IMAGES,
    ),
    Check(
        "tells-captions",
        "Different captions get different numbers.",
        _check_captions_differ,
        NEEDS_CAPTIONS,
    ),
    Check(
        "tells-images",
        "Different images get different numbers.",
        _check_images_differ,
        NEEDS_IMAGES,
    ),
    Check("untouched", "What it is given stays as it was.", _check_inputs_unchanged, NEEDS_NUMBERS),
)
