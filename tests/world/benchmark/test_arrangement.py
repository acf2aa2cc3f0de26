from __future__ import annotations

import numpy as np

from contrapose.world.benchmark.arrangement import (
    exchange_indices,
    is_alone,
    is_valid,
    locate_things,
)
from contrapose.world.sample import Draws
from contrapose.world.scene import Scene, Thing, holds

CUBE = Thing("cube", "red", "rubber", "large", "plain", -1.0, 0.0)
BALL = Thing("ball", "blue", "rubber", "small", "plain", 1.0, 0.0)


def draws() -> Draws:
    return Draws(np.random.default_rng(3))


def test_a_relation_that_holds_moves_nothing() -> None:
    scene = Scene((CUBE, BALL))
    assert locate_things(scene, 0, "left of", 1, draws()) is scene


def test_things_are_moved_until_the_relation_holds() -> None:
    scene = Scene((CUBE, BALL))
    for relation in ("right of", "in front of", "behind"):
        some = draws()
        tries = (locate_things(scene, 0, relation, 1, some) for _ in range(20))
        moved = next(scene for scene in tries if scene is not None)
        assert holds(moved, 0, relation, 1)
        assert is_valid(moved)
        assert [thing.shape for thing in moved.things] == ["cube", "ball"]


def test_a_pile_needs_a_flat_base_before_its_top() -> None:
    assert locate_things(Scene((BALL, CUBE)), 0, "on top of", 1, draws()) is None
    scene = exchange_indices(Scene((BALL, CUBE)), 0, 1)
    piled = locate_things(scene, 1, "on top of", 0, draws())
    assert piled is not None
    assert piled.things[1].on == 0
    assert not is_alone(piled, 0)
    assert not is_alone(piled, 1)
