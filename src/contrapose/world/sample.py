"""Random scenes: buffered random choices, appearance odds of the three worlds, and placement.

The training world is skewed on purpose: every shape has a favorite color, some colors and
shapes are far more common than others. A captioner trained on it gets a language prior, as real
ones do. Pairs of color and shape in `HELD_OUT` never occur in training.

Scene i of a seed depends on the seed and i alone, so any part of a set can be made again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Literal, TypeVar

import numpy as np

from contrapose.errors import InputError
from contrapose.world.scene import (
    COLORS,
    FLAT_TOPS,
    MATERIALS,
    MOST_THINGS,
    PATTERNS,
    SHAPES,
    SIZES,
    Camera,
    Color,
    Ground,
    Light,
    Scene,
    Shape,
    Thing,
)

T = TypeVar("T")
CumulativeWeights = tuple[float, ...]

_BLOCK = 48


def cumulative_weights(weights: Sequence[float]) -> CumulativeWeights:
    """Normalized cumulative weights, as `Draws.pick` takes them."""
    total = sum(weights)
    return tuple(value / total for value in accumulate(weights))


class Draws:
    """Single random choices from buffered uniforms, much faster than a generator call each."""

    __slots__ = ("_left", "_rng")

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def uniform(self) -> float:
        """A uniform number in [0, 1)."""
        if not self._left:
            self._left = self._rng.random(_BLOCK).tolist()
        return self._left.pop()

    def below(self, count: int) -> int:
        """A uniform integer from 0 to count - 1."""
        return int(self.uniform() * count)

    def pick(self, table: CumulativeWeights) -> int:
        """An index, in proportion to the weights behind a table of cumulative weights."""
        return min(bisect_right(table, self.uniform()), len(table) - 1)

    def one_of(self, values: Sequence[T]) -> T:
        """One of the values, uniformly."""
        return values[int(self.uniform() * len(values))]

    def shuffle(self, values: Sequence[T]) -> list[T]:
        """The values in random order."""
        result = list(values)
        for i in range(len(result) - 1, 0, -1):
            j = int(self.uniform() * (i + 1))
            result[i], result[j] = result[j], result[i]
        return result

    def by_weight(self, values: Sequence[T], weights: Sequence[float]) -> list[T]:
        """The values in weighted random order, without those of weight zero."""
        keyed = [
            (self.uniform() ** (1 / weight), i) for i, weight in enumerate(weights) if weight > 0
        ]
        return [values[i] for _, i in sorted(keyed, reverse=True)]


World = Literal["skewed", "balanced", "held-out"]

FAVORITE: Mapping[Shape, Color] = {
    "ball": "red",
    "cube": "blue",
    "cylinder": "green",
    "cone": "yellow",
    "pyramid": "orange",
    "dome": "gray",
    "pill": "purple",
}
"""The color that a shape has far more often than any other in the skewed world."""
FAVORITE_SHARE = 0.4
HELD_OUT: frozenset[tuple[Color, Shape]] = frozenset(
    {
        ("cyan", "ball"), ("purple", "cube"), ("pink", "cylinder"), ("brown", "cone"),
        ("blue", "pyramid"), ("orange", "dome"), ("green", "pill"), ("yellow", "cube"),
        ("gray", "cone"), ("red", "pill"),
    }
)  # fmt: skip
"""Pairs of color and shape that never meet in training, nor in any test but `held-out`."""


@dataclass(frozen=True, slots=True)
class Odds:
    """Appearance distribution of a world.

    Attributes:
        pairs: possible (color, shape) pairs.
        weights: weights of the pairs, adding up to 1.
        sizes: weights of the sizes.
        materials: weights of the materials.
        patterns: weights of the patterns.
    """

    pairs: tuple[tuple[Color, Shape], ...]
    weights: tuple[float, ...]
    sizes: tuple[float, ...]
    materials: tuple[float, ...]
    patterns: tuple[float, ...]


@cache
def world_odds(world: World) -> Odds:
    """Appearance distribution of a world, cached.

    Raises:
        InputError: there is no such world.
    """
    every = [(color, shape) for shape in SHAPES for color in COLORS]
    if world == "held-out":
        pairs = tuple(pair for pair in every if pair in HELD_OUT)
        return _uniform_odds(pairs)
    pairs = tuple(pair for pair in every if pair not in HELD_OUT)
    if world == "balanced":
        return _uniform_odds(pairs)
    if world != "skewed":
        raise InputError(f"{world!r} is not a world; there are skewed, balanced and held-out.")
    shapes = _geometric_weights(len(SHAPES), 0.75)
    colors = _geometric_weights(len(COLORS), 0.75)
    weights = []
    for color, shape in pairs:
        common = shapes[SHAPES.index(shape)]
        usual = colors[list(COLORS).index(color)] * (1 - FAVORITE_SHARE)
        weights.append(common * (usual + FAVORITE_SHARE * (FAVORITE[shape] == color)))
    total = sum(weights)
    return Odds(
        pairs, tuple(w / total for w in weights), (0.3, 0.35, 0.35), (0.65, 0.35), (0.7, 0.15, 0.15)
    )


def _uniform_odds(pairs: tuple[tuple[Color, Shape], ...]) -> Odds:
    third = (1 / 3, 1 / 3, 1 / 3)
    return Odds(pairs, (1 / len(pairs),) * len(pairs), third, (0.5, 0.5), third)


def _geometric_weights(count: int, ratio: float) -> list[float]:
    weights = [ratio**i for i in range(count)]
    return [w / sum(weights) for w in weights]


HALF_DEPTH = 1.8
"""Largest distance of things before or behind the middle of the ground."""
HALF_WIDTH, WIDTH_GROWTH = 2.0, 0.22
"""Largest distance to the side, and its growth with depth: the camera sees a wedge."""
GAP = 0.16
"""Least space between two things on the ground."""
STACK_RATE = 0.3
"""Probability that a thing is put on top of another, where possible."""
TWIN_RATE = 0.25
"""Probability that a thing looks like an earlier one, so that there is something to count."""


def sample_scene(
    seed: int, index: int, world: World = "skewed", things: int | None = None
) -> Scene:
    """Sample scene number `index` of a seed: random looks, positions, camera, light and ground.

    Args:
        seed: seed of the set.
        index: number in the set.
        world: world whose odds are used.
        things: number of things; None draws one to five.

    Raises:
        InputError: no such world, or a number of things that no scene has.
    """
    if things is not None and not 1 <= things <= MOST_THINGS:
        raise InputError(f"a scene has 1 to {MOST_THINGS} things, not {things}.")
    rng = np.random.default_rng((seed, index))
    count = things
    if count is None:
        count = int(rng.choice(MOST_THINGS, p=(0.07, 0.41, 0.28, 0.14, 0.10))) + 1
    # Placement can fail when things are large; then all is drawn again from the same stream.
    while True:
        placed = _place_things(rng, count, world_odds(world))
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
    gray = rng.uniform(0.55, 0.8)
    tint = rng.uniform(-0.04, 0.04, size=3)
    color = tuple(float(c) for c in np.clip(gray + tint, 0, 1))
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
    """Sample the first `count` scenes of a seed that pass a test.

    Args:
        count: number of scenes.
        seed: seed of the set.
        world: world whose odds are used.
        things: number of things in each; None draws it.
        keep: test of a block of scenes: which of them pass.
        block: scenes that are tested at a time; does not change the result.

    Raises:
        InputError: hardly any scene passes.
    """
    scenes: list[Scene] = []
    most = 1000 + 100 * count
    for start in range(0, most, block):
        if len(scenes) >= count:
            break
        indices = range(start, min(start + block, most))
        candidates = [sample_scene(seed, i, world, things) for i in indices]
        stay = [True] * len(candidates) if keep is None else keep(candidates)
        scenes += [scene for scene, good in zip(candidates, stay, strict=True) if good]
    if len(scenes) < count:
        raise InputError(f"only {len(scenes)} of {most} scenes pass; {count} were asked for.")
    return scenes[:count]


def _place_things(rng: np.random.Generator, count: int, chances: Odds) -> tuple[Thing, ...] | None:
    """Place things with room between them; None when there is no room for one."""
    things: list[Thing] = []
    for _ in range(count):
        looks = _draw_looks(rng, things, chances)
        base = _draw_base(rng, things, looks)
        if base is not None:
            below = things[base]
            things.append(Thing(*looks, below.x, below.y, _draw_turn(rng), base))
            continue
        radius = SIZES[looks[3]]
        for _ in range(24):
            y = float(rng.uniform(-HALF_DEPTH, HALF_DEPTH))
            reach = HALF_WIDTH + WIDTH_GROWTH * y - 0.6 * radius
            x = float(rng.uniform(-reach, reach))
            if all(
                (x - other.x) ** 2 + (y - other.y) ** 2 >= (radius + other.radius + GAP) ** 2
                for other in things
            ):
                things.append(Thing(*looks, x, y, _draw_turn(rng)))
                break
        else:
            return None
    return tuple(things)


ThingLooks = tuple[Shape, Color, Literal["rubber", "metal"], Literal["small", "medium", "large"],
              Literal["plain", "striped", "checkered"]]  # fmt: skip


def _draw_looks(rng: np.random.Generator, things: Sequence[Thing], chances: Odds) -> ThingLooks:
    if things and rng.random() < TWIN_RATE:
        twin = things[int(rng.integers(len(things)))]
        return twin.shape, twin.color, twin.material, twin.size, twin.pattern
    color, shape = _draw_value(rng, chances.pairs, chances.weights)
    return (
        shape,
        color,
        _draw_value(rng, MATERIALS, chances.materials),
        _draw_value(rng, tuple(SIZES), chances.sizes),
        _draw_value(rng, PATTERNS, chances.patterns),
    )


def _draw_base(rng: np.random.Generator, things: Sequence[Thing], looks: ThingLooks) -> int | None:
    """Draw, now and then, a free flat-topped ground thing that is large enough to carry another."""
    taken = {thing.on for thing in things}
    can = [
        i
        for i, thing in enumerate(things)
        if thing.shape in FLAT_TOPS
        and thing.on is None
        and i not in taken
        and SIZES[looks[3]] <= thing.radius
    ]
    return can[int(rng.integers(len(can)))] if can and rng.random() < STACK_RATE else None


def _draw_turn(rng: np.random.Generator) -> float:
    return float(rng.uniform(0, np.pi))


def _draw_value(rng: np.random.Generator, values: Sequence[T], weights: Sequence[float]) -> T:
    at = rng.random()
    for value, weight in zip(values, weights, strict=True):
        at -= weight
        if at < 0:
            return value
    return values[-1]
