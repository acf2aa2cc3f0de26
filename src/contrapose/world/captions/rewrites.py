"""Rewrites that keep the meaning: what was true stays true.

Each takes a caption and a generator, and returns a caption of other words or another order, or
None where the caption does not allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from contrapose.world.captions.caption import Caption
from contrapose.world.captions.words import RELATION_WORDS, SLOTS, WORDS
from contrapose.world.relations import OPPOSITE

Rewrite = Callable[[Caption, np.random.Generator], Caption | None]


def synonym(caption: Caption, rng: np.random.Generator) -> Caption | None:
    """One word by another that means the same, in the same place of the sentence."""
    rewritten = [*_other_words(caption), *_other_relations(caption)]
    text = caption.text
    rewritten = [each for each in rewritten if each.text != text]
    return rewritten[int(rng.integers(len(rewritten)))] if rewritten else None


def converse(caption: Caption, rng: np.random.Generator) -> Caption | None:
    """The relation seen from the other side: "A left of B" becomes "B right of A"."""
    if caption.relation is None:
        return None
    relation = OPPOSITE[caption.relation]
    word = min(caption.relation_word, len(RELATION_WORDS[relation]) - 1)
    return replace(caption, mentions=caption.mentions[::-1], relation=relation, relation_word=word)


def exchange_and(caption: Caption, rng: np.random.Generator) -> Caption | None:
    """The two sides of "and" change places."""
    if caption.kind not in {"and", "count"} or len(caption.mentions) != 2:
        return None
    return replace(caption, mentions=caption.mentions[::-1])


def _other_words(caption: Caption) -> list[Caption]:
    found = []
    for i, mention in enumerate(caption.mentions):
        for slot in SLOTS:
            value = mention.value(slot)
            if value is None and slot != "shape":
                continue
            place = mention.word(slot).place
            for choice, word in enumerate(WORDS[slot][value]):
                if choice != mention.choice(slot) and word.place == place:
                    mentions = list(caption.mentions)
                    mentions[i] = mention.saying(slot, value, choice)
                    found.append(replace(caption, mentions=tuple(mentions)))
    return found


def _other_relations(caption: Caption) -> list[Caption]:
    if caption.relation is None:
        return []
    return [
        replace(caption, relation_word=choice)
        for choice in range(len(RELATION_WORDS[caption.relation]))
        if choice != caption.relation_word
    ]


REWRITES: Mapping[str, Rewrite] = {
    "synonym": synonym,
    "converse": converse,
    "exchange-and": exchange_and,
}
"""Every rewrite by its name."""
