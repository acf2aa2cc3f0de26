"""Caption changes: minimal ones that make a caption false, and rewrites that keep its meaning.

A change takes the caption, the scene it is true of and a generator, and returns a caption that is
false of the scene beyond doubt, or None where there is none. New values are drawn uniformly from
their class, or by the weights given. A rewrite takes a caption and a generator, and returns a
caption with other words or another order, or None where the caption does not allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Protocol, TypeVar

import numpy as np

from contrapose.world.captions.caption import Caption, Mention
from contrapose.world.captions.describe import draw_relation_word, draw_word
from contrapose.world.captions.truth import is_true
from contrapose.world.captions.words import (
    ATTRIBUTES,
    RELATION_WORDS,
    SLOTS,
    WORDS,
    Slot,
    WordPosition,
)
from contrapose.world.sample import Draws
from contrapose.world.scene import (
    COLORS,
    MATERIALS,
    MOST_THINGS,
    OPPOSITE,
    RELATIONS,
    SHAPES,
    Scene,
)

S = TypeVar("S", bound=str)
Weights = Mapping[str, float]
"""Relative frequency of each value; others are never drawn. Counts are named "1" … "5"."""


class CaptionChange(Protocol):
    """A change that makes a true caption false."""

    def __call__(
        self,
        caption: Caption,
        scene: Scene,
        rng: np.random.Generator,
        *,
        weights: Weights | None = None,
    ) -> Caption | None:
        """Return the changed caption, or None if this change cannot make it false."""


VALUES: Mapping[Slot, Sequence[str]] = {
    "shape": SHAPES,
    "color": tuple(COLORS),
    "size": ("small", "large"),
    "material": MATERIALS,
    "pattern": ("striped", "checkered"),
}
"""Values that a slot can be changed from and to; "medium" and "plain" are hardly ever said."""


def shuffle_values(values: Sequence[S], draws: Draws, weights: Weights | None) -> list[S]:
    """Shuffle values uniformly, or by weight."""
    if weights is None:
        return draws.shuffle(values)
    return draws.by_weight(values, [weights.get(value, 0.0) for value in values])


def choose_word(
    caption: Caption, slot: Slot, value: str, draws: Draws, position: WordPosition | None = None
) -> int:
    """Index of the word the caption already uses for a shape or color; else one drawn by weight."""
    if slot in {"shape", "color"}:
        for mention in caption.mentions:
            if mention.value(slot) == value:
                return mention.choice(slot)
    return draw_word(slot, value, draws, position)


def first_false(captions: Iterable[Caption], scene: Scene) -> Caption | None:
    """First caption that is false of the scene beyond doubt."""
    return next((caption for caption in captions if is_true(caption, scene) is False), None)


_OBJECT_TRIES = 8
_OBJECT_COLOR_RATE = 0.85


def add_detail(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Add a false attribute or a thing that is not there; the caption grows longer.

    Weights name the values: shapes, colors and so on. A caption of a relation gets attributes
    only.
    """
    draws = Draws(rng)
    ways = [_add_attributes, _add_objects]
    if draws.uniform() < 0.5:
        ways.reverse()
    for way in ways:
        changed = first_false(way(caption, scene, draws, weights), scene)
        if changed is not None:
            return changed
    return None


def _add_attributes(
    caption: Caption, scene: Scene, draws: Draws, weights: Weights | None
) -> Iterator[Caption]:
    gaps = [
        (i, slot)
        for i, mention in enumerate(caption.mentions)
        for slot in ATTRIBUTES
        if mention.value(slot) is None
    ]
    for i, slot in draws.shuffle(gaps):
        mention = caption.mentions[i]
        thing = None if mention.thing is None else scene.things[mention.thing]
        if slot == "size" and (thing is None or thing.size == "medium"):
            continue  # its truth is in doubt
        for value in shuffle_values(VALUES[slot], draws, weights):
            said = mention.with_value(slot, value, choose_word(caption, slot, value, draws))
            yield caption.with_mention(i, mention.with_value(slot, value) if said.crowded else said)


def _add_objects(
    caption: Caption, scene: Scene, draws: Draws, weights: Weights | None
) -> Iterator[Caption]:
    if caption.kind == "relation" or len(caption.mentions) >= 4:
        return
    kind = caption.kind
    if kind != "count":
        kind = "and" if kind == "one" else "list"
    for _ in range(_OBJECT_TRIES):
        for shape in shuffle_values(VALUES["shape"], draws, weights)[:1]:
            mention = Mention(None, None).with_value(
                "shape", shape, choose_word(caption, "shape", shape, draws)
            )
            for color in shuffle_values(VALUES["color"], draws, weights)[:1]:
                if draws.uniform() < _OBJECT_COLOR_RATE:
                    mention = mention.with_value(
                        "color", color, choose_word(caption, "color", color, draws)
                    )
            yield replace(caption, kind=kind, mentions=(*caption.mentions, mention))


