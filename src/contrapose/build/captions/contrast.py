"""Hard negatives by one word: an attribute, object, relation or number for another of its class.

A contrast is taken from another side of the table's class, so that it cannot be true as well: not
“big” for “large”. Nouns keep their number, verbs their form, and articles are repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from contrapose.build.captions.change import Rewrite, rewrite
from contrapose.build.captions.inflection import VerbForm, plural, singular, verb_forms
from contrapose.build.captions.lexicon import Contrast, lexicon, relation_phrases, side_of
from contrapose.build.captions.sentence import OBJECT_STARTS, Sentence, matches

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = re.compile(r"\d{1,2}")
FARTHEST = 3
"""How far a number is moved at most."""
AGREEING = {"is": "are", "was": "were", "has": "have"}
COLOURS = "colour"
ENDS = frozenset(("left", "right", "foreground", "background"))
"""Last words of relations that need no noun after them."""
COMPOUNDS = frozenset(
    ("hot dog", "teddy bear", "fire truck", "pick up", "tennis ball", "soccer ball", "high chair")
)
"""Words that are not what their last or first word says."""


def attributes(sentence: Sentence) -> Iterator[Rewrite]:
    """One attribute for another that excludes it: red for blue, open for closed."""
    for i, token in enumerate(sentence.tokens):
        phrase = sentence.phrase_of(i)
        in_front = phrase is not None and i < phrase.nouns
        said = sentence.at(i - 1).low in ("is", "are", "was", "were") and not in_front
        if not (in_front or said) or _in_compound(sentence, i):
            continue
        for name, sides in lexicon().attributes.items():
            side = side_of(sides).get(token.low)
            if side is None or (name == COLOURS and _has_two_colours(sentence, i)):
                continue
            for other, words in enumerate(sides):
                if other != side:
                    edit = (token.start, token.end, words[0])
                    yield rewrite(sentence.caption, "attribute", [edit])


def objects(sentence: Sentence) -> Iterator[Rewrite]:
    """One noun for another of its class, that is not a sort of it: cat for dog, not puppy.

    What the caption names already is left out: “a dog and a dog” is no likely caption.
    """
    there = {singular(token.low) for token in sentence.tokens}
    for phrase in sentence.phrases:
        token = sentence.tokens[phrase.head]
        if _in_compound(sentence, phrase.head) or phrase.nouns != phrase.head:
            continue
        base = singular(token.low)
        many = base != token.low or token.tag == "NNS"
        for sides in lexicon().objects.values():
            side = side_of(sides).get(base)
            side = side_of(sides).get(token.low) if side is None else side
            if side is None:
                continue
            for other, words in enumerate(sides):
                if other != side and there.isdisjoint(words):
                    word = plural(singular(words[0])) if many else words[0]
                    if many or singular(words[0]) == words[0]:
                        edit = (token.start, token.end, word)
                        yield rewrite(sentence.caption, "object", [edit])


def relations(sentence: Sentence) -> Iterator[Rewrite]:
    """One relation for another that excludes it: under for on, pulling for pushing."""
    at = 0
    while at < len(sentence.tokens):
        end = _longest(sentence, at)
        for contrast, side, form in _known().get(sentence.lower(at, end), ()):
            if form is None and not _placed(sentence, end, contrast):
                continue
            if form is not None and not _acts(sentence, at, contrast):
                continue
            for other, instead in enumerate(contrast.sides):
                if other != side:
                    words = instead[0] if form is None else verb_forms(instead[0])[form]
                    edit = (*sentence.span(at, end), words)
                    yield rewrite(sentence.caption, "relation", [edit])
        at = end


def numbers(sentence: Sentence) -> Iterator[Rewrite]:
    """One number for another, with the noun and “is” made to agree."""
    for phrase in sentence.phrases:
        counted = [
            i for i in range(phrase.first, phrase.nouns)
            if sentence.at(i).low in NUMBERS or DIGITS.fullmatch(sentence.at(i).low)
        ]  # fmt: skip
        if len(counted) != 1 or sentence.at(counted[0] - 1).low in ("no", "number"):
            continue
        token = sentence.tokens[counted[0]]
        value = NUMBERS.index(token.low) + 1 if token.low in NUMBERS else int(token.low)
        if not 1 <= value <= len(NUMBERS):
            continue
        for new in range(max(1, value - FARTHEST), min(len(NUMBERS), value + FARTHEST) + 1):
            edits = None if new == value else _agreeing(sentence, phrase.head, value, new)
            if edits is not None:
                word = str(new) if token.low.isdigit() else NUMBERS[new - 1]
                edits = [(token.start, token.end, word), *edits]
                yield rewrite(sentence.caption, "number", edits)


def _agreeing(
    sentence: Sentence, head: int, old: int, new: int
) -> list[tuple[int, int, str]] | None:
    """What else changes between one and many; None where it cannot be told."""
    if (old == 1) == (new == 1):
        return []
    noun, after = sentence.at(head), sentence.at(head + 1)
    turned = plural(noun.low) if old == 1 else singular(noun.low)
    if (turned == noun.low and old != 1) or (old == 1 and noun.tag == "NNS"):
        return None
    edits = [(noun.start, noun.end, turned)]
    verbs: Mapping[str, str] = AGREEING if old == 1 else {b: a for a, b in AGREEING.items()}
    if after.low in verbs:
        edits.append((after.start, after.end, verbs[after.low]))
    elif after.tag in ("VBZ", "VBP", "VB") or after.low in ("and", "of"):
        return None
    return edits


@cache
def _known() -> Mapping[tuple[str, ...], Sequence[tuple[Contrast, int, VerbForm | None]]]:
    """Of the words of each relation its contrasts, the side it stands on, and a verb's form."""
    found: dict[tuple[str, ...], list[tuple[Contrast, int, VerbForm | None]]] = {}
    for contrast in lexicon().relations:
        for side, phrases in enumerate(contrast.sides):
            for phrase in phrases:
                if contrast.verbs:
                    for form, word in verb_forms(phrase).items():
                        if lexicon().verbs[word] == (phrase, form):
                            found.setdefault((word,), []).append((contrast, side, form))
                elif not contrast.only or phrase in contrast.only:
                    found.setdefault(tuple(phrase.split()), []).append((contrast, side, None))
    return found


