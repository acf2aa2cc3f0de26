"""Hard negatives by exchange: attributes or nouns of neighboring noun phrases change places.

“a dog chasing a cat” becomes “a cat chasing a dog”. An exchange around a symmetric relation (“next
to”, “and”, “hugging”) is made only where an attribute stays behind: “a red cube and a blue ball”
becomes “a red ball and a blue cube”. Words with capitals of their own are left where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from contrapose.build.captions.contrasts import are_near, is_said_of
from contrapose.build.captions.edits import Rewrite, edit_caption
from contrapose.build.captions.lexicon import (
    INVARIABLE_NOUNS,
    is_article,
    load_lexicon,
    singularize,
    verb_forms,
    word_list,
)
from contrapose.build.captions.numbers import read_number
from contrapose.build.captions.sentence import NounPhrase, Sentence
from contrapose.build.captions.verification import SYMMETRIC_JOINTS

MASS_NOUNS = word_list("mass")
VAGUE_NOUNS = word_list("vague")
"""Nouns that name no thing of their own: “the middle”, “a pair”, parts of a body."""
SINGULAR_IN_S = frozenset(("tennis", "sports", "christmas"))
SHADES = frozenset(["neon", "light", "dark", "bright", "pale", "hot", "deep", "solid"])
MARKS = frozenset(("'", "’", '"', "“", "”", "(", ")", ":", ";", "-", "–"))


def exchange_attributes(sentence: Sentence) -> Iterator[Rewrite]:
    """Exchange attributes: “a red cube on a blue ball” to “a blue cube on a red ball”.

    Two numbers are exchanged too, where neither is one: the nouns do not change.
    """
    for left, right in _neighboring_phrases(sentence):
        for i in left.modifiers:
            for j in right.modifiers:
                first, second = sentence.at(i), sentence.at(j)
                texts = _movable_texts(sentence, (i, i + 1), (j, j + 1))
                if (
                    texts is not None
                    and not _are_alike(sentence, left, right)
                    and first.low != second.low
                    and _are_comparable(sentence, (i, left), (j, right))
                    and not _in_conjunction(sentence, left, right)
                ):
                    edits = [
                        (first.start, first.end, texts[1]),
                        (second.start, second.end, texts[0]),
                    ]
                    yield edit_caption(sentence.caption, "exchange-attribute", edits)


def exchange_objects(sentence: Sentence) -> Iterator[Rewrite]:
    """Exchange nouns: “a dog chasing a cat” to “a cat chasing a dog”; attributes stay.

    Both nouns must be of one number, so that articles and verbs still agree.
    """
    for left, right in _neighboring_phrases(sentence):
        texts = _movable_texts(sentence, (left.nouns, left.end), (right.nouns, right.end))
        heads = [sentence.at(one.head).low for one in (left, right)]
        if texts is None or texts[0].lower() == texts[1].lower():
            continue
        if not VAGUE_NOUNS.isdisjoint((*heads, *map(singularize, heads))):
            continue
        if not _agree_in_number(sentence, left, right) or _is_symmetric(sentence, left, right):
            continue
        edits = [
            (*sentence.span(left.nouns, left.end), texts[1]),
            (*sentence.span(right.nouns, right.end), texts[0]),
        ]
        yield edit_caption(sentence.caption, "exchange-object", edits)


def _neighboring_phrases(sentence: Sentence) -> Iterator[tuple[NounPhrase, NounPhrase]]:
    """Neighboring noun phrases; “a piece of cake” is one thing."""
    for left, right in pairwise(sentence.phrases):
        if left.end == right.first or "other" in sentence.lower(left.end, right.nouns):
            continue  # “handing a dog a stick”, “one in red and the other in blue”
        around = {sentence.at(one.end).low for one in (left, right)}
        around |= {sentence.at(one.first - 1).low for one in (left, right) if one.first}
        if any(
            sentence.at(one.end).tag == "VBN" and sentence.at(one.end + 1).is_noun
            for one in (left, right)
        ):
            continue  # “a leaf covered path”
        related = sentence.at(right.end).low in ("who", "whose", "whom")
        if "of" not in around and MARKS.isdisjoint(around) and not related:
            yield left, right


def _movable_texts(
    sentence: Sentence, first: tuple[int, int], second: tuple[int, int]
) -> tuple[str, str] | None:
    """Texts of two token ranges that change places; None where a capital would travel.

    The first word of a caption loses its capital, which the word that takes its place gets.
    """
    texts = []
    for start, end in (first, second):
        text = sentence.text(start, end)
        texts.append(text[0].lower() + text[1:] if start == 0 and not text.isupper() else text)
    if sentence.caption.isupper() or all(text == text.lower() for text in texts):
        return texts[0], texts[1]
    return None


def _agree_in_number(sentence: Sentence, left: NounPhrase, right: NounPhrase) -> bool:
    """Whether either noun can take the other's determiner and verb."""
    heads = [sentence.at(one.head) for one in (left, right)]
    many = [singularize(head.low) != head.low or head.tag == "NNS" for head in heads]
    mass = [singularize(head.low) in MASS_NOUNS for head in heads]
    articles = [is_article(sentence.at(one.first).low) for one in (left, right)]
    counted = [
        article or sentence.at(one.first).tag == "CD"
        for article, one in zip(articles, (left, right), strict=True)
    ]
    if any(counts and plural for counts, plural in zip(articles, many, strict=True)):
        return False  # no phrase: “a jeep sidewalks”
    if not INVARIABLE_NOUNS.isdisjoint(head.low for head in heads):
        return False
    if many[0] != many[1] or left.determined != right.determined:
        return False
    parts = [word for one in (left, right) for word in sentence.lower(one.nouns, one.head)]
    if any(singularize(word) != word and word not in SINGULAR_IN_S for word in parts):
        return False  # “its wings spread”
    if any("way" in sentence.lower(one.first, one.head) for one in (left, right)):
        return False  # “a one way sign”
    return mass[0] == mass[1] or not any(counted)


