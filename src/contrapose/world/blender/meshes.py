"""Meshes of the seven shapes, in the coordinates of the ray tracer: foot at z = 0, radius 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from contrapose.world.scene import CUBE_SIDE, PILL_THICKNESS, PYRAMID_BASE, TALL_HEIGHT, Shape

SEGMENTS = 128
"""Corners of a round outline: at 512 pixels it is nowhere 0.1 pixels inside the circle."""
RINGS = 64
"""Rings from pole to pole of a ball."""

Point = tuple[float, float, float]
Ring = Sequence[Point]


@dataclass(frozen=True, slots=True)
class ShapeMesh:
    """Closed mesh of a shape.

    Attributes:
        points: its vertices.
        faces: vertex indices of each face, counterclockwise when seen from outside.
    """

    points: tuple[Point, ...]
    faces: tuple[tuple[int, ...], ...]


@cache
def shape_mesh(shape: Shape) -> ShapeMesh:
    """Mesh of a shape with radius 1."""
    return _MESHES[shape]()


def _circle(radius: float, z: float) -> list[Point]:
    angles = (2 * math.pi * i / SEGMENTS for i in range(SEGMENTS))
    return [(radius * math.cos(angle), radius * math.sin(angle), z) for angle in angles]


def _square(half: float, z: float) -> list[Point]:
    return [(-half, -half, z), (half, -half, z), (half, half, z), (-half, half, z)]


def _stack(rings: Sequence[Ring]) -> ShapeMesh:
    """Mesh of rings with equally many points, from the bottom to the top.

    A ring of one point closes an end in a tip; any other end is closed by a flat face.
    """
    points = [point for ring in rings for point in ring]
    starts = [sum(map(len, rings[:i])) for i in range(len(rings))]
    faces: list[tuple[int, ...]] = []
    for (low, low_start), (high, high_start) in pairwise(zip(rings, starts, strict=True)):
        count = max(len(low), len(high))
        for i in range(count):
            j = (i + 1) % count
            if len(low) == 1:
                faces.append((low_start, high_start + j, high_start + i))
            elif len(high) == 1:
                faces.append((low_start + i, low_start + j, high_start))
            else:
                faces.append((low_start + i, low_start + j, high_start + j, high_start + i))
    if len(rings[0]) > 1:
        faces.append(tuple(reversed(range(len(rings[0])))))
    if len(rings[-1]) > 1:
        faces.append(tuple(range(starts[-1], starts[-1] + len(rings[-1]))))
    return ShapeMesh(tuple(points), tuple(faces))


def _arc(first: float, last: float, rings: int) -> list[tuple[float, float]]:
    """Radius and height of points on a half circle, between two angles from its lower pole."""
    angles = (first + (last - first) * i / rings for i in range(rings + 1))
    return [(math.sin(angle), -math.cos(angle)) for angle in angles]


def _round(radius: float, z: float) -> Ring:
    return [(0.0, 0.0, z)] if radius < 1e-9 else _circle(radius, z)


def _ball() -> ShapeMesh:
    return _stack([_round(radius, 1 + z) for radius, z in _arc(0, math.pi, RINGS)])


def _dome() -> ShapeMesh:
    return _stack([_round(radius, z) for radius, z in _arc(math.pi / 2, math.pi, RINGS // 2)])


def _cube() -> ShapeMesh:
    return _stack([_square(CUBE_SIDE, 0.0), _square(CUBE_SIDE, 2 * CUBE_SIDE)])


def _cylinder() -> ShapeMesh:
    return _stack([_circle(1.0, 0.0), _circle(1.0, TALL_HEIGHT)])


def _cone() -> ShapeMesh:
    return _stack([_circle(1.0, 0.0), [(0.0, 0.0, TALL_HEIGHT)]])


def _pyramid() -> ShapeMesh:
    return _stack([_square(PYRAMID_BASE, 0.0), [(0.0, 0.0, TALL_HEIGHT)]])


def _pill() -> ShapeMesh:
    """A pill lies along x: it is stacked upright and turned over."""
    axis = 1 - PILL_THICKNESS
    low, high = _arc(0, math.pi / 2, RINGS // 2), _arc(math.pi / 2, math.pi, RINGS // 2)
    ends = [(radius, z - axis / PILL_THICKNESS) for radius, z in low]
    ends += [(radius, z + axis / PILL_THICKNESS) for radius, z in high]
    upright = _stack([_round(PILL_THICKNESS * r, PILL_THICKNESS * z) for r, z in ends])
    points = tuple((z, y, PILL_THICKNESS - x) for x, y, z in upright.points)
    return ShapeMesh(points, upright.faces)


_MESHES: Mapping[Shape, Callable[[], ShapeMesh]] = {
    "ball": _ball,
    "cube": _cube,
    "cylinder": _cylinder,
    "cone": _cone,
    "pyramid": _pyramid,
    "dome": _dome,
    "pill": _pill,
}
