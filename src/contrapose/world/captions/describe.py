"""Generation of captions that are true of a scene beyond doubt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from contrapose.world.captions.caption import (
    KINDS,
    LISTING_WEIGHTS,
    RELATION_TEMPLATE_WEIGHTS,
    Caption,
    Kind,
    Mention,
)
from contrapose.world.captions.truth import matching_things
from contrapose.world.captions.words import RELATION_WORDS, SLOTS, WORDS, Slot, WordPosition
from contrapose.world.sample import CumulativeWeights, Draws, cumulative_weights
from contrapose.world.scene import Relation, Scene, Thing, relations_between

MENTION_RATES: Mapping[Slot, float] = {
    "shape": 0.97,
    "color": 0.85,
    "size": 0.25,
    "material": 0.25,
    "pattern": 0.45,
}
"""Probability that each slot is mentioned at detail 0.5, unless its value is unmarked."""
COUNTED_MENTION_RATES: Mapping[Slot, float] = {
    "shape": 0.85,
    "color": 0.5,
    "size": 0.1,
    "material": 0.1,
    "pattern": 0.1,
}
"""The same for counted things: the fewer slots, the more things fit."""
UNMARKED = frozenset({"medium", "plain"})
"""Values that are mentioned only to distinguish things."""
COLOR_FIRST_RATE = 0.35
"""Probability that the color stands before the pattern: "a red striped ball"."""

_WORD_WEIGHTS: Mapping[Slot, Mapping[str | None, CumulativeWeights]] = {
    slot: {
        value: cumulative_weights([word.weight for word in words]) for value, words in table.items()
    }
    for slot, table in WORDS.items()
}


def draw_word(
    slot: Slot, value: str | None, draws: Draws, position: WordPosition | None = None
) -> int:
    """Draw by weight the index of a value's word; in the given position if it has one there."""
    choice = draws.pick(_WORD_WEIGHTS[slot][value])
    if position is None or WORDS[slot][value][choice].position == position:
        return choice
    there = [i for i, word in enumerate(WORDS[slot][value]) if word.position == position]
    if not there:
        return choice
    weights = [WORDS[slot][value][i].weight for i in there]
    return draws.by_weight(there, weights)[0]


def mention_thing(
    scene: Scene, thing: int, rivals: Sequence[int], draws: Draws, detail: float
) -> Mention | None:
    """Mention a thing so that it fits none of its rivals; None if one of them looks the same."""
    it = scene.things[thing]
    slots = _draw_slots(it, draws, detail, plural=False)
    left = [scene.things[rival] for rival in rivals]
    for slot in slots:
        value = getattr(it, slot)
        left = [rival for rival in left if getattr(rival, slot) == value]
    while left:
        distinctive = [
            slot
            for slot in SLOTS
            if slot not in slots
            and any(getattr(rival, slot) != getattr(it, slot) for rival in left)
        ]
        if not distinctive:
            return None
        slot = draws.one_of(distinctive)
        value = getattr(it, slot)
        slots.append(slot)
        left = [rival for rival in left if getattr(rival, slot) == value]
    return _draw_words(it, thing, slots, draws)


def harmonize_words(mentions: Sequence[Mention]) -> tuple[Mention, ...]:
    """Use one noun per shape and one word per color in all mentions.

    "a red cube and a gray block" would sound as if a block were no cube.
    """
    nouns: dict[str | None, int] = {}
    colors: dict[str | None, int] = {}
    result = []
    for mention in mentions:
        noun = nouns.setdefault(mention.shape, mention.shape_word)
        color = colors.setdefault(mention.color, mention.color_word)
        same = noun == mention.shape_word and color == mention.color_word
        result.append(mention if same else replace(mention, shape_word=noun, color_word=color))
    return tuple(result)


def draw_mention(
    it: Thing, thing: int | None, draws: Draws, detail: float, *, plural: bool = False
) -> Mention:
    """Draw a mention of a thing, whatever else it fits."""
    return _draw_words(it, thing, _draw_slots(it, draws, detail, plural=plural), draws)


