"""Hard negatives by exchange: attributes, or objects, of two noun phrases change places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from contrapose.build.captions.change import Rewrite, rewrite
from contrapose.build.captions.inflection import singular
from contrapose.build.captions.lexicon import lexicon
from contrapose.build.captions.sentence import Phrase, Sentence

QUANTITIES = frozenset(("several", "many", "few", "some", "various", "multiple", "other", "more"))


def exchanged_attributes(sentence: Sentence) -> Iterator[Rewrite]:
    """“a red cube on a blue ball” becomes “a blue cube on a red ball”.

    Two numbers change places too, where neither is one: the nouns stay as they are.
    """
    for left, right in _pairs(sentence):
        for i in left.modifiers:
            for j in right.modifiers:
                first, second = sentence.at(i), sentence.at(j)
                if (
                    first.low != second.low
                    and _alike(sentence, i, j)
                    and not _joined(sentence, i, j)
                ):
                    edits = [
                        (first.start, first.end, _cased(second.text, j)),
                        (second.start, second.end, _cased(first.text, i)),
                    ]
                    yield rewrite(sentence.caption, "exchange-attribute", edits)


def exchanged_objects(sentence: Sentence) -> Iterator[Rewrite]:
    """“a dog chasing a cat” becomes “a cat chasing a dog”; the attributes stay.

    Both nouns must be of one number, so that articles and verbs still agree.
    """
    for left, right in _pairs(sentence):
        a, b = (sentence.text(one.nouns, one.end) for one in (left, right))
        many = [singular(sentence.at(one.head).low) != sentence.at(one.head).low
                for one in (left, right)]  # fmt: skip
        bare = left.determined == right.determined
        if a.lower() == b.lower() or many[0] != many[1] or not bare:
            continue
        edits = [
            (*sentence.span(left.nouns, left.end), _cased(b, right.nouns)),
            (*sentence.span(right.nouns, right.end), _cased(a, left.nouns)),
        ]
        yield rewrite(sentence.caption, "exchange-object", edits)


def _pairs(sentence: Sentence) -> Iterator[tuple[Phrase, Phrase]]:
    """Neighbouring noun phrases; “a piece of cake” is one thing."""
    for left, right in pairwise(sentence.phrases):
        if sentence.at(left.end).low != "of":
            yield left, right


def _alike(sentence: Sentence, i: int, j: int) -> bool:
    """Two modifiers of one class, or two that the table does not know, or two numbers."""
    first, second = sentence.at(i), sentence.at(j)
    counts = [one.tag == "CD" for one in (first, second)]
    if counts[0] != counts[1] or {first.low, second.low} & QUANTITIES:
        return False
    if first.tag == "CD":
        return "one" not in (first.low, second.low)
    classes = [
        {
            name
            for name, sides in lexicon().attributes.items()
            if any(word in side for side in sides)
        }
        for word in (first.low, second.low)
    ]
    return bool(classes[0] & classes[1]) or not (classes[0] or classes[1])


def _joined(sentence: Sentence, *places: int) -> bool:
    """One of “red and white”, whose other half would stay behind."""
    phrases = [phrase for i in places if (phrase := sentence.phrase_of(i)) is not None]
    return any("and" in sentence.lower(phrase.first, phrase.nouns) for phrase in phrases)


def _cased(text: str, place: int) -> str:
    """The first word of a caption loses its capital where it moves."""
    return text[0].lower() + text[1:] if place == 0 and not text.isupper() else text
