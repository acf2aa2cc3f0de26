"""Hard negatives by rule: a contrasting word, an exchange, another word order, a negation.

A contrast is taken from another side of its class in the table, so that it cannot be true as well:
not “big” for “large”. Nouns keep their number, verbs their form, and articles are repaired.

Shuffled captions keep capital and full stop; ARO's are in lower case without one, which alone would
give them away.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from contrapose.build.captions.lexicon import (
    Contrast,
    VerbForm,
    load_lexicon,
    pluralize,
    relation_phrases,
    side_index,
    singularize,
    verb_forms,
    word_list,
)
from contrapose.build.captions.sentence import (
    BE_FORMS,
    OBJECT_STARTS,
    NounPhrase,
    Rewrite,
    Sentence,
    diff_captions,
    edit_caption,
    words_match,
)
from contrapose.data.tagging import (
    join_words,
    shuffle_nouns_and_adjectives,
    shuffle_other_words,
    shuffle_trigrams,
    shuffle_within_trigrams,
)

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = re.compile(r"\d{1,2}")
MAX_NUMBER_SHIFT = 3
"""Largest difference between a number and its replacement."""
PLURAL_VERBS = {"is": "are", "was": "were", "has": "have"}
COLOR_CLASS = "colour"
RELATION_NOUNS = frozenset(("left", "right", "foreground", "background"))
"""Last words of relations that need no noun after them."""
COMPOUNDS = frozenset(
    ("hot dog", "teddy bear", "fire truck", "pick up", "tennis ball", "soccer ball", "high chair")
)
"""Compounds whose meaning is not that of their parts."""


def contrast_attributes(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one attribute by another that excludes it: red by blue, open by closed."""
    for i, token in enumerate(sentence.tokens):
        phrase = sentence.phrase_of(i)
        in_front = phrase is not None and i < phrase.nouns
        said = sentence.at(i - 1).low in ("is", "are", "was", "were") and not in_front
        if not (in_front or said) or _in_compound(sentence, i):
            continue
        for name, sides in load_lexicon().attributes.items():
            side = side_index(sides).get(token.low)
            if side is None or (name == COLOR_CLASS and _has_two_colors(sentence, i)):
                continue
            for other, words in enumerate(sides):
                if other != side:
                    edit = (token.start, token.end, words[0])
                    yield edit_caption(sentence.caption, "attribute", [edit])


