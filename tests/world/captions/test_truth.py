"""Truth of captions about a small scene: true, false and undecided."""

from __future__ import annotations

import pytest

from contrapose.world.captions import Caption, Mention, is_true
from contrapose.world.scene import Relation, Scene, Thing

SCENE = Scene(
    (
        Thing("cube", "red", "metal", "large", "plain", -2.0, 0.0),
        Thing("cube", "red", "rubber", "small", "plain", 2.0, 0.1),
        Thing("ball", "blue", "rubber", "small", "striped", -2.0, 0.0, on=0),
        Thing("cone", "green", "rubber", "small", "plain", 0.0, 2.0),
    )
)
CUBE, BIG, SMALL = (
    Mention(0, "cube"),
    Mention(0, "cube", size="large"),
    Mention(1, "cube", size="small"),
)
BALL, CONE, PILL = Mention(2, "ball"), Mention(3, "cone"), Mention(None, "pill")
A_A, THE_THE = 0, 2


@pytest.mark.parametrize(
    ("mentions", "truth"),
    [
        ((CUBE, BALL), True),
        ((CUBE, CUBE), True),
        ((BALL, BALL), False),
        ((BIG, CUBE), True),
        ((BALL, PILL), False),
    ],
)
def test_and_needs_a_thing_for_each(mentions: tuple[Mention, ...], truth: bool) -> None:
    assert is_true(Caption("and", mentions), SCENE) is truth


@pytest.mark.parametrize(
    ("mentions", "truth"),
    [
        ((CUBE.with_count(2), BALL), True),
        ((CUBE.with_count(1),), False),
        ((CUBE.with_count(3),), False),
        ((Mention(None, None, count=4),), True),
        ((CUBE.with_count(2), BIG), None),
    ],
)
def test_counts_are_exact(mentions: tuple[Mention, ...], truth: bool | None) -> None:
    assert is_true(Caption("count", mentions), SCENE) is truth


@pytest.mark.parametrize(
    ("first", "relation", "second", "template", "truth"),
    [
        (BIG, "left of", SMALL, A_A, True),
        (SMALL, "left of", BIG, A_A, False),
        (BIG, "in front of", SMALL, A_A, None),
        (BALL, "on top of", BIG, A_A, True),
        (BALL, "left of", BIG, A_A, False),
        (BALL, "on top of", SMALL, A_A, False),
        (BALL, "on top of", CUBE, A_A, True),
        (BALL, "on top of", CUBE, THE_THE, None),
        (CUBE, "in front of", CONE, THE_THE, True),
        (CUBE, "behind", CONE, THE_THE, False),
        (PILL, "behind", CONE, THE_THE, False),
    ],
)
def test_relations(
    first: Mention, relation: Relation, second: Mention, template: int, truth: bool | None
) -> None:
    caption = Caption("relation", (first, second), relation, template)
    assert is_true(caption, SCENE) is truth


def test_indirectly_on_top_is_in_doubt() -> None:
    pile = Scene(
        (
            Thing("cube", "red", "metal", "large", "plain", 0.0, 0.0),
            Thing("cylinder", "red", "metal", "large", "plain", 0.0, 0.0, on=0),
            Thing("ball", "red", "metal", "large", "plain", 0.0, 0.0, on=1),
        )
    )
    ball, cube = Mention(2, "ball"), Mention(0, "cube")
    assert is_true(Caption("relation", (ball, cube), "on top of"), pile) is None
    assert is_true(Caption("relation", (cube, ball), "under"), pile) is None
    assert is_true(Caption("relation", (cube, ball), "on top of"), pile) is False