@lru_cache(maxsize=64)
def _mention_chances(detail: float, plural: bool) -> tuple[tuple[Slot, float], ...]:
    """Probability of mentioning each slot: the table's at detail 0.5, none at 0, all at 1."""
    table = COUNTED_MENTION_RATES if plural else MENTION_RATES
    if detail <= 0:
        return tuple((slot, float(slot == "shape")) for slot in SLOTS)
    return tuple((slot, table[slot] ** ((1 - detail) / detail)) for slot in SLOTS)


def _draw_slots(it: Thing, draws: Draws, detail: float, *, plural: bool) -> list[Slot]:
    slots: list[Slot] = [
        slot
        for slot, chance in _mention_chances(detail, plural)
        if draws.uniform() < chance and getattr(it, slot) not in UNMARKED
    ]
    return slots if slots or plural else ["shape"]


def _draw_words(it: Thing, thing: int | None, slots: Sequence[Slot], draws: Draws) -> Mention:
    material = pattern = 0
    shape = it.shape if "shape" in slots else None
    noun = draws.pick(_WORD_WEIGHTS["shape"][shape])
    color = draws.pick(_WORD_WEIGHTS["color"][it.color]) if "color" in slots else 0
    size = draws.pick(_WORD_WEIGHTS["size"][it.size]) if "size" in slots else 0
    if "material" in slots:
        material = draws.pick(_WORD_WEIGHTS["material"][it.material])
    if "pattern" in slots:
        pattern = draws.pick(_WORD_WEIGHTS["pattern"][it.pattern])
        words = WORDS["pattern"][it.pattern]
        if (
            words[pattern].position == "after"
            and "material" in slots
            and WORDS["material"][it.material][material].position == "after"
        ):
            pattern = 0
    order = int("pattern" in slots and "color" in slots and draws.uniform() < COLOR_FIRST_RATE)
    return Mention(
        thing,
        shape,
        it.color if "color" in slots else None,
        it.size if "size" in slots else None,
        it.material if "material" in slots else None,
        it.pattern if "pattern" in slots else None,
        1,
        noun,
        color,
        size,
        material,
        pattern,
        0,
        order,
    )


TRAINING_KIND_WEIGHTS: Mapping[Kind, float] = {
    "relation": 0.62,
    "and": 0.17,
    "one": 0.06,
    "count": 0.09,
    "list": 0.06,
}
"""Probability that each kind of caption is tried first for training data."""
DETAIL = 0.5
"""Default detail of a mention: 0 only what is needed, 1 everything."""

_KIND_WEIGHTS = cumulative_weights((0.15, 0.2, 0.1, 0.15, 0.4))
_RELATION_WEIGHTS: Mapping[Relation, tuple[float, ...]] = {
    relation: cumulative_weights([word.weight for word in words])
    for relation, words in RELATION_WORDS.items()
}
_COUNT_TRIES = 6
_COUNT_ONE_RATE = 0.2
"""Probability that a count of one is accepted before another group is tried."""


def describe(
    scene: Scene, rng: np.random.Generator, kind: Kind | None = None, *, detail: float = DETAIL
) -> Caption | None:
    """Draw a random caption that is true of the scene beyond doubt.

    In a relation each mention fits one thing of the scene only; in an enumeration no mention fits
    another mentioned thing; counts are exact.

    Args:
        scene: the scene to describe.
        rng: source of all choices.
        kind: kind of caption; None draws one that is possible here.
        detail: how much is mentioned of each thing, from 0 to 1.

    Returns:
        The caption; None if the scene allows none of that kind.
    """
    draws = Draws(rng)
    if kind is not None:
        return _DESCRIBERS[kind](scene, draws, detail)
    drawn = KINDS[draws.pick(_KIND_WEIGHTS)]
    for way in (_DESCRIBERS[drawn], _describe_two, _describe_one):
        caption = way(scene, draws, detail)
        if caption is not None:
            return caption
    return None


def relate(
    scene: Scene,
    first: int,
    relation: Relation,
    second: int,
    rng: np.random.Generator,
    *,
    detail: float = DETAIL,
) -> Caption | None:
    """Caption of a given relation between two things; None if they cannot be told apart.

    The caller ensures that the relation holds.
    """
    return _relate_things(scene, first, relation, second, Draws(rng), detail)


def draw_relation_word(relation: Relation, draws: Draws) -> int:
    """Draw by weight the index of a relation's word."""
    return draws.pick(_RELATION_WEIGHTS[relation])


