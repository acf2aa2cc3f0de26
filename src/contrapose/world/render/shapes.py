"""Ray intersection and surface normals of the seven shapes.

Every shape stands on its foot at the origin with radius 1; rays come in its own coordinates. All
are convex, so a ray enters each once. Rays start outside. Only operations that every device rounds
alike are used: no fused products, no sums over an axis, no division by a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from contrapose.world.scene import (
    CUBE_SIDE,
    PILL_THICKNESS,
    PYRAMID_BASE,
    SHAPES,
    TALL_HEIGHT,
    Shape,
)

Vector: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""x, y and z, each a tensor."""

PILL_AXIS = 1 - PILL_THICKNESS
"""Half the length of a pill's axis."""
EPSILON = 1e-9

BOUNDS: dict[Shape, tuple[float, float]] = {
    "ball": (1.0, 1.0),
    "cube": (CUBE_SIDE, CUBE_SIDE * math.sqrt(3)),
    "cylinder": (1.0, math.sqrt(2)),
    "cone": (0.75, 1.25),
    "pyramid": (0.595, 1.405),
    "dome": (0.0, 1.0),
    "pill": (PILL_THICKNESS, 1.0),
}
"""Height of the middle, and radius, of a ball around each shape."""


def _away_from_zero(value: Tensor) -> Tensor:
    return value.masked_fill(value.abs() < EPSILON, EPSILON)


