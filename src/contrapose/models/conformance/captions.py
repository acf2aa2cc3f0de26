"""Checks of what captions a model takes: empty, long and odd ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contrapose.errors import InputError
from contrapose.models.conformance.batches import require_same
from contrapose.models.conformance.check import READING, Answer, Check, ConformanceError, Subject
from contrapose.models.conformance.samples import (
    CAPTIONS,
    ODD_CAPTIONS,
    images,
    repeated,
    words_for,
)

UNKNOWN = 1_200
"""Words of a long caption for a model that does not say how much it reads."""

EXTRA = 16
"""Words of a long caption beyond what the model reads."""


def _empty(subject: Subject) -> None:
    for answer in subject.reading():
        for text in ("", " "):
            if not _refused(answer, text):
                raise ConformanceError(f"{answer.method} gave an answer for {text!r}")


def _refused(answer: Answer, text: str) -> bool:
    """Whether a caption is refused as it should be, beside one that is well."""
    try:
        answer.ask(images(2), [CAPTIONS[0], text])
    except InputError:
        return True
    except Exception as error:
        raise ConformanceError(
            f"{answer.method} raised {type(error).__name__} for {text[:20]!r}, not an InputError"
        ) from None
    return False


def _counts(subject: Subject) -> None:
    model = subject.model
    texts = [CAPTIONS[0], repeated(1), repeated(9)]
    counts = list(model.token_counts(texts))
    if len(counts) != len(texts) or not all(float(count).is_integer() for count in counts):
        raise ConformanceError(f"token_counts gave {counts} for {len(texts)} captions")
    if not 1 <= counts[1] < counts[2]:
        raise ConformanceError(
            f"token_counts gave {counts[1]} for one word and {counts[2]} for nine"
        )
    if not isinstance(model.cuts, bool):
        raise ConformanceError(f"cuts is {model.cuts!r}, neither True nor False")


def _context(subject: Subject) -> None:
    """A caption that is as long as can be is read, and one that is said to be so."""
    model = subject.model
    if not isinstance(model.context, int) or model.context < 1:
        raise ConformanceError(f"context is {model.context!r}")
    text = repeated(_most(subject))
    (count,) = model.token_counts([text])
    if count > model.context:
        raise ConformanceError(
            f"token_counts does not grow evenly with equal words: {count} tokens"
        )
    for answer in subject.reading():
        try:
            answer.ask(images(1), [text])
        except InputError as error:
            raise ConformanceError(
                f"{answer.method} refused a caption of {count} tokens; its context is "
                f"{model.context} ({error})"
            ) from None


def _long(subject: Subject) -> None:
    """An over-long caption is refused; a model that does not say its limit must read it all."""
    if hasattr(subject.model, "token_counts"):
        text = repeated(_most(subject) + EXTRA)
        (count,) = subject.model.token_counts([text])
        for answer in subject.reading():
            if not _refused(answer, text):
                raise ConformanceError(
                    f"{answer.method} gave an answer for {count} tokens; its context is "
                    f"{subject.model.context}"
                )
        return
    for answer in subject.reading():
        found = []
        for tail in ("cube", "sphere"):
            text = repeated(UNKNOWN, tail)
            if not _refused(answer, text):
                found += answer.ask(images(1), [text])
        if len(found) == 2 and np.array_equal(found[0], found[1]):
            raise ConformanceError(f"{answer.method} does not see the last of {UNKNOWN:,} words")


def _cut(subject: Subject) -> None:
    most = _most(subject)
    long, other = repeated(most + EXTRA), repeated(most + EXTRA, "cube", "sphere")
    (count,) = subject.model.token_counts([long])
    if count <= subject.model.context:
        raise ConformanceError(
            f"token_counts says {count} of a caption that must be cut: count before"
        )
    fits = repeated(most)
    whole = list(subject.model.token_counts([fits])) == [subject.model.context]
    for answer in subject.reading():
        (one,), (two,) = (answer.ask(images(1), [text]) for text in (long, other))
        require_same(subject, answer, [one], [two], "for captions that differ after the cut")
        if whole:
            found = answer.ask(images(1), [fits])
            require_same(subject, answer, found, [one], "for a caption and for a longer one, cut")


def _odd(subject: Subject) -> None:
    for answer in subject.reading():
        for text in ODD_CAPTIONS:
            try:
                (numbers,) = answer.ask(images(1), [text])
            except Exception as error:
                raise ConformanceError(
                    f"{answer.method} raised {type(error).__name__} for {text!r}: {error}"
                ) from None
            if not np.isfinite(numbers).all():
                raise ConformanceError(f"{answer.method} gave NaN or infinity for {text!r}")


def _most(subject: Subject) -> int:
    """How many equal words fill what the model reads."""
    model = subject.model
    return words_for(model.context, model.token_counts([repeated(1), repeated(2)]))


def _reads(*, cuts: bool | None = None) -> Callable[[Subject], str]:
    """Why a check of captions' lengths does not apply: by whether the model cuts them."""

    def unfit(subject: Subject) -> str:
        there = hasattr(subject.model, "token_counts")
        if cuts is False:
            return "it cuts captions, as it was asked to" if there and subject.model.cuts else ""
        if not there:
            return "the model does not say how much it reads (token_counts, context, cuts)"
        return "it refuses captions that are too long" if cuts and not subject.model.cuts else ""

    return unfit


CHECKS = (
    Check("empty-caption", "An empty caption is refused with an InputError.", _empty, READING),
    Check(
        "odd-captions",
        "Captions in any script, with breaks and marks, are read.",
        _odd,
        READING,
    ),
    Check("token-counts", "It counts the tokens of captions.", _counts, _reads()),
    Check("context", "A caption of just as many tokens as it reads is read.", _context, _reads()),
    Check(
        "long-caption",
        "A caption that is too long is refused with an InputError, never cut in silence.",
        _long,
        _reads(cuts=False),
    ),
    Check(
        "cut-caption",
        "A caption that is too long counts in full, and gets the number of the cut one.",
        _cut,
        _reads(cuts=True),
    ),
)