def _describe_one(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    thing = draws.below(len(scene.things))
    mention = mention_thing(scene, thing, (), draws, detail)
    return None if mention is None else _make_listing("one", [mention], draws)


def _describe_two(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    return _describe_several(scene, 2, draws, detail)


def _describe_list(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    size = 4 if len(scene.things) > 3 and draws.uniform() < 0.25 else 3
    return _describe_several(scene, size, draws, detail)


def _describe_several(scene: Scene, size: int, draws: Draws, detail: float) -> Caption | None:
    """Describe several distinct things, leaving out those that look like an earlier one."""
    chosen: list[int] = []
    looks: list[tuple[object, ...]] = []
    for thing in draws.shuffle(range(len(scene.things))):
        it = scene.things[thing]
        look = (it.shape, it.color, it.size, it.material, it.pattern)
        if look not in looks and len(chosen) < size:
            chosen.append(thing)
            looks.append(look)
    if len(chosen) < size:
        return None
    mentions = []
    for thing in chosen:
        rivals = [other for other in chosen if other != thing]
        mention = mention_thing(scene, thing, rivals, draws, detail)
        if mention is None:
            return None
        mentions.append(mention)
    return _make_listing("and" if size == 2 else "list", mentions, draws)


def _describe_counts(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    first = _draw_group(scene, range(len(scene.things)), draws, detail)
    if first is None:
        return None
    mentions, counted = [first[0]], first[1]
    while len(mentions) < 3 and draws.uniform() < 0.4:
        others = [i for i in range(len(scene.things)) if i not in counted]
        more = _draw_group(scene, others, draws, detail) if others else None
        if more is None:
            break
        mentions.append(more[0])
        counted = counted + more[1]
    if any(mention.count > 1 for mention in mentions):
        # "two cubes and a ball" is as clear as "and one ball", but "a ball" alone counts nothing.
        mentions = [
            mention.with_count(1, 1) if mention.count == 1 and draws.uniform() < 0.4 else mention
            for mention in mentions
        ]
    return _make_listing("count", mentions, draws)


def _draw_group(
    scene: Scene, among: Sequence[int], draws: Draws, detail: float
) -> tuple[Mention, list[int]] | None:
    """Draw a mention and all things that it fits, preferring several things to one."""
    best: tuple[Mention, list[int]] | None = None
    for _ in range(_COUNT_TRIES):
        mention = draw_mention(scene.things[draws.one_of(among)], None, draws, detail, plural=True)
        things = matching_things(mention, scene)
        if any(thing not in among for thing in things):
            continue
        best = (mention, things)
        if len(things) > 1 or draws.uniform() < _COUNT_ONE_RATE:
            break
    if best is None:
        return None
    mention, things = best
    return mention.with_count(len(things)), things


def _describe_relation(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    places = range(len(scene.things))
    for first, second in draws.shuffle([(i, j) for i in places for j in places if i != j]):
        held = relations_between(scene, first, second)
        if held:
            caption = _relate_things(scene, first, draws.one_of(held), second, draws, detail)
            if caption is not None:
                return caption
    return None


def _relate_things(
    scene: Scene, first: int, relation: Relation, second: int, draws: Draws, detail: float
) -> Caption | None:
    mentions = []
    for thing in (first, second):
        rivals = [other for other in range(len(scene.things)) if other != thing]
        mention = mention_thing(scene, thing, rivals, draws, detail)
        if mention is None:
            return None
        mentions.append(mention)
    template = draws.pick(RELATION_TEMPLATE_WEIGHTS)
    return Caption(
        "relation",
        harmonize_words(mentions),
        relation,
        template,
        draw_relation_word(relation, draws),
    )


def _make_listing(kind: Kind, mentions: Sequence[Mention], draws: Draws) -> Caption:
    return Caption(kind, harmonize_words(mentions), template=draws.pick(LISTING_WEIGHTS))


_DESCRIBERS: Mapping[Kind, Callable[[Scene, Draws, float], Caption | None]] = {
    "one": _describe_one,
    "and": _describe_two,
    "list": _describe_list,
    "count": _describe_counts,
    "relation": _describe_relation,
}