def _slab(start: Tensor, step: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Interval of ray parameters in which one coordinate lies between two bounds."""
    inverse = _away_from_zero(step).reciprocal()
    one, other = (low - start) * inverse, (high - start) * inverse
    return torch.minimum(one, other), torch.maximum(one, other)


def _roots(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Roots of a t² + 2 b t + c, smaller first for a > 0, and whether they exist."""
    inside = b * b - a * c
    root, inverse = inside.clamp(min=0).sqrt(), _away_from_zero(a).reciprocal()
    return (-b - root) * inverse, (root - b) * inverse, inside > 0


def _mask_misses(hit: Tensor, near: Tensor) -> Tensor:
    return near.masked_fill(~hit, torch.inf)


def _sphere_roots(o: Vector, d: Vector, z: float) -> tuple[Tensor, Tensor, Tensor]:
    """Ray parameters at which rays meet the unit sphere around height z."""
    oz = o[2] - z
    a = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    b = o[0] * d[0] + o[1] * d[1] + oz * d[2]
    return _roots(a, b, o[0] * o[0] + o[1] * o[1] + oz * oz - 1)


def _ball(o: Vector, d: Vector) -> Tensor:
    near, _, hit = _sphere_roots(o, d, 1.0)
    return _mask_misses(hit, near)


def _dome(o: Vector, d: Vector) -> Tensor:
    near, far, hit = _sphere_roots(o, d, 0.0)
    low, high = _slab(o[2], d[2], 0.0, 1.5)
    near, far = torch.maximum(near, low), torch.minimum(far, high)
    return _mask_misses(hit & (near < far), near)


def _cube(o: Vector, d: Vector) -> Tensor:
    near, far = _slab(o[2], d[2], 0.0, 2 * CUBE_SIDE)
    for axis in (0, 1):
        low, high = _slab(o[axis], d[axis], -CUBE_SIDE, CUBE_SIDE)
        near, far = torch.maximum(near, low), torch.minimum(far, high)
    return _mask_misses(near < far, near)


def _cylinder(o: Vector, d: Vector) -> Tensor:
    a = (d[0] * d[0] + d[1] * d[1]).clamp(min=EPSILON)
    b = o[0] * d[0] + o[1] * d[1]
    near, far, hit = _roots(a, b, o[0] * o[0] + o[1] * o[1] - 1)
    low, high = _slab(o[2], d[2], 0.0, TALL_HEIGHT)
    near, far = torch.maximum(near, low), torch.minimum(far, high)
    return _mask_misses(hit & (near < far), near)


def _cone(o: Vector, d: Vector) -> Tensor:
    oz, dz = (
        (TALL_HEIGHT - o[2]) * 0.5,
        d[2] * -0.5,
    )  # width left at a height: 1 at the foot, 0 at the tip
    a = d[0] * d[0] + d[1] * d[1] - dz * dz
    b = o[0] * d[0] + o[1] * d[1] - oz * dz
    one, other, hit = _roots(a, b, o[0] * o[0] + o[1] * o[1] - oz * oz)
    low, high = _slab(o[2], d[2], 0.0, TALL_HEIGHT)
    # A ray steeper than the cone's side is inside before the first or after the last crossing;
    # the other part belongs to the mirrored cone above the tip.
    steep, rising = a < 0, d[2] > 0
    first, last = torch.minimum(one, other), torch.maximum(one, other)
    near = torch.where(steep, last, first).masked_fill(steep & rising, -torch.inf)
    far = torch.where(steep, first, last).masked_fill(steep & ~rising, torch.inf)
    near, far = torch.maximum(near, low), torch.minimum(far, high)
    return _mask_misses((hit | steep) & (near < far), near)


def _pyramid(o: Vector, d: Vector) -> Tensor:
    lean = PYRAMID_BASE / TALL_HEIGHT
    near, far = _slab(o[2], d[2], 0.0, TALL_HEIGHT)
    for axis in (0, 1):
        for side in (-1.0, 1.0):
            step = _away_from_zero(d[axis] * side + d[2] * lean)
            meet = (PYRAMID_BASE - (o[axis] * side + o[2] * lean)) / step
            near = torch.where(step < 0, torch.maximum(near, meet), near)
            far = torch.where(step > 0, torch.minimum(far, meet), far)
    return _mask_misses(near < far, near)


def _pill(o: Vector, d: Vector) -> Tensor:
    oz = o[2] - PILL_THICKNESS
    across = (d[1] * d[1] + d[2] * d[2]).clamp(min=EPSILON)
    along = o[1] * d[1] + oz * d[2]
    rest = o[1] * o[1] + oz * oz - PILL_THICKNESS * PILL_THICKNESS
    side, _, hit = _roots(across, along, rest)
    # Where the endless tube is entered beyond the axis' end, the pill can only be entered by the
    # round cap of that end.
    x = o[0] + side * d[0]
    end = x.clamp(-PILL_AXIS, PILL_AXIS)
    ox = o[0] - end
    cap, _, cap_hit = _roots(across + d[0] * d[0], along + ox * d[0], rest + ox * ox)
    body = x == end
    return _mask_misses(hit & (body | cap_hit), torch.where(body, side, cap))


_ENTRIES: dict[Shape, Callable[[Vector, Vector], Tensor]] = {
    "ball": _ball,
    "cube": _cube,
    "cylinder": _cylinder,
    "cone": _cone,
    "pyramid": _pyramid,
    "dome": _dome,
    "pill": _pill,
}


def ray_entry(shape: Shape, origin: Vector, direction: Vector) -> Tensor:
    """Ray parameter at which rays enter a shape; infinite where they miss it.

    It is negative where the shape lies behind the origin.
    """
    return _ENTRIES[shape](origin, direction)


def surface_normal(code: Tensor, at: Vector) -> Vector:
    """Outward unit normal at surface points; `code` is each point's shape code."""
    x, y, z = at
    shape = {name: code == index for index, name in enumerate(SHAPES)}
    wide = x.abs() > y.abs()
    top = shape["cube"] & (z - CUBE_SIDE > torch.maximum(x.abs(), y.abs()))
    top = top | (shape["cylinder"] & (z > TALL_HEIGHT - 2e-3))
    edged = shape["cube"] | shape["pyramid"]
    nx = torch.where(shape["pill"], x - x.clamp(-PILL_AXIS, PILL_AXIS), x)
    nx = torch.where(edged, x.sign(), nx).masked_fill(top | (edged & ~wide), 0)
    ny = torch.where(edged, y.sign(), y).masked_fill(top | (edged & wide), 0)
    nz = torch.where(shape["ball"], z - 1, z)
    nz = torch.where(shape["pill"], z - PILL_THICKNESS, nz)
    nz = torch.where(shape["cone"], (TALL_HEIGHT - z) * 0.25, nz)
    nz = nz.masked_fill(shape["pyramid"], PYRAMID_BASE / TALL_HEIGHT)
    nz = nz.masked_fill(shape["cube"] | shape["cylinder"], 0).masked_fill(top, 1)
    length = (nx * nx + ny * ny + nz * nz).sqrt().clamp(min=EPSILON).reciprocal()
    return nx * length, ny * length, nz * length
