"""Rendering: properties that hold for every image."""

import math
from dataclasses import replace

import pytest
import torch

from contrapose.errors import InputError
from contrapose.world.render import Rendering, index_maps, pack, render, render_packed, visibility
from contrapose.world.scene import (
    COLORS,
    MATERIALS,
    PATTERNS,
    SHAPES,
    SIZES,
    Camera,
    Light,
    Scene,
    Thing,
    camera_position,
)

BALL = Thing("ball", "red", "rubber", "medium", "plain", 0.0, 0.0)
CUBE = Thing("cube", "blue", "rubber", "large", "plain", 0.0, 0.0, 0.4)


@pytest.fixture(scope="module")
def rendered(scenes: list[Scene]) -> Rendering:
    return render(scenes, 64)


def same(one: Rendering, other: Rendering) -> bool:
    return (
        torch.equal(one.images, other.images)
        and torch.equal(one.index, other.index)
        and torch.equal(one.depth, other.depth)
    )


def test_shapes_and_types(scenes: list[Scene], rendered: Rendering) -> None:
    count, most = len(scenes), max(len(scene.things) for scene in scenes)
    assert rendered.images.shape == (count, 64, 64, 3)
    assert rendered.images.dtype == torch.uint8
    assert rendered.index.dtype == torch.int8
    assert rendered.depth.dtype == torch.float32
    assert rendered.masks().shape == (count, most, 64, 64)
    assert (rendered.depth > 0).all()


def test_masks_are_disjoint_and_are_the_index(rendered: Rendering) -> None:
    masks = rendered.masks()
    assert (masks.sum(1) <= 1).all()
    assert torch.equal(masks.any(1), rendered.index >= 0)
    assert torch.equal(masks.long().argmax(1)[masks.any(1)], rendered.index.long()[masks.any(1)])
    assert torch.equal(rendered.areas(), masks.sum((2, 3)))


def test_boxes_are_tight(rendered: Rendering) -> None:
    for masks, boxes in zip(rendered.masks(), rendered.boxes(), strict=True):
        for mask, box in zip(masks, boxes, strict=True):
            if box is None:
                assert not mask.any()
                continue
            left, top, right, bottom = box
            part = mask[top:bottom, left:right]
            assert part.sum() == mask.sum()
            edges = (part[0], part[-1], part[:, 0], part[:, -1])
            assert all(bool(edge.any()) for edge in edges)


def test_rendering_is_deterministic(scenes: list[Scene], rendered: Rendering) -> None:
    assert same(render(scenes, 64), rendered)
    assert same(render(scenes, 64, chunk=5), rendered)
    again = [Scene.from_json(scene.to_json()) for scene in scenes]
    assert same(render(again, 64), rendered)


def test_a_batch_is_its_scenes_one_by_one(scenes: list[Scene], rendered: Rendering) -> None:
    for place, scene in enumerate(scenes[:6]):
        alone = render([scene], 64)
        assert torch.equal(alone.images[0], rendered.images[place])
        assert torch.equal(alone.index[0], rendered.index[place])
        assert torch.equal(alone.silhouettes[0], rendered.silhouettes[place, : len(scene.things)])


def test_threads_do_not_matter(scenes: list[Scene], rendered: Rendering) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert same(render(scenes, 64), rendered)
    finally:
        torch.set_num_threads(threads)


def test_index_and_depth_do_not_depend_on_samples(scenes: list[Scene], rendered: Rendering) -> None:
    coarse = render(scenes, 64, samples=1)
    assert torch.equal(coarse.index, rendered.index)
    assert torch.equal(coarse.depth, rendered.depth)
    assert (coarse.images.float() - rendered.images.float()).abs().mean() < 4


def test_index_maps_equal_the_rendering(scenes: list[Scene], rendered: Rendering) -> None:
    found = index_maps(pack(scenes), rendered.index.shape[1])
    assert torch.equal(found, rendered.index)
    assert found.dtype == rendered.index.dtype
    assert index_maps(pack(scenes[:0]), 8).shape == (0, 8, 8)


