"""Arrangement of things in a scene: stability, moves, piles, copies and removals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from contrapose.world.sample import GAP, HALF_DEPTH, HALF_WIDTH, HELD_OUT, Draws
from contrapose.world.scene import FLAT_TOPS, MOST_THINGS, Relation, Scene, Thing, holds

_TRIES = 12
"""The most positions that are tried for a thing."""


def is_valid(scene: Scene) -> bool:
    """Whether an edited scene is stable, of valid size, and free of held-out pairs.

    `sample_scene` ensures the same when it draws a scene.
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
    scene: Scene,
    first: int,
    relation: Relation,
    second: int,
    draws: Draws,
    *,
    exchange: bool = True,
) -> Iterator[Scene]:
    """Scenes with one or both things moved so that the relation may hold.

    Without `exchange` one thing is moved, and every thing keeps its index.
    """
    ways = draws.shuffle(("exchange", "first", "second", "pile"))
    for way in ways:
        if way == "exchange":
            if exchange:
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


def _move_to(thing: Thing, target: Thing) -> Thing:
    return replace(thing, x=target.x, y=target.y, on=target.on)


def _draw_position(draws: Draws) -> tuple[float, float]:
    return (
        (2 * draws.uniform() - 1) * HALF_WIDTH,
        (2 * draws.uniform() - 1) * HALF_DEPTH,
    )


def is_alone(scene: Scene, index: int) -> bool:
    """Whether a thing stands on the ground with nothing on it."""
    return scene.things[index].on is None and is_free(scene, index)


def exchange_indices(scene: Scene, first: int, second: int) -> Scene:
    """The same scene with the indices of two lone things exchanged: a base precedes its top."""
    things = list(scene.things)
    things[first], things[second] = things[second], things[first]
    return replace(scene, things=tuple(things))


def locate_things(
    scene: Scene, first: int, relation: Relation, second: int, draws: Draws
) -> Scene | None:
    """Scene in which a relation holds: as it is, or with one of the two things moved."""
    if holds(scene, first, relation, second):
        return scene
    moves = rearrange(scene, first, relation, second, draws, exchange=False)
    fine = (s for s in moves if holds(s, first, relation, second) and is_valid(s))
    return next(fine, None)
