"""Hard positives SWAP: exchange the two sides of “and” where the meaning stays.

Four forms are accepted: two adjectives of one noun (“a blue and white clock”), two verb phrases
(“wearing glasses and holding a bottle”), two noun phrases (“a couch and a television in a room”),
and two noun phrases with what they do (“a lady wearing skis and a man holding poles”). Everything
else is refused, and so are ambiguous captions:

- more than one “and”, a comma or other list marks, an “or”, a negation;
- a pronoun, whose noun might change;
- an of-phrase on either side (“a piece of cake and a fork”), but for things that are made of both
  (“a mixture of rice and broccoli”);
- an adjective that may belong to both (“a red shirt and hat”);
- “a man with a hat and a dog”: what comes last may belong to the man or stand beside him;
- “a dog and a man with a hat”: what follows belongs to the last one alone;
- set phrases (“salt and pepper”, “black and white photo”);
- a swap that does not, swapped again, give the caption back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from contrapose.build.captions.edits import Rewrite, diff_captions, fit_article
from contrapose.build.captions.lexicon import (
    PLURAL_ONLY,
    is_article,
    load_lexicon,
    load_table,
    pluralize,
    singularize,
    word_list,
)
from contrapose.build.captions.sentence import (
    BE_FORMS,
    NounPhrase,
    Sentence,
    parse_sentence,
)
from contrapose.data.tagging import Tagger

SWAP_KIND = "swap-and"
LIST_MARKS = re.compile(r"[,;:()/&\"“”]|\s[-–—]\s|\s['’](?:\s|\Z)|[.!?]\s+\S")
REFERRING_WORDS = word_list("referring")
"""Words that refer to something else in the caption, or whose scope a swap could change."""

MADE_OF_BOTH = word_list("made_of_both")
SET_PHRASES = frozenset(frozenset(pair.split()) for pair in load_table("words.json")["set_phrases"])
IMAGE_NOUNS = word_list("pictures")
LOCATIVE_PREPOSITIONS = word_list("placing")
"""Prepositions of place: they hold of both sides."""
MASS_NOUNS = word_list("mass")
POSTURES = word_list("postures")
"""Verbs of posture, which take no object and hold of both sides."""


@dataclass(frozen=True, slots=True)
class _Conjuncts:
    """Token ranges of the two conjuncts around “and”."""

    first: int
    middle: int
    end: int


def swap_conjuncts(sentence: Sentence, tagger: Tagger = "textblob") -> Rewrite | None:
    """Exchange the two sides of “and”; None where that is unsafe."""
    made = _swap_once(sentence)
    if made is None or made == sentence.caption:
        return None
    if _swap_once(parse_sentence(made, tagger)) != sentence.caption:
        return None
    return diff_captions(sentence.caption, made, SWAP_KIND)


def _swap_once(sentence: Sentence) -> str | None:
    low = [token.low for token in sentence.tokens]
    if low.count("and") != 1 or LIST_MARKS.search(sentence.caption.rstrip()):
        return None
    if not REFERRING_WORDS.isdisjoint(low) or any(word.endswith(("n't", "n’t")) for word in low):
        return None
    middle = low.index("and")
    if middle == 0 or middle + 1 >= len(low):
        return None
    if frozenset((low[middle - 1], low[middle + 1])) in SET_PHRASES:
        return None
    for find in (_find_adjectives, _find_clauses, _find_verb_phrases, _find_noun_phrases):
        sides = find(sentence, middle)
        if sides is not None:
            return _exchange_sides(sentence, sides)
    return None


def _find_adjectives(sentence: Sentence, middle: int) -> _Conjuncts | None:
    """Two adjectives: “a blue and white clock”, “the bus is red and white”."""
    left, right = sentence.at(middle - 1), sentence.at(middle + 1)
    if not (_is_adjective(left.tag, left.low) and _is_adjective(right.tag, right.low)):
        return None
    phrase = sentence.phrase_of(middle + 1)
    after = sentence.at(middle + 2)
    if phrase is not None and middle + 1 < phrase.nouns:
        head, start = sentence.tokens[phrase.head].low, sentence.at(middle - 2).low
        if head in IMAGE_NOUNS or (is_article(start) and not _is_singular(head)):
            return None
        return _Conjuncts(middle - 1, middle, middle + 2)
    ends = after.tag in ("", "IN", ".") or after.low in (".", "!")
    if sentence.at(middle - 2).low in BE_FORMS and ends:
        return _Conjuncts(middle - 1, middle, middle + 2)
    return None


def _is_adjective(tag: str, word: str) -> bool:
    return tag.startswith("JJ") or load_lexicon().is_attribute(word)


def _find_clauses(sentence: Sentence, middle: int) -> _Conjuncts | None:
    """Two like clauses that fill the caption: “a lady wearing skis and a man holding poles”."""
    stop = _last_word_end(sentence)
    shapes = [_clause_shape(sentence, 0, middle), _clause_shape(sentence, middle + 1, stop)]
    if shapes[0] is None or shapes[0] != shapes[1]:
        return None
    # “a boy in jeans and a shirt chases bubbles”: the shirt may be the boy's.
    left, right = sentence.phrase_to(middle), sentence.phrase_from(middle + 1)
    kinds = [
        load_lexicon().classes(sentence.at(one.head).low)
        for one in (left, right)
        if one is not None
    ]
    return None if kinds[0] & kinds[-1] else _Conjuncts(0, middle, stop)


def _clause_shape(sentence: Sentence, first: int, end: int) -> tuple[str, ...] | None:
    """Shape of a clause: two noun phrases joined by a verb form or a locative preposition."""
    subject = sentence.phrase_from(first)
    joint = sentence.at(subject.end) if subject is not None else sentence.at(-1)
    other = None if subject is None else sentence.phrase_from(subject.end + 1)
    if subject is None or other is None or other.end != end:
        return None
    if joint.tag in ("VBG", "VBZ") and joint.low not in BE_FORMS:
        joining = joint.tag
    elif joint.low in LOCATIVE_PREPOSITIONS:
        joining = joint.low
    else:
        return None
    return "determined" if subject.determined else "bare", joining


def _find_verb_phrases(sentence: Sentence, middle: int) -> _Conjuncts | None:
    """Two verb phrases of one form: “wearing glasses and holding a bottle”."""
    form = sentence.at(middle + 1).tag
    if form not in ("VBG", "VBZ"):
        return None
    first = next((i for i in range(middle - 1, -1, -1) if sentence.at(i).is_verb), None)
    if first is None or sentence.at(first).tag != form or first == 0:
        return None
    others = [
        token for i, token in enumerate(sentence.tokens)
        if token.is_verb and i not in (first, middle + 1) and token.low not in BE_FORMS
    ]  # fmt: skip
    stop = _last_word_end(sentence)
    takes = [
        _is_complement(sentence, first + 1, middle),
        _is_complement(sentence, middle + 2, stop),
    ]
    # “cutting and preparing a pizza”: what follows the second verb may belong to the first.
    bare = [first + 1 == middle, middle + 2 == stop]
    if others or not all(takes) or bare[0] != bare[1]:
        return None
    return _Conjuncts(first, middle, stop)


def _is_complement(sentence: Sentence, at: int, end: int) -> bool:
    """Whether a range holds only noun phrases and prepositions, and no of-phrase."""
    while at < end:
        phrase = sentence.phrase_from(at)
        if phrase is not None and phrase.end <= end:
            at = phrase.end
        elif sentence.at(at).tag in ("IN", "TO", "RP", "RB") and sentence.at(at).low != "of":
            at += 1
        else:
            return False
    return True


def _find_noun_phrases(sentence: Sentence, middle: int) -> _Conjuncts | None:
    left, right = sentence.phrase_to(middle), sentence.phrase_from(middle + 1)
    if left is None or right is None:
        return None
    leading = left.first == 0 or all(one.first >= left.first for one in sentence.phrases)
    safe = (
        _is_independent(sentence, left, right)
        and _has_safe_end(sentence, right, leading=leading)
        and _has_safe_start(sentence, left, right, leading=leading)
    )
    return _Conjuncts(left.first, middle, right.end) if safe else None


def _is_independent(sentence: Sentence, left: NounPhrase, right: NounPhrase) -> bool:
    """Whether no determiner or adjective of the left may belong to the right as well."""
    bare = not right.determined and not right.modifiers
    owned = {sentence.at(i).tag for one in (left, right) for i in range(one.first, one.end)}
    if "PRP$" in owned or (bare and right.nouns != right.head):  # “a pineapple and ham pizza”
        return False
    if left.determined == right.determined:
        return left.determined or bool(left.modifiers) == bool(right.modifiers)
    if not left.determined:  # “trees and a house”
        return not right.modifiers or bool(left.modifiers)
    if not is_article(sentence.at(left.first).low):
        return False
    # “a white shirt and black tie” (the article serves both), or “a house and tall trees”.
    alike = bool(left.modifiers) == bool(right.modifiers)
    compound = any(one.nouns != one.head for one in (left, right)) and not left.modifiers
    if _is_singular(sentence.at(right.head).low):
        return alike and not compound and sentence.at(right.head).low not in MASS_NOUNS
    return bool(right.modifiers) or alike


def _has_safe_end(sentence: Sentence, right: NounPhrase, *, leading: bool) -> bool:
    """Whether what follows the right side holds of both."""
    after = sentence.at(right.end)
    if after.tag in ("", ".") or after.low in (".", "!"):
        return True
    if after.low in LOCATIVE_PREPOSITIONS or _is_compound_preposition(sentence, right.end):
        if right.determined and not leading:  # “a bed and a television on a dresser”
            return False
        dressed = sentence.object_head(right.end + 1)
        return dressed is None or "clothing" not in load_lexicon().classes(dressed.low)
    return leading and after.low in POSTURES


def _is_compound_preposition(sentence: Sentence, at: int) -> bool:
    """Whether “next to” or “in front of” stands at an index."""
    words = [sentence.at(at + i).low for i in range(3)]
    return words[:2] == ["next", "to"] or words == ["in", "front", "of"]


def _has_safe_start(
    sentence: Sentence, left: NounPhrase, right: NounPhrase, *, leading: bool
) -> bool:
    """Whether what precedes the left side holds of both."""
    before = sentence.at(left.first - 1)
    if before.low == "of":
        bare = not left.determined and not right.determined
        return bare and sentence.at(left.first - 2).low in MADE_OF_BOTH
    single = _is_singular(sentence.at(right.head).low) and not _has_number(sentence, right)
    counted = before.low in BE_FORMS and sentence.at(left.first - 2).low == "there"
    if counted or before.low in ("is", "was"):
        return single == (before.low in ("is", "was"))
    if left.first == 0 or leading or before.low in BE_FORMS or before.low == "between":
        return True
    kinds = [load_lexicon().classes(sentence.at(one.head).low) for one in (left, right)]
    living = [bool(kind & {"person", "animal"}) for kind in kinds]
    known = [sentence.at(one.first).low == "the" for one in (left, right)]
    if living[0] != living[1] or known[0] != known[1]:  # “sheep on the road and a car”
        return False
    if all(living) or before.low == "wearing":
        return living[0] == (before.low != "wearing")
    # Things of one kind go together; others do where neither has an article of its own.
    return bool(kinds[0] & kinds[1]) or not right.determined or before.low == "with"


def _has_number(sentence: Sentence, phrase: NounPhrase) -> bool:
    return any(sentence.at(i).tag == "CD" for i in range(phrase.first, phrase.end))


def _is_singular(noun: str) -> bool:
    return (singularize(noun) == noun and noun not in PLURAL_ONLY) or (
        pluralize(noun) != noun and not noun.endswith("s")
    )


def _last_word_end(sentence: Sentence) -> int:
    """Index after the last word, without the full stop."""
    end = len(sentence.tokens)
    while end and not sentence.tokens[end - 1].low[0].isalnum():
        end -= 1
    return end


def _exchange_sides(sentence: Sentence, sides: _Conjuncts) -> str | None:
    if sides.end <= sides.middle + 1:
        return None
    first = sides.first
    if _shares_article(sentence, sides):
        first += 1
    left = sentence.text(first, sides.middle)
    right = sentence.text(sides.middle + 1, sides.end)
    start, _ = sentence.span(first, sides.middle)
    _, end = sentence.span(sides.middle + 1, sides.end)
    between = sentence.caption[
        sentence.at(sides.middle - 1).end : sentence.at(sides.middle + 1).start
    ]
    if left[0].isupper() and first == 0:
        if left.split()[0].isupper() and len(left.split()[0]) > 1:
            return None
        left, right = left[0].lower() + left[1:], right[0].upper() + right[1:]
    head = sentence.caption[:start]
    before = sentence.at(first - 1) if first else None
    if before is not None and is_article(before.low):
        article = fit_article(sentence.caption, before.text, right.split()[0])
        head = sentence.caption[: before.start] + article + sentence.caption[before.end : start]
    return f"{head}{right}{between}{left}{sentence.caption[end:]}"


def _shares_article(sentence: Sentence, sides: _Conjuncts) -> bool:
    """Whether one article serves both sides: “a white shirt and black tie”."""
    left, right = sentence.phrase_to(sides.middle), sentence.phrase_from(sides.middle + 1)
    return (
        left is not None
        and right is not None
        and left.first == sides.first
        and is_article(sentence.at(left.first).low)
        and not right.determined
        and right.end == sides.end
        and _is_singular(sentence.at(right.head).low)
    )
