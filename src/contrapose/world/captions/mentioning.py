"""From a thing to a mention of it: which attributes are said, and in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from contrapose.world.captions.draws import Draws, Sums, sums
from contrapose.world.captions.mention import Mention
from contrapose.world.captions.words import SLOTS, WORDS, Place, Slot
from contrapose.world.scene import Scene, Thing

SAID: Mapping[Slot, float] = {
    "shape": 0.97,
    "color": 0.85,
    "size": 0.25,
    "material": 0.25,
    "pattern": 0.45,
}
"""How often each slot is said at middling detail, of a thing that has something to say there."""
SAID_COUNTED: Mapping[Slot, float] = {
    "shape": 0.85,
    "color": 0.5,
    "size": 0.1,
    "material": 0.1,
    "pattern": 0.1,
}
"""The same where things are counted: the less is said, the more things fit."""
UNMARKED = frozenset({"medium", "plain"})
"""Values that are said only to tell things apart."""
COLOR_FIRST = 0.35
"""How often the colour stands before the pattern: "a red striped ball"."""

_SUMS: Mapping[Slot, Mapping[str | None, Sums]] = {
    slot: {value: sums([word.weight for word in words]) for value, words in table.items()}
    for slot, table in WORDS.items()
}


def draw_word(slot: Slot, value: str | None, draws: Draws, place: Place | None = None) -> int:
    """Which word says a value, drawn by weight; in a given place of the phrase if there is one."""
    choice = draws.pick(_SUMS[slot][value])
    if place is None or WORDS[slot][value][choice].place == place:
        return choice
    there = [i for i, word in enumerate(WORDS[slot][value]) if word.place == place]
    if not there:
        return choice
    weights = [WORDS[slot][value][i].weight for i in there]
    return draws.by_weight(there, weights)[0]


def mention_thing(
    scene: Scene, thing: int, rivals: Sequence[int], draws: Draws, detail: float
) -> Mention | None:
    """A mention of a thing that fits none of its rivals; None if one of them looks the same."""
    it = scene.things[thing]
    slots = _drawn(it, draws, detail, plural=False)
    left = [scene.things[rival] for rival in rivals]
    for slot in slots:
        value = getattr(it, slot)
        left = [rival for rival in left if getattr(rival, slot) == value]
    while left:
        telling = [
            slot
            for slot in SLOTS
            if slot not in slots and any(getattr(each, slot) != getattr(it, slot) for each in left)
        ]
        if not telling:
            return None
        slot = draws.one_of(telling)
        value = getattr(it, slot)
        slots.append(slot)
        left = [rival for rival in left if getattr(rival, slot) == value]
    return _worded(it, thing, slots, draws)


def agreed(mentions: Sequence[Mention]) -> tuple[Mention, ...]:
    """The mentions with one noun for one shape and one word for one colour.

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


def spoken(
    it: Thing, thing: int | None, draws: Draws, detail: float, *, plural: bool = False
) -> Mention:
    """A mention of a thing, whatever else it fits."""
    return _worded(it, thing, _drawn(it, draws, detail, plural=plural), draws)


@lru_cache(maxsize=64)
def _chances(detail: float, plural: bool) -> tuple[tuple[Slot, float], ...]:
    """How often each slot is said: as the tables have it at 0.5, never at 0, always at 1."""
    table = SAID_COUNTED if plural else SAID
    if detail <= 0:
        return tuple((slot, float(slot == "shape")) for slot in SLOTS)
    return tuple((slot, table[slot] ** ((1 - detail) / detail)) for slot in SLOTS)


def _drawn(it: Thing, draws: Draws, detail: float, *, plural: bool) -> list[Slot]:
    slots: list[Slot] = [
        slot
        for slot, chance in _chances(detail, plural)
        if draws.uniform() < chance and getattr(it, slot) not in UNMARKED
    ]
    return slots if slots or plural else ["shape"]


def _worded(it: Thing, thing: int | None, slots: Sequence[Slot], draws: Draws) -> Mention:
    material = pattern = 0
    shape = it.shape if "shape" in slots else None
    noun = draws.pick(_SUMS["shape"][shape])
    color = draws.pick(_SUMS["color"][it.color]) if "color" in slots else 0
    size = draws.pick(_SUMS["size"][it.size]) if "size" in slots else 0
    if "material" in slots:
        material = draws.pick(_SUMS["material"][it.material])
    if "pattern" in slots:
        pattern = draws.pick(_SUMS["pattern"][it.pattern])
        words = WORDS["pattern"][it.pattern]
        if (
            words[pattern].place == "after"
            and "material" in slots
            and WORDS["material"][it.material][material].place == "after"
        ):
            pattern = 0
    order = int("pattern" in slots and "color" in slots and draws.uniform() < COLOR_FIRST)
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
