"""Two scenes that differ in one slot, and two captions that tell them apart.

Nearly every part of the benchmark is made of these. A 2 × 2 example shows both scenes. A 1 × 2
example of the balanced form shows one of the two, which one being decided by a coin: then each of
the captions is the right one equally often, whatever the language prior says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from contrapose.world.benchmark import edit
from contrapose.world.benchmark.pair import (
    Maker,
    Pair,
    described,
    first_pair,
    saying,
    two_things,
    with_mention,
)
from contrapose.world.captions import Kind
from contrapose.world.captions.describe import relation_word
from contrapose.world.captions.draws import Draws
from contrapose.world.captions.mentioning import draw_word
from contrapose.world.captions.truth import fitting
from contrapose.world.captions.words import RELATION_WORDS, Slot
from contrapose.world.relations import OPPOSITE, RELATIONS, Relation
from contrapose.world.scene import COLORS, MATERIALS, MOST_THINGS, SHAPES, Scene

SIDES: tuple[Relation, ...] = ("left of", "right of", "in front of", "behind")
CONTRASTS: Mapping[Slot, Sequence[str]] = {
    "shape": SHAPES,
    "color": tuple(COLORS),
    "size": ("small", "large"),
    "material": MATERIALS,
    "pattern": ("striped", "checkered"),
}
"""What a slot can be changed from and to; "medium" and "plain" are hardly ever said."""
PLAIN_KINDS: tuple[Kind, ...] = ("one", "and", "relation", "relation")
PAIR_KINDS: tuple[Kind, ...] = ("and", "relation")


def replaced(slot: Slot, kinds: Sequence[Kind] = PLAIN_KINDS) -> Maker:
    """Another colour, shape, size, material or pattern of one thing."""

    def make(scene: Scene, rng: np.random.Generator) -> Pair | None:
        caption = described(scene, rng, kinds)
        if caption is None:
            return None
        draws = Draws(rng)
        i = draws.below(len(caption.mentions))
        index = caption.mentions[i].thing
        if index is None:
            return None
        old = getattr(scene.things[index], slot)
        if old not in CONTRASTS[slot]:
            return None
        caption = with_mention(caption, i, saying(caption.mentions[i], slot, old, draws))
        mention = caption.mentions[i]
        place = mention.word(slot).place
        others = [value for value in CONTRASTS[slot] if value != old]

        def pairs() -> Iterator[Pair]:
            for value in draws.shuffled(others):
                changed = mention.saying(slot, value, draw_word(slot, value, draws, place))
                yield Pair(
                    scene,
                    caption,
                    scene.edited(index, **{slot: value}),
                    with_mention(caption, i, changed),
                    {slot: (str(old), value)},
                )

        return first_pair(pairs())

    return make


def replaced_relation(scene: Scene, rng: np.random.Generator) -> Pair | None:
    """Any other relation between the same two things."""
    return _related(scene, rng, lambda now: [each for each in RELATIONS if each != now])


def relocated(scene: Scene, rng: np.random.Generator) -> Pair | None:
    """The opposite relation; what was on top or under stands beside."""
    return _related(scene, rng, lambda now: [OPPOSITE[now]] if now in SIDES else list(SIDES))


def swapped_relation(scene: Scene, rng: np.random.Generator) -> Pair | None:
    """The two things change places around the relation."""
    caption = described(scene, rng, ("relation",))
    if caption is None or caption.relation is None:
        return None
    first, second = two_things(caption)
    other = replace(caption, mentions=caption.mentions[::-1])
    draws = Draws(rng)
    scenes = edit.rearranged(scene, second, caption.relation, first, draws)
    tags = {"relation": caption.relation}
    return first_pair(Pair(scene, caption, moved, other, tags) for moved in scenes)


def swapped_color(scene: Scene, rng: np.random.Generator) -> Pair | None:
    """The colours of two things change places."""
    caption = described(scene, rng, PAIR_KINDS)
    if caption is None or len(caption.mentions) != 2:
        return None
    first, second = two_things(caption)
    one, other = scene.things[first].color, scene.things[second].color
    if one == other:
        return None
    draws = Draws(rng)
    left, right = (
        saying(mention, "color", color, draws)
        for mention, color in zip(caption.mentions, (one, other), strict=True)
    )
    caption = replace(caption, mentions=(left, right))
    mentions = (
        left.saying("color", other, right.color_word),
        right.saying("color", one, left.color_word),
    )
    swapped = scene.edited(first, color=other).edited(second, color=one)
    tags = {"color": (one, other)}
    return first_pair([Pair(scene, caption, swapped, replace(caption, mentions=mentions), tags)])


def recounted(scene: Scene, rng: np.random.Generator) -> Pair | None:
    """Another number of like things."""
    caption = described(scene, rng, ("count",))
    if caption is None:
        return None
    draws = Draws(rng)
    i = draws.below(len(caption.mentions))
    mention = caption.mentions[i]
    group = fitting(mention, scene)
    most = MOST_THINGS - len(scene.things) + mention.count
    least = 1 if len(scene.things) > mention.count or mention.count > 1 else mention.count
    numbers = [number for number in range(least, most + 1) if number != mention.count]

    def pairs() -> Iterator[Pair]:
        for number in draws.shuffled(numbers):
            extra = number - mention.count
            like = group[draws.below(len(group))]
            changed = (
                edit.more(scene, like, extra, draws)
                if extra > 0
                else edit.fewer(scene, group, -extra, draws)
            )
            if changed is not None:
                other = with_mention(caption, i, mention.counting(number))
                tags = {"count": (str(mention.count), str(number))}
                yield Pair(scene, caption, changed, other, tags)

    return first_pair(pairs())


def one_of(makers: Mapping[str, Maker], tag: str) -> Maker:
    """One of several makers, drawn uniformly and named in a tag."""
    names = tuple(makers)

    def make(scene: Scene, rng: np.random.Generator) -> Pair | None:
        name = names[int(rng.integers(len(names)))]
        pair = makers[name](scene, rng)
        return None if pair is None else replace(pair, tags={tag: name, **pair.tags})

    return make


def _related(
    scene: Scene, rng: np.random.Generator, others: Callable[[Relation], list[Relation]]
) -> Pair | None:
    caption = described(scene, rng, ("relation",))
    if caption is None or caption.relation is None:
        return None
    now = caption.relation
    draws = Draws(rng)
    first, second = two_things(caption)

    def pairs() -> Iterator[Pair]:
        for relation in draws.shuffled(others(now)):
            word = relation_word(relation, draws)
            if relation == OPPOSITE[now]:
                word = min(caption.relation_word, len(RELATION_WORDS[relation]) - 1)
            other = replace(caption, relation=relation, relation_word=word)
            for moved in edit.rearranged(scene, first, relation, second, draws):
                yield Pair(scene, caption, moved, other, {"relation": (now, relation)})

    return first_pair(pairs())
