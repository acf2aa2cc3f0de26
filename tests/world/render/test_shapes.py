"""The closed formulas against independent reckoning."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from contrapose.world.render.shapes import BOUNDS, Vector, ray_entry, surface_normal
from contrapose.world.scene import CUBE_SIDE, PILL_THICKNESS, PYRAMID_BASE, SHAPES, Shape, Thing

Array = np.ndarray


def inside(shape: Shape, p: Array) -> Array:
    """Whether points (…, 3) lie in a shape: its definition, in double precision."""
    x, y, z = np.moveaxis(p, -1, 0)
    flat = x * x + y * y
    side = np.maximum(abs(x), abs(y))
    end = np.clip(x, -(1 - PILL_THICKNESS), 1 - PILL_THICKNESS)
    found = {
        "ball": flat + (z - 1) ** 2 <= 1,
        "cube": (side <= CUBE_SIDE) & (abs(z - CUBE_SIDE) <= CUBE_SIDE),
        "cylinder": (flat <= 1) & (abs(z - 1) <= 1),
        "cone": (np.sqrt(flat) <= 1 - z / 2) & (z >= 0),
        "pyramid": (side <= PYRAMID_BASE * (1 - z / 2)) & (z >= 0),
        "dome": (flat + z * z <= 1) & (z >= 0),
        "pill": (x - end) ** 2 + y * y + (z - PILL_THICKNESS) ** 2 <= PILL_THICKNESS**2,
    }[shape]
    return np.asarray(found)


def rays(count: int, seed: int) -> tuple[Array, Array]:
    """From a shell around the shape to points about it."""
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(count, 3))
    start *= rng.uniform(4, 12, size=(count, 1)) / np.linalg.norm(start, axis=1, keepdims=True)
    step = rng.uniform((-1.5, -1.5, -0.5), (1.5, 1.5, 2.5), size=(count, 3)) - start
    step /= np.linalg.norm(step, axis=1, keepdims=True)
    return start.astype(np.float32), step.astype(np.float32)


def columns(array: Array) -> Vector:
    x, y, z = torch.from_numpy(np.asarray(array, np.float32).T.copy()).unbind(0)
    return x, y, z


def test_ball_entry_equals_the_closed_form() -> None:
    start, step = rays(4000, 0)
    found = ray_entry("ball", columns(start), columns(step)).double().numpy()
    o, d = start.astype(np.float64) - (0, 0, 1), step.astype(np.float64)
    b, c = (o * d).sum(1), (o * o).sum(1) - 1
    within = b * b - (d * d).sum(1) * c
    expected = (-b - np.sqrt(np.maximum(within, 0))) / (d * d).sum(1)
    clear = abs(within) > 1e-3
    assert np.array_equal(np.isfinite(found)[clear], (within > 0)[clear])
    both = np.isfinite(found) & clear
    assert np.abs(found - expected)[both].max() < 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_ray_entry_equals_ray_marching(shape: Shape) -> None:
    start, step = rays(400, 1)
    found = ray_entry(shape, columns(start), columns(step)).double().numpy()
    t = np.linspace(0, 18, 6001)
    steps = inside(shape, start[:, None] + t[:, None] * step[:, None].astype(np.float64))
    marched = np.where(steps.any(1), t[steps.argmax(1)], np.inf)
    long = steps.sum(1) > 5  # grazing rays are too short for marching to find
    never = ~np.isfinite(found)
    assert np.isfinite(found[long]).all()
    assert (abs(found[long] - marched[long]) < 0.004).all()
    assert never[steps.sum(1) == 0].mean() > 0.9
    assert long.mean() > 0.15


@pytest.mark.parametrize("shape", SHAPES)
def test_normals_are_unit_and_face_the_ray(shape: Shape) -> None:
    start, step = rays(2000, 2)
    o, d = columns(start), columns(step)
    t = ray_entry(shape, o, d)
    t = torch.where(torch.isfinite(t), t, torch.nan)
    at: Vector = (o[0] + t * d[0], o[1] + t * d[1], o[2] + t * d[2])
    hit = torch.isfinite(t) & (at[2] > 0.01) & (d[2] < 0)  # nobody looks up from the ground
    n = surface_normal(torch.full_like(t, SHAPES.index(shape)), at)
    length = (n[0] ** 2 + n[1] ** 2 + n[2] ** 2).sqrt()
    toward = n[0] * d[0] + n[1] * d[1] + n[2] * d[2]
    assert hit.sum() > 100
    assert (length[hit] - 1).abs().max() < 1e-5
    assert (toward[hit] < 2e-2).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_their_height_and_lie_within_their_bounds(shape: Shape) -> None:
    grid = np.stack(np.meshgrid(*[np.linspace(-1.5, 2.5, 81)] * 3), -1).reshape(-1, 3)
    body = grid[inside(shape, grid)]
    thing = Thing(shape, "red", "rubber", "large", "plain", 0, 0)
    assert math.isclose(body[:, 2].max(), thing.height / thing.radius, abs_tol=0.06)
    middle, radius = BOUNDS[shape]
    assert np.linalg.norm(body - (0, 0, middle), axis=1).max() <= radius + 1e-6


def test_rays_along_an_axis_are_finite() -> None:
    zero = torch.zeros(1)
    down: Vector = (zero, zero, zero - 1)
    heights = {shape: float(ray_entry(shape, (zero, zero, zero + 9), down)) for shape in SHAPES}
    for shape, t in heights.items():
        thing = Thing(shape, "red", "rubber", "large", "plain", 0, 0)
        assert math.isclose(9 - t, thing.height / thing.radius, abs_tol=1e-4)

    def across(shape: Shape, x: float, y: float) -> Tensor:
        return ray_entry(
            shape, (zero - 9 * x, zero - 9 * y, zero + 0.3), (zero + x, zero + y, zero)
        )

    for shape in SHAPES:
        for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            assert 7.5 < float(across(shape, x, y)) < 9
