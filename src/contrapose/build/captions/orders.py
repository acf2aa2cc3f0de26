"""Hard negatives by word order: ARO's four shuffles, with the caption's case and end marks.

ARO's captions are in lower case without a full stop, which alone would give them away. An order
that may still be read like the caption is drawn again, and left out after `DRAWS` draws: “across
the grass a dog runs”, “a wet, black dog” for “a black, wet dog”, “the dog on a bed” for “a dog on
the bed”.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from contrapose.build.captions.edits import Rewrite, diff_captions
from contrapose.build.captions.lexicon import word_list
from contrapose.build.captions.sentence import BE_FORMS, Sentence, Token
from contrapose.build.captions.verification import reads_alike
from contrapose.data.tagging import (
    join_words,
    shuffle_nouns_and_adjectives,
    shuffle_other_words,
    shuffle_trigrams,
    shuffle_within_trigrams,
)

END_MARKS = ".!?"
NOUNS_ADJECTIVES, OTHERS, WITHIN_TRIGRAMS, TRIGRAMS = ORDER_KINDS = (
    "order-nouns-adjectives", "order-others", "order-within-trigrams", "order-trigrams",
)  # fmt: skip
DRAWS = 12
"""Draws of an order before it is given up."""
PROPER_WORDS = word_list("proper")
DANGLING_TAGS = frozenset(("DT", "PRP$", "CC", "IN", "TO"))
"""Tags of words that cannot end a caption."""
LIGHT_TAGS = ("DT", "RB", "PDT", ",", ":")
"""Tags of words that change no relation where they move."""
LIGHT_WORDS = frozenset(("there", "outside", "inside", "outdoors", "nearby", "together"))
AFTER_DETERMINER = ("NN", "JJ", "CD", "VBG", "VBN", "RB")
AFTER_PREPOSITION = ("NN", "JJ", "CD", "DT", "PRP", "PDT", "VBG", "VB", "IN", "RB", "EX")

Order = list[int]


def shuffle_words(sentence: Sentence, seed: int) -> Iterator[Rewrite]:
    """Shuffle the caption's words in four ways; orders that may keep the meaning are left out."""
    stop = len(sentence.caption)
    while stop and (
        sentence.caption[stop - 1].isspace() or sentence.caption[stop - 1] in END_MARKS
    ):
        stop -= 1
    tokens = [token for token in sentence.tokens if token.start < stop]
    if len(tokens) < 2:
        return
    first = tokens[0]
    capital = first.text[0].isupper() and not (first.text.isupper() and len(first.text) > 1)
    texts = [token.text for token in tokens]
    if capital and first.low not in PROPER_WORDS:
        texts[0] = texts[0][0].lower() + texts[0][1:]
    digest = hashlib.blake2b(sentence.caption.encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    for kind in ORDER_KINDS:
        for _ in range(DRAWS):
            order = _draw_order(kind, tokens, rng)
            words = [texts[i] for i in order]
            if words == texts or keeps_meaning(kind, tokens, order):
                continue
            text = join_words(words)
            text = text[0].upper() + text[1:] if capital else text
            text += sentence.caption[stop:]
            if not reads_alike(sentence.caption, text):
                yield diff_captions(sentence.caption, text, kind)
                break


def _draw_order(kind: str, tokens: Sequence[Token], rng: np.random.Generator) -> Order:
    """Draw one order of a kind, as token indices."""
    names = [str(i) for i in range(len(tokens))]
    tagged = [(name, token.tag) for name, token in zip(names, tokens, strict=True)]
    draws: dict[str, Callable[[], list[str]]] = {
        NOUNS_ADJECTIVES: lambda: shuffle_nouns_and_adjectives(tagged, rng),
        OTHERS: lambda: shuffle_other_words(tagged, rng),
        WITHIN_TRIGRAMS: lambda: shuffle_within_trigrams(names, rng),
        TRIGRAMS: lambda: shuffle_trigrams(names, rng),
    }
    return [int(name) for name in draws[kind]()]


def keeps_meaning(kind: str, tokens: Sequence[Token], order: Order) -> bool:
    """Whether an order may still be read like the caption.

    Nouns and adjectives: where each noun keeps its place and its adjectives, or only the items of a
    list change places. Other orders: where no article or preposition loses what it belongs to, and
    no order of the heavier words changed.
    """
    if kind == NOUNS_ADJECTIVES:
        return _noun_groups(tokens, order) == _noun_groups(tokens, range(len(tokens)))
    if kind == TRIGRAMS and all((b - a) % len(order) == 1 for a, b in pairwise(order)):
        return True  # “on sand a dog runs”
    if kind == OTHERS and [i for i in order if _is_heavy(tokens[i])] != [
        i for i, token in enumerate(tokens) if _is_heavy(token)
    ]:
        return False
    return not _is_broken(tokens, order)


def _is_heavy(token: Token) -> bool:
    """Whether a word changes a relation where it moves."""
    light = token.tag.startswith(LIGHT_TAGS) or token.low in BE_FORMS
    return not light and token.low not in LIGHT_WORDS


def _noun_groups(tokens: Sequence[Token], order: Sequence[int]) -> list[object]:
    """Caption with the adjectives of a noun, and the nouns of a list, in no order."""
    groups: list[object] = []
    nouns: list[tuple[tuple[str, ...], str]] = []
    adjectives: list[str] = []
    for position, i in enumerate(order):
        token, slot = tokens[i], tokens[position]
        if slot.tag.startswith("JJ"):
            adjectives.append(token.low)
        elif slot.tag.startswith("NN"):
            nouns.append((tuple(sorted(adjectives)), token.low))
            adjectives = []
        elif slot.low in ("and", ",", "or"):
            continue
        elif slot.tag != "DT" or not nouns or tokens[position - 1].low not in ("and", ",", "or"):
            groups += [sorted(nouns), sorted(adjectives), token.low]
            nouns, adjectives = [], []
    return [*groups, sorted(nouns), sorted(adjectives)]


def _is_broken(tokens: Sequence[Token], order: Order) -> bool:
    """Whether an article, preposition or verb lost what must follow it."""
    last = tokens[order[-1]]
    if (last.tag in DANGLING_TAGS or last.low in BE_FORMS) and order[-1] != len(tokens) - 1:
        return True
    for a, b in pairwise(order):
        if b == a + 1:
            continue
        first, second = tokens[a], tokens[b]
        if first.tag in ("DT", "PRP$") and not second.tag.startswith(AFTER_DETERMINER):
            return True
        if first.tag in ("IN", "TO") and not second.tag.startswith(AFTER_PREPOSITION):
            return True
        if first.low in BE_FORMS and second.low in BE_FORMS:
            return True
    return False
