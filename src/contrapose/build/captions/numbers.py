"""Hard negatives by number: “two dogs are running” to “one dog is running”.

Between one and many the noun changes its number, and so does the verb: the one that follows, past
adverbs, or the “is” of “there is exactly 1 boat”. A caption in which another word depends on the
number (“their”, “each other”) gives no number on the other side of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from contrapose.build.captions.edits import Rewrite, edit_caption
from contrapose.build.captions.lexicon import (
    INVARIABLE_NOUNS,
    PLURAL_ONLY,
    pluralize,
    singularize,
    word_list,
)
from contrapose.build.captions.sentence import NounPhrase, Sentence

NUMBER_KIND = "number"
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = re.compile(r"\d{1,2}")
MAX_SHIFT = 3
"""Largest difference between a number and its replacement."""
PLURAL_VERBS = {"is": "are", "was": "were", "has": "have"}
FINITE_VERBS = frozenset((*PLURAL_VERBS, *PLURAL_VERBS.values(), "does", "do"))
ADVERBS = word_list("number_adverbs")
SINGULAR_WORDS = word_list("singular_words")
PLURAL_WORDS = word_list("plural_words")
PART_WORDS = word_list("part_words")
"""Words by which a caption tells apart the things that it counts."""
SIGNS = frozenset(("#", "$", "€", "£", "№", "no", "number", "%", "-", "/", ":", "x"))


def contrast_numbers(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one number by another, with the noun and its verb made to agree."""
    for phrase in sentence.phrases:
        counted = _find_number(sentence, phrase)
        if counted is None:
            continue
        at, value = counted
        token = sentence.tokens[at]
        for new in range(max(1, value - MAX_SHIFT), min(len(NUMBERS), value + MAX_SHIFT) + 1):
            edits = None if new == value else _agreement_edits(sentence, phrase, at, value, new)
            if edits is not None:
                word = str(new) if token.low.isdigit() else NUMBERS[new - 1]
                yield edit_caption(
                    sentence.caption, NUMBER_KIND, [(token.start, token.end, word), *edits]
                )


def read_number(word: str) -> int | None:
    """Value of a number from 1 to 10, in digits or spelled out."""
    if word in NUMBERS:
        return NUMBERS.index(word) + 1
    if DIGITS.fullmatch(word) and word.isascii() and 1 <= int(word) <= len(NUMBERS):
        return int(word)
    return None


def _find_number(sentence: Sentence, phrase: NounPhrase) -> tuple[int, int] | None:
    """Index and value of the one number that counts the noun of a phrase."""
    numbers = [
        (i, read_number(sentence.at(i).low))
        for i in range(phrase.first, phrase.nouns)
        if sentence.at(i).tag == "CD" or read_number(sentence.at(i).low) is not None
    ]
    if len(numbers) != 1:
        return None
    at, value = numbers[0]
    if value is None:
        return None
    before, after = sentence.at(at - 1), sentence.at(at + 1)
    if not SIGNS.isdisjoint((before.low, after.low)) or before.low in ("these", "those"):
        return None
    if after.low in ("way", "star", "story", "time"):
        return None  # “a one way sign”
    rest = {token.low for token in sentence.tokens[phrase.end :]}
    head = sentence.tokens[phrase.head].low
    plural = singularize(head) != head or head in INVARIABLE_NOUNS or head in PLURAL_ONLY
    if not rest.isdisjoint(PART_WORDS) or plural != (value > 1) or head in PLURAL_ONLY:
        return None  # “two dogs, one of them brown”; “a three factor model”
    return at, value


def _agreement_edits(
    sentence: Sentence, phrase: NounPhrase, at: int, old: int, new: int
) -> list[tuple[int, int, str]] | None:
    """Edits for number agreement between one and many; None where it cannot be decided."""
    if (old == 1) == (new == 1):
        return []
    words = {token.low for token in sentence.tokens}
    if not words.isdisjoint(SINGULAR_WORDS if old == 1 else PLURAL_WORDS):
        return None
    noun, owned = sentence.at(phrase.head), sentence.object_head(phrase.end + 1)
    shared = owned is not None and singularize(owned.low) != owned.low
    if old > 1 and shared and sentence.at(phrase.end).low in ("in", "with", "wearing"):
        return None  # “two men in black shirts”
    turned = pluralize(noun.low) if old == 1 else singularize(noun.low)
    if turned == noun.low:
        return None
    verbs: Mapping[str, str] = PLURAL_VERBS if old == 1 else {b: a for a, b in PLURAL_VERBS.items()}
    ahead, behind = _verb_before(sentence, at, verbs), _verb_after(sentence, phrase.end, verbs)
    if ahead is None or behind is None:
        return None
    return [(noun.start, noun.end, turned), *ahead, *behind]


def _verb_before(
    sentence: Sentence, at: int, verbs: Mapping[str, str]
) -> list[tuple[int, int, str]] | None:
    """Edit of the “is” of “there is exactly one”."""
    i = at - 1
    while sentence.at(i).low in ADVERBS or sentence.at(i).tag == "RB":
        i -= 1
    token = sentence.at(i)
    if i < 0 or token.low not in FINITE_VERBS:
        return []
    if token.low in verbs and sentence.at(i - 1).low in ("there", "here"):
        return [(token.start, token.end, verbs[token.low])]
    return None


def _verb_after(
    sentence: Sentence, end: int, verbs: Mapping[str, str]
) -> list[tuple[int, int, str]] | None:
    """Edit of the verb whose subject the noun is; none where no finite verb follows."""
    i = end
    while sentence.at(i).low in ADVERBS or sentence.at(i).tag == "RB":
        i += 1
    token = sentence.at(i)
    if i < len(sentence.tokens) and token.low in verbs:
        return [(token.start, token.end, verbs[token.low])]
    started = sentence.at(0).low in ("there", "here")
    if token.low in ("and", "of", "or"):
        return None
    rest = [
        one for one in sentence.tokens[i:]
        if one.low in FINITE_VERBS or one.tag in ("VBZ", "VBP", "VB", "VBD")
    ]  # fmt: skip
    return None if rest and not started else []
