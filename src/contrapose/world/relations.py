"""Where things are to each other as the camera sees them, said only when there is no doubt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from contrapose.world.scene import Scene

Relation = Literal["left of", "right of", "in front of", "behind", "on top of", "under"]

RELATIONS: tuple[Relation, ...] = (
    "left of", "right of", "in front of", "behind", "on top of", "under",
)  # fmt: skip
OPPOSITE: Mapping[Relation, Relation] = {
    "left of": "right of",
    "right of": "left of",
    "in front of": "behind",
    "behind": "in front of",
    "on top of": "under",
    "under": "on top of",
}
"""The relation that holds the other way round, and that is false where this one holds."""

SIDE_MARGIN = 0.75
"""How far apart to the side two things' middles must be before one is left of the other."""
DEPTH_MARGIN = 0.9
"""How far apart in depth before one is in front of the other."""


def seen(scene: Scene, index: int) -> tuple[float, float]:
    """How far right, and how far away, a thing is from the middle, as the camera sees it."""
    thing, turn = scene.things[index], scene.camera.turn
    right = thing.x * math.cos(turn) + thing.y * math.sin(turn)
    away = -thing.x * math.sin(turn) + thing.y * math.cos(turn)
    return right, away


def holds(scene: Scene, first: int, relation: Relation, second: int) -> bool:
    """Whether the relation holds beyond doubt; `holds(…, OPPOSITE[relation], …)` is then false.

    Things of one pile are only on top of or under each other.
    """
    if relation == "on top of":
        return scene.things[first].on == second
    if relation == "under":
        return scene.things[second].on == first
    if _pile(scene, first) == _pile(scene, second):
        return False
    (right, away), (other_right, other_away) = seen(scene, first), seen(scene, second)
    return {
        "left of": other_right - right >= SIDE_MARGIN,
        "right of": right - other_right >= SIDE_MARGIN,
        "in front of": other_away - away >= DEPTH_MARGIN,
        "behind": away - other_away >= DEPTH_MARGIN,
    }[relation]


def relations(scene: Scene, first: int, second: int) -> tuple[Relation, ...]:
    """Every relation that holds beyond doubt between two things."""
    return tuple(each for each in RELATIONS if holds(scene, first, each, second))


def _pile(scene: Scene, index: int) -> int:
    """The thing on the ground that this one stands on, directly or not; itself if on the ground."""
    below = scene.things[index].on
    return index if below is None else _pile(scene, below)
