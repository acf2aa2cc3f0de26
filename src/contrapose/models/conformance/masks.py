"""Checks of captions with hidden words, for models that say they take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.models.conformance.arrays import apart
from contrapose.models.conformance.batches import TOLD_APART, require_same
from contrapose.models.conformance.check import Answer, Check, ConformanceError, Subject
from contrapose.models.conformance.samples import images
from contrapose.models.masks import DELETE, TEXT_MASKS, MaskedText

METHODS = ("embed_texts", "match", "token_logprobs")
"""Answers that hidden words are for."""
WORDS = ("red", "tan", "big", "old", "hot", "wet", "raw", "new")
"""Words that stand in one place, some of which have as many tokens as another."""


def _kinds(subject: Subject) -> None:
    kinds = subject.model.text_masks
    strange = [kind for kind in kinds if kind not in TEXT_MASKS or kind == DELETE]
    if not isinstance(kinds, tuple) or strange:
        known = ", ".join(kind for kind in TEXT_MASKS if kind != DELETE)
        raise ConformanceError(f"text_masks is {kinds!r}; it may hold {known}")


def _hidden(subject: Subject) -> None:
    for answer in _answers(subject):
        for kind in subject.model.text_masks:
            _one(subject, answer, kind)


def _one(subject: Subject, answer: Answer, kind: str) -> None:
    """A way to hide words, asked together with plain captions."""
    first, second = (_caption(word) for word in _alike(subject))
    shown = images(1) * 5
    nothing = MaskedText(first, (), kind)
    one, other = (_without(text, kind) for text in (first, second))
    plain, whole, hidden, again, beside = answer.ask(shown, [first, nothing, one, other, first])
    name = f"by {kind!r}"
    require_same(subject, answer, [plain], [whole], f"when nothing is hidden {name}")
    require_same(subject, answer, [plain], [beside], f"beside a caption with words hidden {name}")
    _, few = answer.ask(shown[:2], [second, one])
    require_same(subject, answer, [hidden], [few], f"in another batch, with a word hidden {name}")
    require_same(subject, answer, [hidden], [again], f"by what a word hidden {name} was")
    if apart([plain], [hidden]) <= TOLD_APART:
        raise ConformanceError(f"{answer.method} does not notice that a word is hidden {name}")
    if answer.method == "token_logprobs" and not np.any(hidden == 0.0):
        raise ConformanceError(f"token_logprobs gives a token that is hidden {name} a probability")


def _caption(word: str) -> str:
    return f"a {word} cube and a blue sphere"


def _without(caption: str, kind: str) -> MaskedText:
    """The caption with its second word hidden."""
    start = caption.index(" ") + 1
    return MaskedText(caption, [(start, caption.index(" ", start))], kind)


def _alike(subject: Subject) -> tuple[str, str]:
    """Two words of as many tokens, where the model counts them; else the same word twice."""
    if hasattr(subject.model, "token_counts"):
        counts = [int(n) for n in subject.model.token_counts([_caption(word) for word in WORDS])]
        for i, count in enumerate(counts):
            if count in counts[i + 1 :]:
                return WORDS[i], WORDS[counts.index(count, i + 1)]
    return WORDS[0], WORDS[0]


def _answers(subject: Subject) -> Sequence[Answer]:
    return [answer for answer in subject.answers if answer.method in METHODS]


def _unfit(subject: Subject) -> str:
    there = bool(getattr(subject.model, "text_masks", ()))
    return "" if there and _answers(subject) else "it takes no captions with hidden words"


CHECKS = (
    Check("text-masks", "It says in known words how it hides words.", _kinds, _unfit),
    Check(
        "hidden-words",
        "Of a hidden word nothing tells but its place, and hiding nothing changes nothing.",
        _hidden,
        _unfit,
    ),
)
