"""How likely the looks of a thing are: a skewed world, a balanced one, and what neither has.

The training world is skewed on purpose: every shape has a favourite colour, some colours and
shapes are far more common than others. A captioner trained on it gets a language prior, as real
ones do. Pairs of colour and shape in `HELD_OUT` never occur in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from contrapose.errors import InputError
from contrapose.world.scene import COLORS, SHAPES, Color, Shape

World = Literal["skewed", "balanced", "held-out"]

FAVOURITE: Mapping[Shape, Color] = {
    "ball": "red",
    "cube": "blue",
    "cylinder": "green",
    "cone": "yellow",
    "pyramid": "orange",
    "dome": "gray",
    "pill": "purple",
}
"""The colour that a shape has far more often than any other in the skewed world."""
FAVOUR = 0.4
HELD_OUT: frozenset[tuple[Color, Shape]] = frozenset(
    {
        ("cyan", "ball"), ("purple", "cube"), ("pink", "cylinder"), ("brown", "cone"),
        ("blue", "pyramid"), ("orange", "dome"), ("green", "pill"), ("yellow", "cube"),
        ("gray", "cone"), ("red", "pill"),
    }
)  # fmt: skip
"""Pairs of colour and shape that never meet in training, nor in any test but `held-out`."""


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely the looks of a thing are.

    Attributes:
        pairs: every (colour, shape) that can be.
        weights: of the pairs, adding up to 1.
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
def odds(world: World) -> Odds:
    """The odds of a world.

    Raises:
        InputError: there is no such world.
    """
    every = [(color, shape) for shape in SHAPES for color in COLORS]
    if world == "held-out":
        pairs = tuple(pair for pair in every if pair in HELD_OUT)
        return _even(pairs)
    pairs = tuple(pair for pair in every if pair not in HELD_OUT)
    if world == "balanced":
        return _even(pairs)
    if world != "skewed":
        raise InputError(f"{world!r} is not a world; there are skewed, balanced and held-out.")
    shapes = _falling(len(SHAPES), 0.75)
    colors = _falling(len(COLORS), 0.75)
    weights = []
    for color, shape in pairs:
        common = shapes[SHAPES.index(shape)]
        usual = colors[list(COLORS).index(color)] * (1 - FAVOUR)
        weights.append(common * (usual + FAVOUR * (FAVOURITE[shape] == color)))
    total = sum(weights)
    return Odds(
        pairs, tuple(w / total for w in weights), (0.3, 0.35, 0.35), (0.65, 0.35), (0.7, 0.15, 0.15)
    )


def _even(pairs: tuple[tuple[Color, Shape], ...]) -> Odds:
    third = (1 / 3, 1 / 3, 1 / 3)
    return Odds(pairs, (1 / len(pairs),) * len(pairs), third, (0.5, 0.5), third)


def _falling(count: int, ratio: float) -> list[float]:
    weights = [ratio**i for i in range(count)]
    return [w / sum(weights) for w in weights]