def _longest(sentence: Sentence, at: int) -> int:
    """The end of the longest relation that starts here, so that “in front of” is no “in”."""
    first = sentence.tokens[at].low
    for words in relation_phrases().get(first, ()):
        if matches(sentence.tokens, at, words):
            return at + len(words)
    return at + 1


def _acts(sentence: Sentence, at: int, contrast: Contrast) -> bool:
    """Whether a word is a verb, does or does not take an object as it should, and who does it."""
    takes = sentence.at(at + 1).tag.startswith(OBJECT_STARTS)
    if contrast.intransitive == takes or not _is_verb(sentence, at):
        return False
    if contrast.subjects:
        subject = max((one for one in sentence.phrases if one.end <= at), key=lambda one: one.end,
                      default=None)  # fmt: skip
        head = "" if subject is None else sentence.tokens[subject.head].low
        if not lexicon().classes(head) & contrast.subjects:
            return False
    return _placed(sentence, at + 1, contrast)


def _is_verb(sentence: Sentence, at: int) -> bool:
    token, before = sentence.tokens[at], sentence.at(at - 1)
    if sentence.at(at + 1).tag == "RP" or sentence.at(at + 1).low in ("up", "down", "out", "off"):
        return False
    return (
        token.is_verb
        and before.tag not in ("DT", "PRP$", "JJ")
        and (token.tag in ("VBG", "VBZ") or before.is_noun or before.low in ("is", "are", "to"))
    )


def _placed(sentence: Sentence, end: int, contrast: Contrast) -> bool:
    """Whether what follows is what the contrast is about."""
    head = sentence.object_head(end)
    if contrast.objects or contrast.words:
        return head is not None and bool(
            lexicon().classes(head.low) & contrast.objects or head.low in contrast.words
        )
    return contrast.verbs or head is not None or sentence.tokens[end - 1].low in ENDS


def _has_two_colours(sentence: Sentence, at: int) -> bool:
    """“red and white”: one of the two alone makes a caption that may still be true."""
    return "and" in (sentence.at(at - 1).low, sentence.at(at + 1).low) and any(
        lexicon().is_attribute(sentence.at(at + i).low) for i in (-2, 2)
    )


def _in_compound(sentence: Sentence, at: int) -> bool:
    pairs = (at - 1, at), (at, at + 1)
    words = [f"{sentence.at(i).low} {singular(sentence.at(j).low)}" for i, j in pairs]
    return not COMPOUNDS.isdisjoint(words)