def test_a_ball_is_where_the_camera_sees_it() -> None:
    """Index and depth of a ball against a pinhole camera written down again in double precision."""
    size = 48
    scene = Scene((replace(BALL, x=0.7, y=-0.5),), Camera(8.0, 0.4, 0.3, 0.6))
    out = render([scene], size)
    camera = scene.camera
    away = (-math.sin(camera.turn), math.cos(camera.turn))
    level, down = math.cos(camera.pitch), math.sin(camera.pitch)
    eye = (-8 * level * away[0], -8 * level * away[1], 0.4 + 8 * down)
    to = (0.7 - eye[0], -0.5 - eye[1], BALL.radius - eye[2])
    square = to[0] ** 2 + to[1] ** 2 + to[2] ** 2
    reach = math.tan(camera.view / 2)
    for row in range(size):
        for column in range(size):
            u = ((column + 0.5) / size * 2 - 1) * reach
            v = (1 - (row + 0.5) / size * 2) * reach
            d = (
                away[0] * (level + v * down) + u * math.cos(camera.turn),
                away[1] * (level + v * down) + u * math.sin(camera.turn),
                -down + v * level,
            )
            long = math.hypot(*d)
            along = (d[0] * to[0] + d[1] * to[1] + d[2] * to[2]) / long
            within = BALL.radius**2 - (square - along**2)
            if abs(within) > 1e-4:
                assert (int(out.index[0, row, column]) == 0) == (within > 0)
            if within > 1e-2:
                expected = along - math.sqrt(within)
                assert abs(float(out.depth[0, row, column]) - expected) < 1e-3


def test_left_of_is_left_in_the_image(scenes: list[Scene]) -> None:
    for scene in scenes:
        if len(scene.things) < 2:
            continue
        first, second = camera_position(scene, 0), camera_position(scene, 1)
        if abs(first[0] - second[0]) < 1.5 or abs(first[1] - second[1]) > 1.0:
            continue
        boxes = [
            render([replace(scene, things=(scene.things[i],))], 64).boxes()[0][0] for i in (0, 1)
        ]
        if boxes[0] is None or boxes[1] is None:
            continue
        middles = [box[0] + box[2] for box in boxes if box is not None]
        assert (middles[0] < middles[1]) == (first[0] < second[0])


def test_what_is_behind_is_hidden() -> None:
    small = Thing("ball", "red", "rubber", "small", "plain", 0.0, 1.6)
    big = Thing("cube", "blue", "rubber", "large", "plain", 0.0, 0.0)
    flat = Camera(pitch=0.1)
    out = render([Scene((small, big), flat), Scene((replace(small, x=2.0), big), flat)])
    hidden, beside = out.visible()[:, 0].tolist()
    assert hidden == 0
    assert beside == 1
    assert out.visible()[0, 1] == 1
    assert out.silhouettes[0, 0] > 50
    assert out.boxes()[0][0] is None
    assert out.nearest_first() == [[1], [1, 0]]


def test_visibility_equals_the_rendering(scenes: list[Scene]) -> None:
    fraction, area = visibility(pack(scenes), 48)
    out = render(scenes, 48, samples=1)
    assert torch.equal(fraction, out.visible())
    assert torch.equal(area, out.areas())


@pytest.mark.parametrize(("azimuth", "falls"), [(1.4, -1), (-1.4, 1)])
def test_shadows_fall_away_from_the_lamp(azimuth: float, falls: int) -> None:
    scene = Scene((BALL,), light=Light(azimuth=azimuth, elevation=0.8))
    out = render([scene], 64, samples=1)
    light = out.images[0].float().mean(-1)
    ground = out.index[0] == -1
    dark = ground & (light < light[ground].median() - 25)
    assert dark.sum() > 20
    columns = dark.nonzero()[:, 1].float().mean() - out.masks()[0, 0].nonzero()[:, 1].float().mean()
    assert math.copysign(1, float(columns)) == falls


