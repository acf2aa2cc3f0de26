"""Minimal changes: the caption with one slot replaced, swapped or added, so that it is false.

Every change takes the caption, the scene it is true of and a generator, and returns a caption that
is false of the scene beyond doubt, or None where there is none. New values are drawn uniformly
from their class, or by the weights given ("the wrong word is as common as the right one").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from contrapose.world.captions.additions import add
from contrapose.world.captions.caption import Caption
from contrapose.world.captions.changing import (
    VALUES,
    Change,
    Weights,
    first_false,
    ordered,
    with_mention,
    word_for,
)
from contrapose.world.captions.describe import relation_word
from contrapose.world.captions.draws import Draws
from contrapose.world.captions.words import ATTRIBUTES, Slot
from contrapose.world.relations import RELATIONS
from contrapose.world.scene import MOST_THINGS, Scene

__all__ = [
    "CHANGES",
    "VALUES",
    "Change",
    "Weights",
    "replace_count",
    "replace_relation",
    "swap_attribute",
    "swap_relation",
]


def _replacing(slot: Slot) -> Change:
    """The change that puts another value into one slot of one mention."""

    def change(
        caption: Caption,
        scene: Scene,
        rng: np.random.Generator,
        *,
        weights: Weights | None = None,
    ) -> Caption | None:
        draws = Draws(rng)

        def candidates() -> Iterator[Caption]:
            for i in draws.shuffled(range(len(caption.mentions))):
                mention = caption.mentions[i]
                old = mention.value(slot)
                if old is None:
                    continue
                place = mention.word(slot).place
                for value in ordered([v for v in VALUES[slot] if v != old], draws, weights):
                    word = word_for(caption, slot, value, draws, place)
                    yield with_mention(caption, i, mention.saying(slot, value, word))

        return first_false(candidates(), scene)

    change.__doc__ = f"Another {slot} for one of the things."
    return change


def replace_relation(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Another relation between the same two things."""
    if caption.relation is None:
        return None
    draws = Draws(rng)
    others = ordered([each for each in RELATIONS if each != caption.relation], draws, weights)
    changed = (
        replace(caption, relation=each, relation_word=relation_word(each, draws)) for each in others
    )
    return first_false(changed, scene)


def replace_count(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Another number for one of the groups that are counted."""
    if caption.kind != "count":
        return None
    draws = Draws(rng)
    numbers = [str(number) for number in range(1, MOST_THINGS + 1)]

    def candidates() -> Iterator[Caption]:
        for i in draws.shuffled(range(len(caption.mentions))):
            mention = caption.mentions[i]
            for number in ordered([n for n in numbers if int(n) != mention.count], draws, weights):
                yield with_mention(caption, i, mention.counting(int(number)))

    return first_false(candidates(), scene)


def swap_attribute(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """One attribute exchanged between two things, with the words that say it.

    Weights name the slots: {"color": 1} swaps colours only.
    """
    draws = Draws(rng)

    def candidates() -> Iterator[Caption]:
        for slot in ordered(ATTRIBUTES, draws, weights):
            for i, j in draws.shuffled(list(combinations(range(len(caption.mentions)), 2))):
                one, other = caption.mentions[i], caption.mentions[j]
                first, second = one.value(slot), other.value(slot)
                if first is None or second is None or first == second:
                    continue
                new = one.saying(slot, second, other.choice(slot))
                new_other = other.saying(slot, first, one.choice(slot))
                if not (new.crowded or new_other.crowded):
                    yield with_mention(with_mention(caption, i, new), j, new_other)

    return first_false(candidates(), scene)


def swap_relation(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """The two things change places around the relation. Nothing is drawn."""
    if caption.relation is None:
        return None
    return first_false([replace(caption, mentions=caption.mentions[::-1])], scene)


CHANGES: Mapping[str, Change] = {
    "replace-color": _replacing("color"),
    "replace-shape": _replacing("shape"),
    "replace-size": _replacing("size"),
    "replace-material": _replacing("material"),
    "replace-relation": replace_relation,
    "replace-count": replace_count,
    "swap-attribute": swap_attribute,
    "swap-relation": swap_relation,
    "add": add,
}
"""Every change by the name of the subset that it makes."""
