"""Truth value of a caption on a scene: true, false, or None when in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.world.captions.caption import Caption, Mention
from contrapose.world.scene import OPPOSITE, Relation, Scene, Thing, holds


def fits(mention: Mention, thing: Thing) -> bool:
    """Whether every value of the mention, except its count, is true of the thing."""
    return (
        (mention.shape is None or mention.shape == thing.shape)
        and (mention.color is None or mention.color == thing.color)
        and (mention.size is None or mention.size == thing.size)
        and (mention.material is None or mention.material == thing.material)
        and (mention.pattern is None or mention.pattern == thing.pattern)
    )


def matching_things(mention: Mention, scene: Scene) -> list[int]:
    """Indices of the things that a mention fits."""
    return [i for i, thing in enumerate(scene.things) if fits(mention, thing)]


def could_hold(scene: Scene, first: int, relation: Relation, second: int) -> bool:
    """Whether a relation holds, or is too close to call."""
    if holds(scene, first, relation, second):
        return True
    if relation == "on top of":
        return _is_above(scene, first, second)
    if relation == "under":
        return _is_above(scene, second, first)
    if _ground_thing(scene, first) == _ground_thing(scene, second):
        return False
    return not holds(scene, first, OPPOSITE[relation], second)


def is_true(caption: Caption, scene: Scene) -> bool | None:
    """Truth value of a caption on a scene; None when in doubt.

    "a red cube and a blue ball" asks for two different things that fit; "two red cubes" for exactly
    two; a relation for some pair in which it holds beyond doubt. A relation is false only if it is
    false beyond doubt for every pair, and "the" leaves doubt when several things fit and the
    answer depends on which is meant.
    """
    found = [matching_things(mention, scene) for mention in caption.mentions]
    if not all(found):
        return False
    if caption.kind == "relation":
        return _check_relation(caption, scene, found[0], found[1])
    if caption.kind == "count":
        return _check_counts(caption, found)
    return _can_assign(found)


def _check_relation(
    caption: Caption, scene: Scene, firsts: Sequence[int], seconds: Sequence[int]
) -> bool | None:
    relation = caption.relation
    if relation is None:
        raise ValueError("a caption of kind 'relation' has a relation")
    pairs = [(first, second) for first in firsts for second in seconds if first != second]
    if not any(could_hold(scene, first, relation, second) for first, second in pairs):
        return False
    held = [holds(scene, first, relation, second) for first, second in pairs]
    opening, other = caption.openings
    unclear = (opening == "the" and len(firsts) > 1) or (other == "the" and len(seconds) > 1)
    if all(held) if unclear else any(held):
        return True
    return None


def _check_counts(caption: Caption, found: Sequence[Sequence[int]]) -> bool | None:
    """Truth value of exact counts; None if two mentions could mean one thing."""
    if sum(map(len, found)) > len({thing for things in found for thing in things}):
        return None
    return all(
        len(things) == mention.count
        for mention, things in zip(caption.mentions, found, strict=True)
    )


def _can_assign(found: Sequence[Sequence[int]], used: frozenset[int] = frozenset()) -> bool:
    """Whether the mentions can be assigned to distinct things."""
    if not found:
        return True
    return any(_can_assign(found[1:], used | {thing}) for thing in found[0] if thing not in used)


def _is_above(scene: Scene, first: int, second: int) -> bool:
    """Whether the first thing stands on the second, directly or not."""
    below = scene.things[first].on
    return below is not None and (below == second or _is_above(scene, below, second))


def _ground_thing(scene: Scene, index: int) -> int:
    below = scene.things[index].on
    return index if below is None else _ground_thing(scene, below)
