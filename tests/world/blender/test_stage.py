from __future__ import annotations

import math

import pytest

from contrapose.errors import InputError
from contrapose.world.blender.stage import set_stage, to_linear
from contrapose.world.render.pack import VIEW_COLUMNS, pack
from contrapose.world.sample import sample_scene
from contrapose.world.scene import COLORS, Scene, Thing


@pytest.mark.parametrize("index", range(8))
def test_camera_and_lamp_are_those_of_the_ray_tracer(index: int) -> None:
    scene = sample_scene(2, index, "skewed")
    stage = set_stage(scene)
    view = dict(zip(VIEW_COLUMNS, pack([scene]).views[0].tolist(), strict=True))
    reach = math.tan(stage.view / 2)
    for name, vector, scale in (
        ("eye", stage.eye, 1.0), ("ahead", stage.ahead, 1.0), ("right", stage.right, reach),
        ("up", stage.up, reach), ("lamp", stage.lamp, 1.0),
    ):  # fmt: skip
        for axis, value in zip("xyz", vector, strict=True):
            if f"{name}_{axis}" in view:
                assert scale * value == pytest.approx(view[f"{name}_{axis}"], abs=1e-5)
    assert stage.energy == pytest.approx(math.pi * view["strength"], abs=1e-5)


def test_bodies_stand_where_the_things_are() -> None:
    base = Thing("cube", "red", "metal", "large", "striped", -0.5, 0.2, 0.3)
    top = Thing("ball", "blue", "rubber", "small", "plain", -0.5, 0.2, on=0)
    first, second = set_stage(Scene((base, top))).bodies
    assert first.position == (-0.5, 0.2, 0.0)
    assert second.position == (-0.5, 0.2, base.height)
    assert first.metallic > 0 == second.metallic
    assert first.roughness < second.roughness
    assert second.paint == to_linear(COLORS["blue"])
    assert all(pale > paint for pale, paint in zip(first.pale, first.paint, strict=True))


def test_a_change_of_one_slot_changes_one_body() -> None:
    scene = next(
        s for s in (sample_scene(3, i, "balanced") for i in range(50)) if len(s.things) > 2
    )
    other = scene.edit_thing(1, color="pink" if scene.things[1].color != "pink" else "red")
    one, two = set_stage(scene), set_stage(other)
    assert [a == b for a, b in zip(one.bodies, two.bodies, strict=True)].count(False) == 1
    assert (one.eye, one.lamp, one.ground, one.sky) == (two.eye, two.lamp, two.ground, two.sky)


def test_white_and_black_stay_when_made_linear() -> None:
    assert to_linear((0.0, 1.0, 0.5)) == pytest.approx((0.0, 1.0, 0.2140), abs=1e-4)


def test_a_scene_that_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="1 to 5 things"):
        set_stage(Scene(()))
