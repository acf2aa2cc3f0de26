"""Whether a caption is true of a scene: yes, no, or in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.world.captions.caption import Caption
from contrapose.world.captions.mention import Mention
from contrapose.world.relations import OPPOSITE, Relation, holds
from contrapose.world.scene import Scene, Thing


def fits(mention: Mention, thing: Thing) -> bool:
    """Whether all that the mention says, but for its count, is so of the thing."""
    return (
        (mention.shape is None or mention.shape == thing.shape)
        and (mention.color is None or mention.color == thing.color)
        and (mention.size is None or mention.size == thing.size)
        and (mention.material is None or mention.material == thing.material)
        and (mention.pattern is None or mention.pattern == thing.pattern)
    )


def fitting(mention: Mention, scene: Scene) -> list[int]:
    """The things of the scene that a mention could mean."""
    return [i for i, thing in enumerate(scene.things) if fits(mention, thing)]


def could_hold(scene: Scene, first: int, relation: Relation, second: int) -> bool:
    """Whether a relation holds, or is too close to say that it does not."""
    if holds(scene, first, relation, second):
        return True
    if relation == "on top of":
        return _above(scene, first, second)
    if relation == "under":
        return _above(scene, second, first)
    if _bottom(scene, first) == _bottom(scene, second):
        return False
    return not holds(scene, first, OPPOSITE[relation], second)


def is_true(caption: Caption, scene: Scene) -> bool | None:
    """Whether a caption is true of a scene; None when in doubt.

    "a red cube and a blue ball" asks for two different things that fit; "two red cubes" for exactly
    two; a relation for some pair in which it holds beyond doubt. A relation is false only if it is
    false beyond doubt for every pair, and "the" leaves doubt when several things fit and the
    answer depends on which is meant.
    """
    found = [fitting(mention, scene) for mention in caption.mentions]
    if not all(found):
        return False
    if caption.kind == "relation":
        return _related(caption, scene, found[0], found[1])
    if caption.kind == "count":
        return _counted(caption, found)
    return _distinct(found)


def _related(
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


def _counted(caption: Caption, found: Sequence[Sequence[int]]) -> bool | None:
    """Exact counts; in doubt if two mentions could speak of one thing."""
    if sum(map(len, found)) > len({thing for things in found for thing in things}):
        return None
    return all(
        len(things) == mention.count
        for mention, things in zip(caption.mentions, found, strict=True)
    )


def _distinct(found: Sequence[Sequence[int]], used: frozenset[int] = frozenset()) -> bool:
    """Whether every mention can have a thing of its own."""
    if not found:
        return True
    return any(_distinct(found[1:], used | {thing}) for thing in found[0] if thing not in used)


def _above(scene: Scene, first: int, second: int) -> bool:
    """Whether the first stands on the second, directly or not."""
    below = scene.things[first].on
    return below is not None and (below == second or _above(scene, below, second))


def _bottom(scene: Scene, index: int) -> int:
    below = scene.things[index].on
    return index if below is None else _bottom(scene, below)
