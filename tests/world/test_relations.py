"""Relations: only beyond the margins, never together with the opposite, as the camera sees it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given

from contrapose.world.relations import (
    DEPTH_MARGIN,
    OPPOSITE,
    RELATIONS,
    SIDE_MARGIN,
    Relation,
    holds,
    relations,
    seen,
)
from contrapose.world.scene import Camera, Scene, Thing
from tests.world.captions.strategies import scenes

THING = Thing("cube", "red", "metal", "large", "plain", 0.0, 0.0)


def two(x: float, y: float, turn: float = 0.0) -> Scene:
    """One thing in the middle, another at (x, y)."""
    return Scene((THING, replace(THING, x=x, y=y)), Camera(turn=turn))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0.0, 0.0, ()),
        (SIDE_MARGIN, 0.0, ("left of",)),
        (SIDE_MARGIN - 0.01, 0.0, ()),
        (-SIDE_MARGIN, 0.0, ("right of",)),
        (0.01 - SIDE_MARGIN, 0.0, ()),
        (0.0, DEPTH_MARGIN, ("in front of",)),
        (0.0, DEPTH_MARGIN - 0.01, ()),
        (0.0, -DEPTH_MARGIN, ("behind",)),
        (0.0, 0.01 - DEPTH_MARGIN, ()),
        (1.0, -1.0, ("left of", "behind")),
    ],
)
def test_margins(x: float, y: float, expected: tuple[Relation, ...]) -> None:
    assert relations(two(x, y), 0, 1) == expected


@given(scenes(least=2))
def test_opposites(scene: Scene) -> None:
    count = len(scene.things)
    for first in range(count):
        for second in range(count):
            for relation in RELATIONS:
                if first != second and holds(scene, first, relation, second):
                    assert not holds(scene, first, OPPOSITE[relation], second)
                    assert holds(scene, second, OPPOSITE[relation], first)


@given(scenes())
def test_nothing_stands_in_a_relation_to_itself(scene: Scene) -> None:
    assert all(relations(scene, i, i) == () for i in range(len(scene.things)))


def test_opposite_is_its_own_inverse() -> None:
    assert set(OPPOSITE) == set(RELATIONS)
    assert all(OPPOSITE[other] == each != other for each, other in OPPOSITE.items())


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (0.0, ("left of",)),
        (math.pi / 2, ("behind",)),
        (math.pi, ("right of",)),
        (-math.pi / 2, ("in front of",)),
    ],
)
def test_the_camera_decides(turn: float, expected: tuple[Relation, ...]) -> None:
    assert relations(two(1.0, 0.0, turn), 0, 1) == expected


def test_a_small_turn_can_bring_doubt() -> None:
    """At the margin straight ahead, and within it when the camera has gone around a little."""
    assert holds(two(0.8, 0.0), 0, "left of", 1)
    assert not holds(two(0.8, 0.0, 0.5), 0, "left of", 1)
    assert holds(two(0.8, 0.5, 0.5), 0, "left of", 1)


@given(scenes())
def test_seeing_keeps_distances(scene: Scene) -> None:
    for i, thing in enumerate(scene.things):
        assert math.hypot(*seen(scene, i)) == pytest.approx(math.hypot(thing.x, thing.y))


def test_piles() -> None:
    """Neighbours in a pile are on and under each other; beyond that nothing is said within it."""
    scene = Scene(
        (
            THING,
            replace(THING, on=0),
            replace(THING, shape="ball", on=1),
            replace(THING, x=2.0, y=0.0),
        )
    )
    assert relations(scene, 1, 0) == ("on top of",)
    assert relations(scene, 0, 1) == ("under",)
    assert relations(scene, 2, 1) == ("on top of",)
    assert relations(scene, 2, 0) == ()
    assert [relations(scene, i, 3) for i in range(3)] == [("left of",)] * 3


def test_things_of_one_pile_are_never_beside_each_other() -> None:
    """Even where their places differ, as after an edit."""
    scene = Scene((THING, replace(THING, on=0, x=2.0, y=2.0)))
    assert relations(scene, 1, 0) == ("on top of",)
