"""Random scenes: made again from seed and number, with the odds of their world, with room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import cast, get_args

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.world.sample import (
    FAVORITE,
    GAP,
    HALF_DEPTH,
    HALF_WIDTH,
    HELD_OUT,
    WIDTH_GROWTH,
    World,
    sample_scene,
    sample_scenes,
    world_odds,
)
from contrapose.world.scene import COLORS, FLAT_TOPS, SHAPES, Color, Scene, Shape

WORLDS: tuple[World, ...] = get_args(World)
MANY: dict[World, list[Scene]] = {world: sample_scenes(400, 7, world) for world in WORLDS}


def _pairs(scenes: Sequence[Scene]) -> Counter[tuple[Color, Shape]]:
    """How often each pair occurs as the first thing, which is never a twin of another."""
    return Counter((scene.things[0].color, scene.things[0].shape) for scene in scenes)


@pytest.mark.parametrize("world", WORLDS)
def test_a_scene_depends_on_seed_and_number_alone(world: World) -> None:
    again = [sample_scene(7, i, world) for i in reversed(range(30))]
    assert again[::-1] == MANY[world][:30]
    assert sample_scene(7, 3, world) != sample_scene(8, 3, world)
    assert len({scene.to_json() for scene in MANY[world]}) == 400


@pytest.mark.parametrize("block", [1, 7, 64, 5000])
def test_the_block_does_not_change_the_result(block: int) -> None:
    def keep(scenes: Sequence[Scene]) -> list[bool]:
        return [len(scene.things) == 3 for scene in scenes]

    expected = [scene for scene in MANY["skewed"] if len(scene.things) == 3][:10]
    assert sample_scenes(10, 7, keep=keep, block=block) == expected


@pytest.mark.parametrize("block", [1, 64, 5000])
def test_keep_that_nothing_passes(block: int) -> None:
    with pytest.raises(InputError, match="0 of 1100 scenes"):
        sample_scenes(1, 7, things=1, keep=lambda scenes: [False] * len(scenes), block=block)


@pytest.mark.parametrize("world", WORLDS)
def test_scenes_can_be_drawn(world: World) -> None:
    for scene in MANY[world]:
        scene.check()


@pytest.mark.parametrize("world", WORLDS)
def test_held_out_pairs_stay_apart(world: World) -> None:
    found = {(thing.color, thing.shape) for scene in MANY[world] for thing in scene.things}
    if world == "held-out":
        assert found == HELD_OUT
    else:
        assert not found & HELD_OUT
        every = {(color, shape) for color in COLORS for shape in SHAPES}
        assert set(world_odds(world).pairs) == every - HELD_OUT
    if world == "balanced":
        assert found == every - HELD_OUT


@pytest.mark.parametrize("world", WORLDS)
def test_odds_add_up(world: World) -> None:
    chances = world_odds(world)
    for weights in (chances.weights, chances.sizes, chances.materials, chances.patterns):
        assert sum(weights) == pytest.approx(1)
        assert min(weights) > 0


def test_draws_follow_the_odds() -> None:
    """Chi-square of the pairs: near its degrees of freedom for the world's own odds alone."""

    def chi_square(drawn: World, claimed: World) -> float:
        found, chances = _pairs(MANY[drawn]), world_odds(claimed)
        return sum(
            (found[pair] - 400 * weight) ** 2 / (400 * weight)
            for pair, weight in zip(chances.pairs, chances.weights, strict=True)
        )

    # Mean 59 and standard deviation about 11 (a little more where few are expected).
    assert chi_square("balanced", "balanced") < 59 + 5 * 11
    assert chi_square("skewed", "skewed") < 59 + 7 * 11
    assert chi_square("skewed", "balanced") > 400
    assert chi_square("balanced", "skewed") > 400


def test_skewed_world_is_skewed() -> None:
    def favoured(world: World) -> float:
        found = _pairs(MANY[world])
        return sum(found[FAVORITE[shape], shape] for shape in SHAPES) / 400

    assert favoured("skewed") > 0.4
    assert favoured("balanced") < 0.2
    shapes = Counter(scene.things[0].shape for scene in MANY["skewed"])
    assert shapes["ball"] > 3 * shapes["pill"]


@pytest.mark.parametrize("world", WORLDS)
def test_things_keep_their_distance_and_stay_in_view(world: World) -> None:
    for scene in MANY[world]:
        ground = [thing for thing in scene.things if thing.on is None]
        for one, other in combinations(ground, 2):
            apart = np.hypot(one.x - other.x, one.y - other.y)
            assert apart >= one.radius + other.radius + GAP - 1e-9
        for thing in ground:
            assert abs(thing.y) <= HALF_DEPTH
            assert abs(thing.x) <= HALF_WIDTH + WIDTH_GROWTH * thing.y - 0.6 * thing.radius


@pytest.mark.parametrize("world", WORLDS)
def test_piles_stand(world: World) -> None:
    piled = 0
    for scene in MANY[world]:
        carriers = [thing.on for thing in scene.things if thing.on is not None]
        assert len(carriers) == len(set(carriers))
        for thing in scene.things:
            if thing.on is not None:
                below = scene.things[thing.on]
                assert below.on is None
                assert below.shape in FLAT_TOPS
                assert (thing.x, thing.y) == (below.x, below.y)
                assert thing.radius <= below.radius
                piled += 1
    assert piled > 10


@pytest.mark.parametrize("things", [1, 2, 3, 4, 5])
def test_the_number_of_things(things: int) -> None:
    assert {len(scene.things) for scene in sample_scenes(20, 1, things=things)} == {things}


def test_every_number_of_things_occurs() -> None:
    found = Counter(len(scene.things) for scene in MANY["skewed"])
    assert set(found) == {1, 2, 3, 4, 5}
    assert found[2] == max(found.values())


@pytest.mark.parametrize("things", [0, -1, 6, 100])
def test_numbers_that_no_scene_has(things: int) -> None:
    with pytest.raises(InputError, match=f"1 to 5 things, not {things}"):
        sample_scene(0, 0, things=things)


def test_an_unknown_world() -> None:
    with pytest.raises(InputError, match="'upside-down' is not a world"):
        sample_scene(0, 0, cast(World, "upside-down"))


def test_no_scenes() -> None:
    assert sample_scenes(0, 1) == []