def _make_replacement(slot: Slot) -> CaptionChange:
    """Make the change that replaces the value of one slot of one mention."""

    def change(
        caption: Caption,
        scene: Scene,
        rng: np.random.Generator,
        *,
        weights: Weights | None = None,
    ) -> Caption | None:
        draws = Draws(rng)

        def candidates() -> Iterator[Caption]:
            for i in draws.shuffle(range(len(caption.mentions))):
                mention = caption.mentions[i]
                old = mention.value(slot)
                if old is None:
                    continue
                position = mention.word(slot).position
                for value in shuffle_values([v for v in VALUES[slot] if v != old], draws, weights):
                    word = choose_word(caption, slot, value, draws, position)
                    yield caption.with_mention(i, mention.with_value(slot, value, word))

        return first_false(candidates(), scene)

    change.__doc__ = f"Another {slot} for one of the things."
    return change


def replace_relation(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Replace the relation between the two things."""
    if caption.relation is None:
        return None
    draws = Draws(rng)
    others = shuffle_values(
        [relation for relation in RELATIONS if relation != caption.relation], draws, weights
    )
    changed = (
        replace(caption, relation=relation, relation_word=draw_relation_word(relation, draws))
        for relation in others
    )
    return first_false(changed, scene)


def replace_count(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Replace the number of one of the counted groups."""
    if caption.kind != "count":
        return None
    draws = Draws(rng)
    numbers = [str(number) for number in range(1, MOST_THINGS + 1)]

    def candidates() -> Iterator[Caption]:
        for i in draws.shuffle(range(len(caption.mentions))):
            mention = caption.mentions[i]
            for number in shuffle_values(
                [n for n in numbers if int(n) != mention.count], draws, weights
            ):
                yield caption.with_mention(i, mention.with_count(int(number)))

    return first_false(candidates(), scene)


def swap_attribute(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Swap one attribute, with its words, between two things.

    Weights name the slots: {"color": 1} swaps colors only.
    """
    draws = Draws(rng)

    def candidates() -> Iterator[Caption]:
        for slot in shuffle_values(ATTRIBUTES, draws, weights):
            for i, j in draws.shuffle(list(combinations(range(len(caption.mentions)), 2))):
                one, other = caption.mentions[i], caption.mentions[j]
                first, second = one.value(slot), other.value(slot)
                if first is None or second is None or first == second:
                    continue
                new = one.with_value(slot, second, other.choice(slot))
                new_other = other.with_value(slot, first, one.choice(slot))
                if not (new.crowded or new_other.crowded):
                    yield caption.with_mention(i, new).with_mention(j, new_other)

    return first_false(candidates(), scene)


def swap_relation(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """Swap the two things around the relation; deterministic."""
    if caption.relation is None:
        return None
    return first_false([replace(caption, mentions=caption.mentions[::-1])], scene)


CHANGES: Mapping[str, CaptionChange] = {
    "replace-color": _make_replacement("color"),
    "replace-shape": _make_replacement("shape"),
    "replace-size": _make_replacement("size"),
    "replace-material": _make_replacement("material"),
    "replace-relation": replace_relation,
    "replace-count": replace_count,
    "swap-attribute": swap_attribute,
    "swap-relation": swap_relation,
    "add": add_detail,
}
"""Every change by the name of the subset that it makes."""


CaptionRewrite = Callable[[Caption, np.random.Generator], Caption | None]


def replace_synonym(caption: Caption, rng: np.random.Generator) -> Caption | None:
    """Replace one word by a synonym in the same position of the sentence."""
    variants = [*_synonym_variants(caption), *_relation_variants(caption)]
    text = caption.text
    variants = [variant for variant in variants if variant.text != text]
    return variants[int(rng.integers(len(variants)))] if variants else None


def invert_relation(caption: Caption, rng: np.random.Generator) -> Caption | None:
    """Invert the relation: "A left of B" becomes "B right of A"."""
    if caption.relation is None:
        return None
    relation = OPPOSITE[caption.relation]
    word = min(caption.relation_word, len(RELATION_WORDS[relation]) - 1)
    return replace(caption, mentions=caption.mentions[::-1], relation=relation, relation_word=word)


def swap_mentions(caption: Caption, rng: np.random.Generator) -> Caption | None:
    """Swap the two mentions around "and"."""
    if caption.kind not in {"and", "count"} or len(caption.mentions) != 2:
        return None
    return replace(caption, mentions=caption.mentions[::-1])


def _synonym_variants(caption: Caption) -> list[Caption]:
    variants = []
    for i, mention in enumerate(caption.mentions):
        for slot in SLOTS:
            value = mention.value(slot)
            if value is None and slot != "shape":
                continue
            position = mention.word(slot).position
            for choice, word in enumerate(WORDS[slot][value]):
                if choice != mention.choice(slot) and word.position == position:
                    variants.append(
                        caption.with_mention(i, mention.with_value(slot, value, choice))
                    )
    return variants


def _relation_variants(caption: Caption) -> list[Caption]:
    if caption.relation is None:
        return []
    return [
        replace(caption, relation_word=choice)
        for choice in range(len(RELATION_WORDS[caption.relation]))
        if choice != caption.relation_word
    ]


REWRITES: Mapping[str, CaptionRewrite] = {
    "synonym": replace_synonym,
    "converse": invert_relation,
    "exchange-and": swap_mentions,
}
"""Every rewrite by its name."""
