"""Random scenes: what things look like, by the odds of a world, and where they stand.

Scene i of a seed depends on the seed and i alone, so any part of a set can be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import numpy as np

from contrapose.errors import InputError
from contrapose.world.odds import Odds, World, odds
from contrapose.world.scene import (
    FLAT_TOPS,
    MATERIALS,
    MOST_THINGS,
    PATTERNS,
    SIZES,
    Camera,
    Color,
    Ground,
    Light,
    Scene,
    Shape,
    Thing,
)

HALF_DEPTH = 1.8
"""How far before or behind the middle of the ground things may stand."""
HALF_WIDTH, WIDER = 2.0, 0.22
"""How far to the side, and how much farther for each step away: the camera sees a wedge."""
GAP = 0.16
"""Least space between two things on the ground."""
STACK = 0.3
"""How often a thing is put on top of another, when it can be."""
TWIN = 0.25
"""How often a thing looks like an earlier one, so that there is something to count."""

T = TypeVar("T")


def sample_scene(
    seed: int, index: int, world: World = "skewed", things: int | None = None
) -> Scene:
    """Scene number `index` of a seed: random looks, places, camera, light and ground.

    Args:
        seed: of the set.
        index: number in the set.
        world: whose odds to use.
        things: how many; None draws one to five.

    Raises:
        InputError: no such world, or a number of things that no scene has.
    """
    if things is not None and not 1 <= things <= MOST_THINGS:
        raise InputError(f"a scene has 1 to {MOST_THINGS} things, not {things}.")
    rng = np.random.default_rng((seed, index))
    count = things
    if count is None:
        count = int(rng.choice(MOST_THINGS, p=(0.07, 0.41, 0.28, 0.14, 0.10))) + 1
    # Placing can fail when things are large; then all is drawn again from the same stream.
    while True:
        placed = _place(rng, count, odds(world))
        if placed is not None:
            break
    camera = Camera(
        distance=float(rng.uniform(8.4, 9.4)),
        pitch=float(rng.uniform(0.40, 0.56)),
        turn=float(rng.uniform(-0.1, 0.1)),
        view=float(rng.uniform(0.58, 0.66)),
    )
    light = Light(
        azimuth=float(rng.uniform(-1.1, 1.1)),
        elevation=float(rng.uniform(0.7, 1.15)),
        strength=float(rng.uniform(0.65, 0.85)),
        ambient=float(rng.uniform(0.33, 0.45)),
    )
    grey = rng.uniform(0.55, 0.8)
    tint = rng.uniform(-0.04, 0.04, size=3)
    color = tuple(float(c) for c in np.clip(grey + tint, 0, 1))
    sky = tuple(
        float(c) for c in np.clip(rng.uniform(0.75, 0.9) + np.array([-0.06, 0, 0.06]), 0, 1)
    )
    tiles = float(rng.choice((0.0, 0.12))) * float(rng.uniform(0.5, 1.0))
    ground = Ground((color[0], color[1], color[2]), tiles, (sky[0], sky[1], sky[2]))
    return Scene(placed, camera, light, ground)


def sample_scenes(
    count: int,
    seed: int,
    world: World = "skewed",
    *,
    things: int | None = None,
    keep: Callable[[Sequence[Scene]], Sequence[bool]] | None = None,
    block: int = 64,
) -> list[Scene]:
    """The first `count` scenes of a seed that pass a test.

    Args:
        count: how many.
        seed: of the set.
        world: whose odds to use.
        things: how many things in each; None draws.
        keep: says of a block of scenes which may stay: those in which everything can be seen.
        block: how many are tested at a time; does not change the result.

    Raises:
        InputError: hardly any scene passes.
    """
    found: list[Scene] = []
    most = 1000 + 100 * count
    for start in range(0, most, block):
        if len(found) >= count:
            break
        indices = range(start, min(start + block, most))
        candidates = [sample_scene(seed, i, world, things) for i in indices]
        stay = [True] * len(candidates) if keep is None else keep(candidates)
        found += [scene for scene, good in zip(candidates, stay, strict=True) if good]
    if len(found) < count:
        raise InputError(f"only {len(found)} of {most} scenes pass; {count} were asked for.")
    return found[:count]


def _place(rng: np.random.Generator, count: int, chances: Odds) -> tuple[Thing, ...] | None:
    """Things with room between them; None when there is no room for one."""
    things: list[Thing] = []
    for _ in range(count):
        looks = _looks(rng, things, chances)
        base = _base(rng, things, looks)
        if base is not None:
            below = things[base]
            things.append(Thing(*looks, below.x, below.y, _turn(rng), base))
            continue
        radius = SIZES[looks[3]]
        for _ in range(24):
            y = float(rng.uniform(-HALF_DEPTH, HALF_DEPTH))
            reach = HALF_WIDTH + WIDER * y - 0.6 * radius
            x = float(rng.uniform(-reach, reach))
            if all(
                (x - other.x) ** 2 + (y - other.y) ** 2 >= (radius + other.radius + GAP) ** 2
                for other in things
            ):
                things.append(Thing(*looks, x, y, _turn(rng)))
                break
        else:
            return None
    return tuple(things)


Looks = tuple[Shape, Color, Literal["rubber", "metal"], Literal["small", "medium", "large"],
              Literal["plain", "striped", "checkered"]]  # fmt: skip


def _looks(rng: np.random.Generator, things: Sequence[Thing], chances: Odds) -> Looks:
    if things and rng.random() < TWIN:
        twin = things[int(rng.integers(len(things)))]
        return twin.shape, twin.color, twin.material, twin.size, twin.pattern
    color, shape = _drawn(rng, chances.pairs, chances.weights)
    return (
        shape,
        color,
        _drawn(rng, MATERIALS, chances.materials),
        _drawn(rng, tuple(SIZES), chances.sizes),
        _drawn(rng, PATTERNS, chances.patterns),
    )


def _base(rng: np.random.Generator, things: Sequence[Thing], looks: Looks) -> int | None:
    """A free, flat thing on the ground that is large enough to carry another, now and then."""
    taken = {thing.on for thing in things}
    can = [
        i
        for i, thing in enumerate(things)
        if thing.shape in FLAT_TOPS
        and thing.on is None
        and i not in taken
        and SIZES[looks[3]] <= thing.radius
    ]
    return can[int(rng.integers(len(can)))] if can and rng.random() < STACK else None


def _turn(rng: np.random.Generator) -> float:
    return float(rng.uniform(0, np.pi))


def _drawn(rng: np.random.Generator, values: Sequence[T], weights: Sequence[float]) -> T:
    at = rng.random()
    for value, weight in zip(values, weights, strict=True):
        at -= weight
        if at < 0:
            return value
    return values[-1]
