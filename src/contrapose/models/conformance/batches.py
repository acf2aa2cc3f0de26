"""Checks of answers against each other: neither the batch nor the moment may matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.models.conformance.arrays import FloatArray, apart, same_pixels
from contrapose.models.conformance.check import (
    LOOKING,
    NUMBERS,
    PAIRING,
    READING,
    Answer,
    Check,
    ConformanceError,
    Subject,
)
from contrapose.models.conformance.samples import CAPTIONS, images, repeated, words_for

COUNT = len(CAPTIONS)

TOLD_APART = 1e-6
"""Relative difference below which answers count as the same for quite different pairs."""

LONG = 48
"""Tokens of a long caption, where the model reads so many."""


def require_same(
    subject: Subject,
    answer: Answer,
    one: Sequence[FloatArray],
    other: Sequence[FloatArray],
    when: str,
) -> None:
    """Fail when two lists of answers to the same pairs differ by more than they may."""
    found = apart(one, other)
    if found > subject.tolerance:
        raise ConformanceError(
            f"{answer.method} differs by {found:.2g} (relative) {when}; "
            f"{subject.tolerance:g} is allowed in {subject.dtype}"
        )


def _deterministic(subject: Subject) -> None:
    for answer in subject.answers:
        first, again = (answer.ask(images(COUNT), CAPTIONS) for _ in range(2))
        if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
            raise ConformanceError(
                f"{answer.method} differs by {apart(first, again):.2g} (relative)"
            )


def _alone(subject: Subject) -> None:
    shown = images(COUNT)
    for answer in subject.answers:
        together = answer.ask(shown, CAPTIONS)
        alone = [
            answer.ask([image], [text])[0] for image, text in zip(shown, CAPTIONS, strict=True)
        ]
        require_same(subject, answer, together, alone, "alone and in a batch")


def _order(subject: Subject) -> None:
    shown = images(COUNT)
    for answer in subject.answers:
        there = answer.ask(shown, CAPTIONS)
        back = answer.ask(shown[::-1], CAPTIONS[::-1])[::-1]
        require_same(subject, answer, there, back, "when the batch is reversed")


def _padding(subject: Subject) -> None:
    model, shown = subject.model, images(2)
    words = LONG
    if hasattr(model, "token_counts"):
        counts = model.token_counts([repeated(1), repeated(2)])
        words = max(words_for(min(LONG, model.context - 2), counts), 1)
    for answer in subject.reading():
        short = answer.ask(shown, [CAPTIONS[0], CAPTIONS[1]])
        beside = answer.ask(shown, [CAPTIONS[0], repeated(words)])
        require_same(subject, answer, short[:1], beside[:1], "beside a long caption")


def _pairing(subject: Subject) -> None:
    """Every image with every caption, one caption several times in a batch."""
    one, other = images(2)
    captions = CAPTIONS[:2]
    for answer in subject.pairing():
        straight = answer.ask([one, other], captions)
        crossed = answer.ask([one, other], captions[::-1])
        shown = [one.copy(), other.copy(), one.copy(), other.copy()]
        texts = [captions[0], captions[0], captions[1], captions[1]]
        expected = [straight[0], crossed[1], crossed[0], straight[1]]
        found = answer.ask(shown, texts)
        require_same(subject, answer, expected, found, "when captions repeat in a batch")


def _lengths(subject: Subject) -> None:
    for answer in subject.pairing():
        for images_given, texts_given in ((2, 1), (1, 2)):
            try:
                answer.ask(images(images_given), CAPTIONS[:texts_given])
            except Exception:  # noqa: S112 - any refusal is one
                continue
            raise ConformanceError(
                f"{answer.method} took {images_given} images with {texts_given} captions"
            )


def _same_object(subject: Subject) -> None:
    one, other = images(2)
    for answer in subject.looking():
        shared = answer.ask([one, one, other], CAPTIONS[:3])
        copies = answer.ask([one, one.copy(), other.copy()], CAPTIONS[:3])
        require_same(subject, answer, shared, copies, "for one image object and for copies of it")


def _tells_captions(subject: Subject) -> None:
    image = images(1)[0]
    for answer in subject.reading():
        shown = [image.copy() for _ in CAPTIONS]
        _require_different(answer, answer.ask(shown, CAPTIONS), "captions")


def _tells_images(subject: Subject) -> None:
    for answer in subject.looking():
        found = answer.ask(images(COUNT), [CAPTIONS[0]] * COUNT)
        _require_different(answer, found, "images")


def _require_different(answer: Answer, found: Sequence[FloatArray], what: str) -> None:
    if all(apart(found[:1], [each]) <= TOLD_APART for each in found[1:]):
        raise ConformanceError(f"{answer.method} is the same for {len(found)} different {what}")


def _untouched(subject: Subject) -> None:
    for answer in subject.answers:
        shown, texts = images(COUNT), list(CAPTIONS)
        answer.ask(shown, texts)
        if texts != list(CAPTIONS) or len(shown) != COUNT:
            raise ConformanceError(f"{answer.method} changed a list that it was given")
        if not all(map(same_pixels, shown, images(COUNT))):
            raise ConformanceError(f"{answer.method} changed an image that it was given")


CHECKS = (
    Check("deterministic", "Asked twice, it gives the very same numbers.", _deterministic, NUMBERS),
    Check("alone", "A pair gets the same number alone and in a batch.", _alone, NUMBERS),
    Check("order", "The order of a batch does not matter.", _order, NUMBERS),
    Check(
        "padding",
        "A caption's number does not hang on how long others are.",
        _padding,
        READING,
    ),
    Check("pairing", "The i-th image goes with the i-th caption.", _pairing, PAIRING),
    Check("lengths", "Unequal numbers of images and captions are refused.", _lengths, PAIRING),
    Check("same-image", "One image object several times is as copies are.", _same_object, LOOKING),
    Check("tells-captions", "Different captions get different numbers.", _tells_captions, READING),
    Check("tells-images", "Different images get different numbers.", _tells_images, LOOKING),
    Check("untouched", "What it is given stays as it was.", _untouched, NUMBERS),
)
