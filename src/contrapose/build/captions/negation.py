"""Hard negatives by negation: what the caption says is there is not, or is not done."""

from __future__ import annotations

from collections.abc import Iterator

from contrapose.build.captions.change import Rewrite, rewrite
from contrapose.build.captions.sentence import BEING, Sentence
from contrapose.build.captions.tables import words

KIND = "negation"
NEGATIONS = words("negations")


def negations(sentence: Sentence) -> Iterator[Rewrite]:
    """The caption with one negation; a caption that has some already gives none.

    “is running” becomes “is not running”, “a man riding” “a man not riding”, “with” “without”, and
    “there is a” “there is no”.
    """
    low = [token.low for token in sentence.tokens]
    if not NEGATIONS.isdisjoint(low) or any(word.endswith(("n't", "n’t")) for word in low):
        return
    for i, token in enumerate(sentence.tokens):
        edits = _at(sentence, i)
        if edits is not None:
            yield rewrite(sentence.caption, KIND, [edits], articles=False)
        if token.low in BEING:
            return  # what follows is part of what “is not”


def _at(sentence: Sentence, at: int) -> tuple[int, int, str] | None:
    token, before, after = sentence.at(at), sentence.at(at - 1), sentence.at(at + 1)
    if token.low in BEING and before.low == "there":
        if after.low in ("a", "an", "some", "many", "several"):
            return after.start, after.end, "no"
        return (token.end, token.end, " no") if after.is_noun or after.tag == "JJ" else None
    if token.low in BEING and after.text and at > 0:
        return token.end, token.end, " not"
    if token.low == "with" and sentence.phrase_from(at + 1) is not None and before.is_noun:
        return token.start, token.end, "without"
    if token.tag == "VBG" and before.is_noun and sentence.phrase_to(at) is not None:
        return token.start, token.start, "not "
    return None
