"""Minimal scene edits: move, exchange, copy or remove things, and validate the result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from contrapose.world.draws import Draws
from contrapose.world.sample import GAP, HALF_DEPTH, HALF_WIDTH, HELD_OUT
from contrapose.world.scene import FLAT_TOPS, MOST_THINGS, Relation, Scene, Thing

_TRIES = 12
"""Places that are tried for a thing before giving up."""


def is_valid(scene: Scene) -> bool:
    """Whether an edited scene is stable, of valid size, and free of held-out pairs.

    What `sample_scene` sees to when it draws a scene must be seen to again after an edit.
    """
    things = scene.things
    if not 1 <= len(things) <= MOST_THINGS:
        return False
    if any((thing.color, thing.shape) in HELD_OUT for thing in things):
        return False
    return is_stable(scene)


def is_stable(scene: Scene) -> bool:
    """Whether ground things have room, and every stacked thing can stand where it is."""
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


def is_free(scene: Scene, index: int) -> bool:
    """Whether nothing stands on a thing."""
    return all(thing.on != index for thing in scene.things)


def exchange_places(scene: Scene, first: int, second: int) -> Scene:
    """Exchange the positions of two things; they also exchange indices."""
    things = list(scene.things)
    one, other = things[first], things[second]
    things[first], things[second] = _move_to(other, one), _move_to(one, other)
    return replace(scene, things=tuple(things))


def rearrange(
    scene: Scene, first: int, relation: Relation, second: int, draws: Draws
) -> Iterator[Scene]:
    """Scenes with one or both things moved so that the relation may hold."""
    ways = draws.shuffle(("exchange", "first", "second", "pile"))
    for way in ways:
        if way == "exchange":
            yield exchange_places(scene, first, second)
        elif way == "pile":
            top, base = (first, second) if relation == "on top of" else (second, first)
            if relation in {"on top of", "under"} and base < top and is_free(scene, top):
                below = scene.things[base]
                if below.on is None and is_free(scene, base):
                    yield scene.edit_thing(top, x=below.x, y=below.y, on=base)
        else:
            index = first if way == "first" else second
            if is_free(scene, index):
                for _ in range(_TRIES):
                    x, y = _draw_position(draws)
                    yield scene.edit_thing(index, x=x, y=y, on=None)


def add_copies(scene: Scene, like: int, number: int, draws: Draws) -> Scene | None:
    """Add copies of a thing at random positions; None if there is no room."""
    for _ in range(number):
        for _ in range(_TRIES):
            x, y = _draw_position(draws)
            twin = replace(scene.things[like], x=x, y=y, turn=draws.uniform() * math.pi, on=None)
            grown = replace(scene, things=(*scene.things, twin))
            if is_valid(grown):
                scene = grown
                break
        else:
            return None
    return scene


def remove_things(scene: Scene, among: list[int], number: int, draws: Draws) -> Scene | None:
    """Remove some of these things; None if others stand on them."""
    left = draws.shuffle(among)
    gone: list[int] = []
    for index in left:
        if len(gone) < number and is_free(scene, index):
            gone.append(index)
    if len(gone) < number:
        return None
    for index in sorted(gone, reverse=True):
        scene = scene.without(index)
    return scene


def _move_to(thing: Thing, place: Thing) -> Thing:
    return replace(thing, x=place.x, y=place.y, on=place.on)


def _draw_position(draws: Draws) -> tuple[float, float]:
    return (
        (2 * draws.uniform() - 1) * HALF_WIDTH,
        (2 * draws.uniform() - 1) * HALF_DEPTH,
    )