def _is_symmetric(sentence: Sentence, left: NounPhrase, right: NounPhrase) -> bool:
    """Whether two phrases that differ only in their nouns stand in a symmetric relation."""
    described = [
        {sentence.at(i).low for i in one.modifiers} for one in (left, right)
    ]  # fmt: skip
    mutual = not _symmetric_verbs().isdisjoint(sentence.lower(left.end, right.first))
    joined = _has_symmetric_joint(sentence, left, right)
    return (joined and described[0] == described[1]) or mutual


def _are_alike(sentence: Sentence, left: NounPhrase, right: NounPhrase) -> bool:
    """Whether two phrases name things of one kind side by side, or of “one … and one …”."""
    same = sentence.at(left.head).low == sentence.at(right.head).low
    parted = "one" in sentence.lower(left.end, right.first)
    return same and (parted or _has_symmetric_joint(sentence, left, right))


def _has_symmetric_joint(sentence: Sentence, left: NounPhrase, right: NounPhrase) -> bool:
    """Whether the words between two phrases end in “and”, “next to” and the like."""
    joint = sentence.lower(left.end, right.first)
    return any(joint[-len(words) :] == words for words in SYMMETRIC_JOINTS)


@cache
def _symmetric_verbs() -> frozenset[str]:
    """All forms of verbs that hold both ways, such as “hug”."""
    return frozenset(
        form for verb in word_list("symmetric_verbs") for form in verb_forms(verb).values()
    )


def _are_comparable(
    sentence: Sentence, first: tuple[int, NounPhrase], second: tuple[int, NounPhrase]
) -> bool:
    """Whether two modifiers are of one class that is said of both nouns, or both numbers."""
    words = [sentence.at(i).low for i, _ in (first, second)]
    heads = [sentence.at(phrase.head).low for _, phrase in (first, second)]
    if "CD" in (sentence.at(first[0]).tag, sentence.at(second[0]).tag):
        values = [read_number(word) for word in words]
        return None not in values and 1 not in values
    shaded = any(sentence.at(i - 1).low in SHADES for i, _ in (first, second))
    if shaded or are_near(*words):
        return False
    return any(
        all(any(word in side for side in sides) for word in words)
        and all(is_said_of(name, head) for head in heads)
        and not any(set(words) <= set(side) for side in sides)
        for name, sides in load_lexicon().attributes.items()
    )


def _in_conjunction(sentence: Sentence, *phrases: NounPhrase) -> bool:
    """Whether a phrase has two attributes (“red and white”), one of which would stay behind."""
    for phrase in phrases:
        if {"and", ","} & set(sentence.lower(phrase.first, phrase.nouns)):
            return True
        joined = not phrase.determined and sentence.at(phrase.first - 1).low in ("and", ",")
        if joined and load_lexicon().is_attribute(sentence.at(phrase.first - 2).low):
            return True
    return False