@pytest.mark.parametrize(
    "slots",
    [
        {"color": "green"},
        {"material": "metal"},
        {"pattern": "striped"},
        {"turn": 1.0},
        {"shape": "cone"},
        {"size": "small"},
    ],
)
def test_an_edit_changes_only_what_the_thing_or_its_shadow_touches(slots: dict[str, str]) -> None:
    other = Thing("cylinder", "yellow", "metal", "medium", "checkered", 1.5, 0.6, 0.2)
    before = Scene((CUBE, other), light=Light(azimuth=-0.5, elevation=0.7))
    after = before.edit_thing(0, **slots)
    gone = replace(before, things=(other,))
    a, b, without = render([before, after, gone], 96).images.long()
    changed = (a != b).any(-1)
    touched = (a != without).any(-1) | (b != without).any(-1)
    assert changed.sum() > 20
    assert not (changed & ~touched).any()
    if set(slots) <= {"color", "material", "pattern"}:
        silhouette = render([before], 96 * 2, samples=1).masks()[0, 0]
        own = silhouette.reshape(96, 2, 96, 2).any(3).any(1)  # any sample of the pixel
        assert not (changed & ~own).any()


def test_every_word_looks_different() -> None:
    plain = replace(BALL, turn=0.3, material="metal")
    variants = [
        *(replace(plain, shape=shape) for shape in SHAPES),
        *(replace(plain, color=color) for color in COLORS if color != "red"),
        replace(plain, material="rubber"),
        *(replace(plain, size=size) for size in SIZES if size != "medium"),
        *(replace(plain, pattern=pattern) for pattern in PATTERNS if pattern != "plain"),
    ]
    images = render([Scene((thing,)) for thing in variants], 96).images.float()
    for first in range(len(images)):
        for second in range(first):
            assert ((images[first] - images[second]).abs().amax(-1) > 10).sum() > 20


def test_materials_differ_on_every_shape() -> None:
    scenes = [
        Scene((replace(CUBE, shape=shape, material=material),))
        for shape in SHAPES
        for material in MATERIALS
    ]
    images = render(scenes, 96).images.float()
    for dull, shiny in zip(images[0::2], images[1::2], strict=True):
        assert ((dull - shiny).abs().amax(-1) > 15).sum() > 60


def test_piles_stand_on_each_other() -> None:
    ball = replace(BALL, on=0)
    top = render([Scene((CUBE, ball))], 96)
    boxes = top.boxes()[0]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1][3] <= boxes[0][1] + 12
    assert boxes[1][1] < boxes[0][1]


def test_sky_has_no_thing_and_infinite_depth() -> None:
    out = render([Scene((BALL,), Camera(pitch=0.1))], 48)
    sky = out.depth[0] == torch.inf
    assert sky[0].all()
    assert (out.index[0][sky] == -1).all()
    assert not sky[-1].any()


def test_no_scenes_give_no_images() -> None:
    assert render([], 32).images.shape == (0, 32, 32, 3)
    assert visibility(pack([]))[0].shape == (0, 1)


@pytest.mark.parametrize("asked", [(0, 2, 1), (32, 0, 1), (32, 2, 0)])
def test_sizes_below_one_are_refused(asked: tuple[int, int, int]) -> None:
    size, samples, chunk = asked
    with pytest.raises(InputError, match="at least 1"):
        render_packed(pack([Scene((BALL,))]), size, samples=samples, chunk=chunk)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_the_same(scenes: list[Scene], rendered: Rendering) -> None:
    out = render(scenes, 64, "cuda")
    assert (out.images.cpu().int() - rendered.images.int()).abs().max() <= 1
    assert torch.equal(out.index.cpu(), rendered.index)
