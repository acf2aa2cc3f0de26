"""Edits of a scene that leave everything else alone: other looks, other places, other numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from contrapose.world.captions.draws import Draws
from contrapose.world.odds import HELD_OUT
from contrapose.world.relations import Relation
from contrapose.world.sample import GAP, HALF_DEPTH, HALF_WIDTH
from contrapose.world.scene import FLAT_TOPS, MOST_THINGS, Scene, Thing

_TRIES = 12
"""Places that are tried for a thing before giving up."""


def sound(scene: Scene) -> bool:
    """Whether things have room, what stands on something can stand there, and no pair is held out.

    What `sample_scene` sees to when it draws a scene must be seen to again after an edit.
    """
    things = scene.things
    if not 1 <= len(things) <= MOST_THINGS:
        return False
    if any((thing.color, thing.shape) in HELD_OUT for thing in things):
        return False
    return standing(scene)


def standing(scene: Scene) -> bool:
    """Whether things have room, and what stands on something can stand there."""
    things = scene.things
    for thing in things:
        if thing.on is not None:
            below = things[thing.on]
            if below.shape not in FLAT_TOPS or thing.radius > below.radius:
                return False
    ground = [thing for thing in things if thing.on is None]
    return all(
        math.hypot(one.x - other.x, one.y - other.y) >= one.radius + other.radius + GAP - 1e-9
        for one, other in combinations(ground, 2)
    )


def free(scene: Scene, index: int) -> bool:
    """Whether nothing stands on a thing."""
    return all(thing.on != index for thing in scene.things)


def exchanged(scene: Scene, first: int, second: int) -> Scene:
    """The scene with two things in each other's place; they change places in the list as well."""
    things = list(scene.things)
    one, other = things[first], things[second]
    things[first], things[second] = _at(other, one), _at(one, other)
    return replace(scene, things=tuple(things))


def rearranged(
    scene: Scene, first: int, relation: Relation, second: int, draws: Draws
) -> Iterator[Scene]:
    """Scenes in which the first may stand in the relation to the second, one or both moved."""
    ways = draws.shuffled(("exchange", "first", "second", "pile"))
    for way in ways:
        if way == "exchange":
            yield exchanged(scene, first, second)
        elif way == "pile":
            top, base = (first, second) if relation == "on top of" else (second, first)
            if relation in {"on top of", "under"} and base < top and free(scene, top):
                below = scene.things[base]
                if below.on is None and free(scene, base):
                    yield scene.edited(top, x=below.x, y=below.y, on=base)
        else:
            index = first if way == "first" else second
            if free(scene, index):
                for _ in range(_TRIES):
                    x, y = _place(draws)
                    yield scene.edited(index, x=x, y=y, on=None)


def more(scene: Scene, like: int, number: int, draws: Draws) -> Scene | None:
    """The scene with so many more things that look like one of them; None if there is no room."""
    for _ in range(number):
        for _ in range(_TRIES):
            x, y = _place(draws)
            twin = replace(scene.things[like], x=x, y=y, turn=draws.uniform() * math.pi, on=None)
            grown = replace(scene, things=(*scene.things, twin))
            if sound(grown):
                scene = grown
                break
        else:
            return None
    return scene


def fewer(scene: Scene, among: list[int], number: int, draws: Draws) -> Scene | None:
    """The scene without so many of these things; None if others stand on them."""
    left = draws.shuffled(among)
    gone: list[int] = []
    for index in left:
        if len(gone) < number and free(scene, index):
            gone.append(index)
    if len(gone) < number:
        return None
    for index in sorted(gone, reverse=True):
        scene = scene.without(index)
    return scene


def _at(thing: Thing, place: Thing) -> Thing:
    return replace(thing, x=place.x, y=place.y, on=place.on)


def _place(draws: Draws) -> tuple[float, float]:
    return (
        (2 * draws.uniform() - 1) * HALF_WIDTH,
        (2 * draws.uniform() - 1) * HALF_DEPTH,
    )
