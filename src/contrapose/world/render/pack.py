"""Scenes as a few tensors: what the renderer reads, ready to be sliced and moved to a device.

Sines and cosines are taken here, in double precision on the host, so that every later number comes
from additions, products, quotients and square roots alone, which all devices round alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contrapose.world.scene import COLORS, MATERIALS, PATTERNS, SHAPES, Scene

SHAPE_CODE = {shape: code for code, shape in enumerate(SHAPES)}
MATERIAL_CODE = {material: code for code, material in enumerate(MATERIALS)}
PATTERN_CODE = {pattern: code for code, pattern in enumerate(PATTERNS)}
TARGET_HEIGHT = 0.4
"""How high above the middle of the ground the camera looks."""
EMPTY = -1
"""Shape code of a place where a scene has no thing."""

THING_COLUMNS = (
    "x", "y", "foot", "radius", "cos", "sin", "red", "green", "blue", "material", "pattern",
    "shape",
)  # fmt: skip
"""What the last axis of `PackedScenes.things` holds; codes are positions in `scene`'s lists."""
VIEW_COLUMNS = (
    "eye_x", "eye_y", "eye_z", "ahead_x", "ahead_y", "ahead_z", "right_x", "right_y", "up_x",
    "up_y", "up_z", "lamp_x", "lamp_y", "lamp_z", "strength", "ambient", "ground_r", "ground_g",
    "ground_b", "tiles", "sky_r", "sky_g", "sky_b",
)  # fmt: skip
"""What the last axis of `PackedScenes.views` holds.

`right` and `up` reach from the middle of the picture to its edge, one unit ahead of the eye; `lamp`
points to the lamp.
"""


@dataclass(frozen=True, slots=True)
class PackedScenes:
    """N scenes of at most K things.

    Attributes:
        shape: (N, K) shape codes, `EMPTY` where there is no thing; always on the host, because
            they decide which formula runs.
        things: (N, K, len(THING_COLUMNS)) float32.
        views: (N, len(VIEW_COLUMNS)) float32: camera, light and ground.
    """

    shape: Tensor
    things: Tensor
    views: Tensor

    def __len__(self) -> int:
        return int(self.shape.shape[0])

    def __getitem__(self, rows: slice) -> PackedScenes:
        """Some of the scenes."""
        return PackedScenes(self.shape[rows], self.things[rows], self.views[rows])

    @property
    def valid(self) -> Tensor:
        """(N, K) whether there is a thing; on the host."""
        return self.shape != EMPTY

    @property
    def device(self) -> torch.device:
        """Where the numbers are."""
        return self.things.device

    def to(self, device: str | torch.device) -> PackedScenes:
        """The same scenes on another device."""
        return PackedScenes(self.shape, self.things.to(device), self.views.to(device))


def pack(scenes: Sequence[Scene]) -> PackedScenes:
    """Put scenes into tensors on the host.

    Raises:
        InputError: a scene cannot be drawn.
    """
    most = max((len(scene.things) for scene in scenes), default=1)
    missing = [0.0] * len(THING_COLUMNS)
    missing[THING_COLUMNS.index("radius")] = 1.0
    shapes: list[list[int]] = []
    things: list[list[list[float]]] = []
    for scene in scenes:
        scene.check()
        rows = _things(scene)
        shapes.append([int(row[-1]) for row in rows] + [EMPTY] * (most - len(rows)))
        things.append(rows + [missing] * (most - len(rows)))
    count = len(scenes)
    return PackedScenes(
        torch.tensor(shapes, dtype=torch.int64).reshape(count, most),
        torch.tensor(things, dtype=torch.float32).reshape(count, most, len(THING_COLUMNS)),
        torch.tensor([_view(scene) for scene in scenes], dtype=torch.float32).reshape(
            count, len(VIEW_COLUMNS)
        ),
    )


def _things(scene: Scene) -> list[list[float]]:
    return [
        [
            thing.x, thing.y, scene.foot(index), thing.radius, math.cos(thing.turn),
            math.sin(thing.turn), *COLORS[thing.color], MATERIAL_CODE[thing.material],
            PATTERN_CODE[thing.pattern], SHAPE_CODE[thing.shape],
        ]
        for index, thing in enumerate(scene.things)
    ]  # fmt: skip


def _view(scene: Scene) -> list[float]:
    camera, light, ground = scene.camera, scene.light, scene.ground
    cos, sin = math.cos(camera.turn), math.sin(camera.turn)
    level, down = math.cos(camera.pitch), math.sin(camera.pitch)
    ahead = (-sin * level, cos * level, -down)
    reach = math.tan(camera.view / 2)
    around = camera.turn + light.azimuth
    low = math.cos(light.elevation)
    return [
        -camera.distance * ahead[0], -camera.distance * ahead[1],
        TARGET_HEIGHT - camera.distance * ahead[2], *ahead, reach * cos, reach * sin,
        -reach * sin * down, reach * cos * down, reach * level,
        low * math.sin(around), -low * math.cos(around), math.sin(light.elevation),
        light.strength, light.ambient, *ground.color, ground.tiles, *ground.sky,
    ]  # fmt: skip