def contrast_objects(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one noun by another of its class that is not a sort of it: dog by cat, not puppy.

    Nouns of the caption itself are left out: “a dog and a dog” is an unlikely caption.
    """
    there = {singularize(token.low) for token in sentence.tokens}
    for phrase in sentence.phrases:
        token = sentence.tokens[phrase.head]
        if _in_compound(sentence, phrase.head) or phrase.nouns != phrase.head:
            continue
        base = singularize(token.low)
        many = base != token.low or token.tag == "NNS"
        for sides in load_lexicon().objects.values():
            side = side_index(sides).get(base)
            side = side_index(sides).get(token.low) if side is None else side
            if side is None:
                continue
            for other, words in enumerate(sides):
                if other != side and there.isdisjoint(words):
                    word = pluralize(singularize(words[0])) if many else words[0]
                    if many or singularize(words[0]) == words[0]:
                        edit = (token.start, token.end, word)
                        yield edit_caption(sentence.caption, "object", [edit])


def contrast_relations(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one relation by another that excludes it: on by under, pushing by pulling."""
    at = 0
    while at < len(sentence.tokens):
        end = _longest_relation_end(sentence, at)
        for contrast, side, form in _relation_index().get(sentence.lower(at, end), ()):
            if form is None and not _has_required_object(sentence, end, contrast):
                continue
            if form is not None and not _is_action(sentence, at, contrast):
                continue
            for other, instead in enumerate(contrast.sides):
                if other != side:
                    words = instead[0] if form is None else verb_forms(instead[0])[form]
                    edit = (*sentence.span(at, end), words)
                    yield edit_caption(sentence.caption, "relation", [edit])
        at = end


def contrast_numbers(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one number by another, with the noun and “is” made to agree."""
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
        for new in range(
            max(1, value - MAX_NUMBER_SHIFT), min(len(NUMBERS), value + MAX_NUMBER_SHIFT) + 1
        ):
            edits = None if new == value else _agreement_edits(sentence, phrase.head, value, new)
            if edits is not None:
                word = str(new) if token.low.isdigit() else NUMBERS[new - 1]
                edits = [(token.start, token.end, word), *edits]
                yield edit_caption(sentence.caption, "number", edits)


def _agreement_edits(
    sentence: Sentence, head: int, old: int, new: int
) -> list[tuple[int, int, str]] | None:
    """Edits for number agreement between one and many; None where it cannot be decided."""
    if (old == 1) == (new == 1):
        return []
    noun, after = sentence.at(head), sentence.at(head + 1)
    turned = pluralize(noun.low) if old == 1 else singularize(noun.low)
    if (turned == noun.low and old != 1) or (old == 1 and noun.tag == "NNS"):
        return None
    edits = [(noun.start, noun.end, turned)]
    verbs: Mapping[str, str] = PLURAL_VERBS if old == 1 else {b: a for a, b in PLURAL_VERBS.items()}
    if after.low in verbs:
        edits.append((after.start, after.end, verbs[after.low]))
    elif after.tag in ("VBZ", "VBP", "VB") or after.low in ("and", "of"):
        return None
    return edits


@cache
def _relation_index() -> Mapping[tuple[str, ...], Sequence[tuple[Contrast, int, VerbForm | None]]]:
    """Relation words with their contrasts, their side, and a verb's form."""
    index: dict[tuple[str, ...], list[tuple[Contrast, int, VerbForm | None]]] = {}
    for contrast in load_lexicon().relations:
        for side, phrases in enumerate(contrast.sides):
            for phrase in phrases:
                if contrast.verbs:
                    for form, word in verb_forms(phrase).items():
                        if load_lexicon().verbs[word] == (phrase, form):
                            index.setdefault((word,), []).append((contrast, side, form))
                elif not contrast.only or phrase in contrast.only:
                    index.setdefault(tuple(phrase.split()), []).append((contrast, side, None))
    return index


def _longest_relation_end(sentence: Sentence, at: int) -> int:
    """End of the longest relation that starts here, so that “in front of” is no “in”."""
    first = sentence.tokens[at].low
    for words in relation_phrases().get(first, ()):
        if words_match(sentence.tokens, at, words):
            return at + len(words)
    return at + 1


def _is_action(sentence: Sentence, at: int, contrast: Contrast) -> bool:
    """Whether a word is a verb with the object and subject that the contrast requires."""
    takes = sentence.at(at + 1).tag.startswith(OBJECT_STARTS)
    if contrast.intransitive == takes or not _is_verb(sentence, at):
        return False
    if contrast.subjects:
        subject = max((one for one in sentence.phrases if one.end <= at), key=lambda one: one.end,
                      default=None)  # fmt: skip
        head = "" if subject is None else sentence.tokens[subject.head].low
        if not load_lexicon().classes(head) & contrast.subjects:
            return False
    return _has_required_object(sentence, at + 1, contrast)


def _is_verb(sentence: Sentence, at: int) -> bool:
    token, before = sentence.tokens[at], sentence.at(at - 1)
    if sentence.at(at + 1).tag == "RP" or sentence.at(at + 1).low in ("up", "down", "out", "off"):
        return False
    return (
        token.is_verb
        and before.tag not in ("DT", "PRP$", "JJ")
        and (token.tag in ("VBG", "VBZ") or before.is_noun or before.low in ("is", "are", "to"))
    )


def _has_required_object(sentence: Sentence, end: int, contrast: Contrast) -> bool:
    """Whether the noun that follows is one that the contrast requires."""
    head = sentence.object_head(end)
    if contrast.objects or contrast.words:
        return head is not None and bool(
            load_lexicon().classes(head.low) & contrast.objects or head.low in contrast.words
        )
    return contrast.verbs or head is not None or sentence.tokens[end - 1].low in RELATION_NOUNS


def _has_two_colors(sentence: Sentence, at: int) -> bool:
    """Whether a color is one of two (“red and white”): changing one may keep it true."""
    return "and" in (sentence.at(at - 1).low, sentence.at(at + 1).low) and any(
        load_lexicon().is_attribute(sentence.at(at + i).low) for i in (-2, 2)
    )


def _in_compound(sentence: Sentence, at: int) -> bool:
    pairs = (at - 1, at), (at, at + 1)
    words = [f"{sentence.at(i).low} {singularize(sentence.at(j).low)}" for i, j in pairs]
    return not COMPOUNDS.isdisjoint(words)


QUANTITIES = frozenset(("several", "many", "few", "some", "various", "multiple", "other", "more"))


def exchange_attributes(sentence: Sentence) -> Iterator[Rewrite]:
    """Exchange attributes: “a red cube on a blue ball” to “a blue cube on a red ball”.

    Two numbers are exchanged too, where neither is one: the nouns do not change.
    """
    for left, right in _neighboring_phrases(sentence):
        for i in left.modifiers:
            for j in right.modifiers:
                first, second = sentence.at(i), sentence.at(j)
                if (
                    first.low != second.low
                    and _are_comparable(sentence, i, j)
                    and not _in_conjunction(sentence, i, j)
                ):
                    edits = [
                        (first.start, first.end, _lower_if_first(second.text, j)),
                        (second.start, second.end, _lower_if_first(first.text, i)),
                    ]
                    yield edit_caption(sentence.caption, "exchange-attribute", edits)


def exchange_objects(sentence: Sentence) -> Iterator[Rewrite]:
    """Exchange nouns: “a dog chasing a cat” to “a cat chasing a dog”; attributes stay.

    Both nouns must be of one number, so that articles and verbs still agree.
    """
    for left, right in _neighboring_phrases(sentence):
        a, b = (sentence.text(one.nouns, one.end) for one in (left, right))
        many = [singularize(sentence.at(one.head).low) != sentence.at(one.head).low
                for one in (left, right)]  # fmt: skip
        bare = left.determined == right.determined
        if a.lower() == b.lower() or many[0] != many[1] or not bare:
            continue
        edits = [
            (*sentence.span(left.nouns, left.end), _lower_if_first(b, right.nouns)),
            (*sentence.span(right.nouns, right.end), _lower_if_first(a, left.nouns)),
        ]
        yield edit_caption(sentence.caption, "exchange-object", edits)


def _neighboring_phrases(sentence: Sentence) -> Iterator[tuple[NounPhrase, NounPhrase]]:
    """Neighboring noun phrases; “a piece of cake” is one thing."""
    for left, right in pairwise(sentence.phrases):
        if sentence.at(left.end).low != "of":
            yield left, right


def _are_comparable(sentence: Sentence, i: int, j: int) -> bool:
    """Whether two modifiers are of one class, both unknown, or both numbers."""
    first, second = sentence.at(i), sentence.at(j)
    counts = [one.tag == "CD" for one in (first, second)]
    if counts[0] != counts[1] or {first.low, second.low} & QUANTITIES:
        return False
    if first.tag == "CD":
        return "one" not in (first.low, second.low)
    classes = [
        {
            name
            for name, sides in load_lexicon().attributes.items()
            if any(word in side for side in sides)
        }
        for word in (first.low, second.low)
    ]
    return bool(classes[0] & classes[1]) or not (classes[0] or classes[1])


def _in_conjunction(sentence: Sentence, *positions: int) -> bool:
    """Whether a modifier is one of two (“red and white”), whose other half would stay behind."""
    phrases = [phrase for i in positions if (phrase := sentence.phrase_of(i)) is not None]
    return any("and" in sentence.lower(phrase.first, phrase.nouns) for phrase in phrases)


def _lower_if_first(text: str, position: int) -> str:
    """Lower the capital of a caption's first word where it moves."""
    return text[0].lower() + text[1:] if position == 0 and not text.isupper() else text


ORDER_KINDS = ("order-nouns-adjectives", "order-others", "order-within-trigrams", "order-trigrams")


def shuffle_words(sentence: Sentence, seed: int) -> Iterator[Rewrite]:
    """Shuffle the caption's words in four ways; those that change nothing are left out."""
    stop = len(sentence.caption.rstrip().rstrip(".!?").rstrip())
    tokens = [token for token in sentence.tokens if token.start < stop]
    if len(tokens) < 2:
        return
    capital = tokens[0].text[0].isupper() and not (
        tokens[0].text.isupper() and len(tokens[0].text) > 1
    )
    texts = [token.text for token in tokens]
    if capital:
        texts[0] = texts[0][0].lower() + texts[0][1:]
    tagged = [(text, token.tag) for text, token in zip(texts, tokens, strict=True)]
    digest = hashlib.blake2b(sentence.caption.encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    orders = (
        shuffle_nouns_and_adjectives(tagged, rng),
        shuffle_other_words(tagged, rng),
        shuffle_within_trigrams(texts, rng),
        shuffle_trigrams(texts, rng),
    )
    for kind, words in zip(ORDER_KINDS, orders, strict=True):
        if words != texts:
            text = join_words(words)
            text = text[0].upper() + text[1:] if capital else text
            yield diff_captions(sentence.caption, text + sentence.caption[stop:], kind)


NEGATION_KIND = "negation"
NEGATION_WORDS = word_list("negations")


def negate(sentence: Sentence) -> Iterator[Rewrite]:
    """Negate one part of the caption; a caption with a negation gives none.

    “is running” becomes “is not running”, “a man riding” “a man not riding”, “with” “without”, and
    “there is a” “there is no”.
    """
    low = [token.low for token in sentence.tokens]
    if not NEGATION_WORDS.isdisjoint(low) or any(word.endswith(("n't", "n’t")) for word in low):
        return
    for i, token in enumerate(sentence.tokens):
        edits = _negation_edit(sentence, i)
        if edits is not None:
            yield edit_caption(sentence.caption, NEGATION_KIND, [edits], articles=False)
        if token.low in BE_FORMS:
            return  # what follows is part of what “is not”


def _negation_edit(sentence: Sentence, at: int) -> tuple[int, int, str] | None:
    token, before, after = sentence.at(at), sentence.at(at - 1), sentence.at(at + 1)
    if token.low in BE_FORMS and before.low == "there":
        if after.low in ("a", "an", "some", "many", "several"):
            return after.start, after.end, "no"
        return (token.end, token.end, " no") if after.is_noun or after.tag == "JJ" else None
    if token.low in BE_FORMS and after.text and at > 0:
        return token.end, token.end, " not"
    if token.low == "with" and sentence.phrase_from(at + 1) is not None and before.is_noun:
        return token.start, token.end, "without"
    if token.tag == "VBG" and before.is_noun and sentence.phrase_to(at) is not None:
        return token.start, token.start, "not "
    return None
