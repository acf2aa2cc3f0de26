"""Scene pairs that differ in one slot, each with a caption that is false of the other scene.

Nearly every part of the benchmark consists of these. A 2 × 2 example shows both scenes. A 1 × 2
example of the balanced form shows one of the two, chosen by a coin toss: then each caption is the
right one equally often, whatever the language prior says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from contrapose.data import TagValue
from contrapose.world.benchmark.arrangement import (
    add_copies,
    exchange_indices,
    is_alone,
    is_valid,
    locate_things,
    rearrange,
    remove_things,
)
from contrapose.world.captions import Caption, Kind, Mention, describe, is_true, relate
from contrapose.world.captions.changes import VALUES
from contrapose.world.captions.describe import draw_relation_word, draw_word
from contrapose.world.captions.truth import matching_things
from contrapose.world.captions.words import RELATION_WORDS, Slot
from contrapose.world.sample import Draws, cumulative_weights
from contrapose.world.scene import MOST_THINGS, OPPOSITE, RELATIONS, Relation, Scene, holds


@dataclass(frozen=True, slots=True)
class ScenePair:
    """Two scenes and two captions, each caption true of its own scene and false of the other.

    Attributes:
        scene: the scene that was drawn.
        caption: its caption.
        other_scene: the scene with one slot changed.
        other_caption: the caption of the other scene.
        tags: description of the change.
    """

    scene: Scene
    caption: Caption
    other_scene: Scene
    other_caption: Caption
    tags: Mapping[str, TagValue] = field(default_factory=dict)

    @property
    def opposite(self) -> ScenePair:
        """The pair with its two sides exchanged."""
        return ScenePair(
            self.other_scene, self.other_caption, self.scene, self.caption,
            {name: v[::-1] if isinstance(v, tuple) else v for name, v in self.tags.items()},
        )  # fmt: skip

    @property
    def holds(self) -> bool:
        """Whether each caption is true of its own scene and false of the other, beyond doubt."""
        return (
            is_true(self.caption, self.scene) is True
            and is_true(self.other_caption, self.scene) is False
            and is_true(self.other_caption, self.other_scene) is True
            and is_true(self.caption, self.other_scene) is False
        )


PairMaker = Callable[[Scene, np.random.Generator], ScenePair | None]
"""Makes a pair from a scene; None if this scene does not allow one."""


def describe_as(scene: Scene, rng: np.random.Generator, kinds: Sequence[Kind]) -> Caption | None:
    """Describe a scene in one of these kinds; a count of one is always worded "one"."""
    caption = describe(scene, rng, kinds[int(rng.integers(len(kinds)))])
    if caption is None or caption.kind != "count":
        return caption
    return replace(
        caption, mentions=tuple(replace(mention, number_word=0) for mention in caption.mentions)
    )


def say_slot(mention: Mention, slot: Slot, value: str, draws: Draws) -> Mention:
    """Mention a slot's value if the mention leaves it out."""
    if mention.value(slot) is not None:
        return mention
    return mention.with_value(slot, value, draw_word(slot, value, draws))


def mentioned_pair(caption: Caption) -> tuple[int, int]:
    """Indices of the things behind the two mentions of a caption."""
    first, second = (mention.thing for mention in caption.mentions)
    if first is None or second is None:
        raise ValueError("these mentions stand for things")
    return first, second


def first_valid_pair(pairs: Iterable[ScenePair]) -> ScenePair | None:
    """First pair whose other scene is valid and whose captions separate the two."""
    return next((pair for pair in pairs if is_valid(pair.other_scene) and pair.holds), None)


LOCATIONS: tuple[Relation, ...] = ("left of", "right of", "in front of", "behind", "on top of")
"""Locations of EqBen's synthetic part; of two captions each has another one."""
_LOCATION_PAIRS = tuple(combinations(LOCATIONS, 2))
_LOCATION_WEIGHTS = cumulative_weights(
    [2.5 if "on top of" in two else 1.0 for two in _LOCATION_PAIRS]
)
"""Few scenes allow a pile: with these odds every two locations end up about equally often."""
PLAIN_KINDS: tuple[Kind, ...] = ("one", "and", "relation", "relation")
PAIR_KINDS: tuple[Kind, ...] = ("and", "relation")


