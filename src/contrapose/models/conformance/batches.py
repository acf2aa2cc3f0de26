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
"""Relative difference below which answers count as the same for quite different pairs."""

LONG_TOKENS = 48
"""Tokens of a long caption, where the model reads so many."""


def require_same(
    subject: Subject,
    answer: ScoreMethod,
    one: Sequence[FloatArray],
    other: Sequence[FloatArray],
    when: str,
) -> None:
    """Raise unless two lists of outputs for the same pairs agree within the tolerance."""
    found = relative_difference(one, other)
    if found > subject.tolerance:
        raise ConformanceError(
            f"{answer.method} differs by {found:.2g} (relative) {when}; "
            f"{subject.tolerance:g} is allowed in {subject.dtype}"
        )


def _check_deterministic(subject: Subject) -> None:
    for answer in subject.answers:
        first, again = (answer.ask(sample_images(CAPTION_COUNT), CAPTIONS) for _ in range(2))
        if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
            raise ConformanceError(
                f"{answer.method} differs by {relative_difference(first, again):.2g} (relative)"
            )


def _check_alone(subject: Subject) -> None:
    shown = sample_images(CAPTION_COUNT)
    for answer in subject.answers:
        together = answer.ask(shown, CAPTIONS)
        alone = [
            answer.ask([image], [text])[0] for image, text in zip(shown, CAPTIONS, strict=True)
        ]
        require_same(subject, answer, together, alone, "alone and in a batch")


def _check_order(subject: Subject) -> None:
    shown = sample_images(CAPTION_COUNT)
    for answer in subject.answers:
        there = answer.ask(shown, CAPTIONS)
        back = answer.ask(shown[::-1], CAPTIONS[::-1])[::-1]
        require_same(subject, answer, there, back, "when the batch is reversed")


def _check_padding(subject: Subject) -> None:
    model, shown = subject.model, sample_images(2)
    words = LONG_TOKENS
    if hasattr(model, "token_counts"):
        counts = model.token_counts([repeat_word(1), repeat_word(2)])
        words = max(count_words(min(LONG_TOKENS, model.context - 2), counts), 1)
    for answer in subject.caption_methods():
        short = answer.ask(shown, [CAPTIONS[0], CAPTIONS[1]])
        beside = answer.ask(shown, [CAPTIONS[0], repeat_word(words)])
        require_same(subject, answer, short[:1], beside[:1], "beside a long caption")


def _check_pairing(subject: Subject) -> None:
    """Check every image with every caption, one caption several times in a batch."""
    one, other = sample_images(2)
    captions = CAPTIONS[:2]
    for answer in subject.pair_methods():
        straight = answer.ask([one, other], captions)
        crossed = answer.ask([one, other], captions[::-1])
        shown = [one.copy(), other.copy(), one.copy(), other.copy()]
        texts = [captions[0], captions[0], captions[1], captions[1]]
        expected = [straight[0], crossed[1], crossed[0], straight[1]]
        found = answer.ask(shown, texts)
        require_same(subject, answer, expected, found, "when captions repeat in a batch")


def _check_lengths(subject: Subject) -> None:
    for answer in subject.pair_methods():
        for images_given, texts_given in ((2, 1), (1, 2)):
            try:
                answer.ask(sample_images(images_given), CAPTIONS[:texts_given])
            except Exception:  # noqa: S112 - any refusal is one
                continue
            raise ConformanceError(
                f"{answer.method} took {images_given} images with {texts_given} captions"
            )


def _check_same_object(subject: Subject) -> None:
    one, other = sample_images(2)
    for answer in subject.image_methods():
        shared = answer.ask([one, one, other], CAPTIONS[:3])
        copies = answer.ask([one, one.copy(), other.copy()], CAPTIONS[:3])
        require_same(subject, answer, shared, copies, "for one image object and for copies of it")


def _check_captions_differ(subject: Subject) -> None:
    image = sample_images(1)[0]
    for answer in subject.caption_methods():
        shown = [image.copy() for _ in CAPTIONS]
        _require_different(answer, answer.ask(shown, CAPTIONS), "captions")


def _check_images_differ(subject: Subject) -> None:
    for answer in subject.image_methods():
        found = answer.ask(sample_images(CAPTION_COUNT), [CAPTIONS[0]] * CAPTION_COUNT)
        _require_different(answer, found, "images")


def _require_different(answer: ScoreMethod, found: Sequence[FloatArray], what: str) -> None:
    if all(relative_difference(found[:1], [each]) <= SAME_TOLERANCE for each in found[1:]):
        raise ConformanceError(f"{answer.method} is the same for {len(found)} different {what}")


def _check_inputs_unchanged(subject: Subject) -> None:
    for answer in subject.answers:
        shown, texts = sample_images(CAPTION_COUNT), list(CAPTIONS)
        answer.ask(shown, texts)
        if texts != list(CAPTIONS) or len(shown) != CAPTION_COUNT:
            raise ConformanceError(f"{answer.method} changed a list that it was given")
        if not all(map(same_pixels, shown, sample_images(CAPTION_COUNT))):
            raise ConformanceError(f"{answer.method} changed an image that it was given")


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
