from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from contrapose.world.blender.meshes import shape_mesh
from contrapose.world.render.shapes import Vector, ray_entry
from contrapose.world.scene import SHAPES, Shape


def to_vector(points: np.ndarray) -> Vector:
    x, y, z = torch.tensor(points, dtype=torch.float32).unbind(-1)
    return x, y, z


@pytest.mark.parametrize("shape", SHAPES)
def test_faces_lie_on_the_surface_that_the_ray_tracer_has(shape: Shape) -> None:
    mesh = shape_mesh(shape)
    points = np.array(mesh.points)
    corners = [points[list(face)] for face in mesh.faces]
    middles = np.array([c.mean(axis=0) for c in corners])
    normals = np.array([np.cross(c[1] - c[0], c[2] - c[1]) for c in corners])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    above = middles[:, 2] > 1e-6  # rays of the tracer come from above the ground
    middles, normals = middles[above], normals[above]
    distance = 0.5
    entry = ray_entry(shape, to_vector(middles + distance * normals), to_vector(-normals))
    assert np.abs(entry.numpy() - distance).max() < 0.003


@pytest.mark.parametrize("shape", SHAPES)
def test_meshes_are_closed_and_stand_on_the_ground(shape: Shape) -> None:
    mesh = shape_mesh(shape)
    edges = Counter(
        (face[i], face[(i + 1) % len(face)]) for face in mesh.faces for i in range(len(face))
    )
    assert set(edges.values()) == {1}
    assert {(b, a) for a, b in edges} == set(edges)  # every edge runs once in each direction
    assert min(z for _, _, z in mesh.points) == pytest.approx(0, abs=1e-12)