def replace_slot(slot: Slot, kinds: Sequence[Kind] = PLAIN_KINDS) -> PairMaker:
    """Make pairs with another color, shape, size, material or pattern of one thing."""

    def make(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
        caption = describe_as(scene, rng, kinds)
        if caption is None:
            return None
        draws = Draws(rng)
        i = draws.below(len(caption.mentions))
        index = caption.mentions[i].thing
        if index is None:
            return None
        old = getattr(scene.things[index], slot)
        if old not in VALUES[slot]:
            return None
        caption = caption.with_mention(i, say_slot(caption.mentions[i], slot, old, draws))
        mention = caption.mentions[i]
        position = mention.word(slot).position
        others = [value for value in VALUES[slot] if value != old]

        def pairs() -> Iterator[ScenePair]:
            for value in draws.shuffle(others):
                changed = mention.with_value(slot, value, draw_word(slot, value, draws, position))
                yield ScenePair(
                    scene,
                    caption,
                    scene.edit_thing(index, **{slot: value}),
                    caption.with_mention(i, changed),
                    {slot: (str(old), value)},
                )

        return first_valid_pair(pairs())

    return make


def replace_relation(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
    """Pair with any other relation between the same two things."""
    caption = describe_as(scene, rng, ("relation",))
    if caption is None or caption.relation is None:
        return None
    now = caption.relation
    draws = Draws(rng)
    first, second = mentioned_pair(caption)

    def pairs() -> Iterator[ScenePair]:
        for relation in draws.shuffle([other for other in RELATIONS if other != now]):
            word = draw_relation_word(relation, draws)
            if relation == OPPOSITE[now]:
                word = min(caption.relation_word, len(RELATION_WORDS[relation]) - 1)
            other = replace(caption, relation=relation, relation_word=word)
            for moved in rearrange(scene, first, relation, second, draws):
                yield ScenePair(scene, caption, moved, other, {"relation": (now, relation)})

    return first_valid_pair(pairs())


def relocate(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
    """Pair with any two of EqBen's locations, of the same two things in both scenes.

    The two locations are drawn first. Where no two things of the scene stand as the first one says,
    one of them is moved there before the pair is made.
    """
    draws = Draws(rng)
    now, then = draws.shuffle(_LOCATION_PAIRS[draws.pick(_LOCATION_WEIGHTS)])
    indices = range(len(scene.things))
    ordered = draws.shuffle([(i, j) for i in indices for j in indices if i != j])
    ordered.sort(key=lambda two: not holds(scene, two[0], now, two[1]))

    def pairs() -> Iterator[ScenePair]:
        for one, two in ordered:
            base, first, second = scene, one, two
            if "on top of" in (now, then) and first < second:
                if not (is_alone(scene, first) and is_alone(scene, second)):
                    continue
                base, first, second = exchange_indices(scene, first, second), second, first
            start = locate_things(base, first, now, second, draws)
            caption = None if start is None else relate(start, first, now, second, rng)
            if start is None or caption is None:
                continue
            word = draw_relation_word(then, draws)
            if then == OPPOSITE[now]:
                word = min(caption.relation_word, len(RELATION_WORDS[then]) - 1)
            other = replace(caption, relation=then, relation_word=word)
            for moved in rearrange(start, first, then, second, draws):
                yield ScenePair(start, caption, moved, other, {"relation": (now, then)})

    return first_valid_pair(pairs())


def swap_relation(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
    """Pair with the two things swapped around the relation."""
    caption = describe_as(scene, rng, ("relation",))
    if caption is None or caption.relation is None:
        return None
    first, second = mentioned_pair(caption)
    other = replace(caption, mentions=caption.mentions[::-1])
    draws = Draws(rng)
    scenes = rearrange(scene, second, caption.relation, first, draws)
    tags = {"relation": caption.relation}
    return first_valid_pair(ScenePair(scene, caption, moved, other, tags) for moved in scenes)


def swap_colors(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
    """Pair with the colors of two things swapped."""
    caption = describe_as(scene, rng, PAIR_KINDS)
    if caption is None or len(caption.mentions) != 2:
        return None
    first, second = mentioned_pair(caption)
    one, other = scene.things[first].color, scene.things[second].color
    if one == other:
        return None
    draws = Draws(rng)
    left, right = (
        say_slot(mention, "color", color, draws)
        for mention, color in zip(caption.mentions, (one, other), strict=True)
    )
    caption = replace(caption, mentions=(left, right))
    mentions = (
        left.with_value("color", other, right.color_word),
        right.with_value("color", one, left.color_word),
    )
    swapped = scene.edit_thing(first, color=other).edit_thing(second, color=one)
    tags = {"color": (one, other)}
    return first_valid_pair(
        [ScenePair(scene, caption, swapped, replace(caption, mentions=mentions), tags)]
    )


def change_count(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
    """Pair with another number of like things."""
    caption = describe_as(scene, rng, ("count",))
    if caption is None:
        return None
    draws = Draws(rng)
    i = draws.below(len(caption.mentions))
    mention = caption.mentions[i]
    group = matching_things(mention, scene)
    most = MOST_THINGS - len(scene.things) + mention.count
    least = 1 if len(scene.things) > mention.count or mention.count > 1 else mention.count
    numbers = [number for number in range(least, most + 1) if number != mention.count]

    def pairs() -> Iterator[ScenePair]:
        for number in draws.shuffle(numbers):
            extra = number - mention.count
            like = group[draws.below(len(group))]
            changed = (
                add_copies(scene, like, extra, draws)
                if extra > 0
                else remove_things(scene, group, -extra, draws)
            )
            if changed is not None:
                other = caption.with_mention(i, mention.with_count(number))
                tags = {"count": (str(mention.count), str(number))}
                yield ScenePair(scene, caption, changed, other, tags)

    return first_valid_pair(pairs())


def choose_maker(makers: Mapping[str, PairMaker], tag: str) -> PairMaker:
    """Choose one of several makers uniformly, and name it in a tag."""
    names = tuple(makers)

    def make(scene: Scene, rng: np.random.Generator) -> ScenePair | None:
        name = names[int(rng.integers(len(names)))]
        pair = makers[name](scene, rng)
        return None if pair is None else replace(pair, tags={tag: name, **pair.tags})

    return make
