"""Tensors of the renderer: packed scenes as input, renderings with masks and boxes as output.

Sines and cosines are taken here, in double precision on the host, so that every later number comes
from additions, products, quotients and square roots alone, which all devices round alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from contrapose.world.scene import COLORS, MATERIALS, PATTERNS, SHAPES, TARGET_HEIGHT, Scene

SHAPE_CODE = {shape: code for code, shape in enumerate(SHAPES)}
MATERIAL_CODE = {material: code for code, material in enumerate(MATERIALS)}
PATTERN_CODE = {pattern: code for code, pattern in enumerate(PATTERNS)}
EMPTY = -1
"""Shape code of an empty slot."""

THING_COLUMNS = (
    "x", "y", "foot", "radius", "cos", "sin", "red", "green", "blue", "material", "pattern",
    "shape",
)  # fmt: skip
"""Columns of `PackedScenes.things`; codes are indices into the lists of `scene`."""
VIEW_COLUMNS = (
    "eye_x", "eye_y", "eye_z", "ahead_x", "ahead_y", "ahead_z", "right_x", "right_y", "up_x",
    "up_y", "up_z", "lamp_x", "lamp_y", "lamp_z", "strength", "ambient", "ground_r", "ground_g",
    "ground_b", "tiles", "sky_r", "sky_g", "sky_b",
)  # fmt: skip
"""Columns of `PackedScenes.views`.

`right` and `up` reach from the middle of the image to its edge, one unit ahead of the eye; `lamp`
points to the lamp.
"""


@dataclass(frozen=True, slots=True)
class PackedScenes:
    """N scenes of at most K things, as tensors.

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
        """Slice of the scenes."""
        return PackedScenes(self.shape[rows], self.things[rows], self.views[rows])

    @property
    def valid(self) -> Tensor:
        """(N, K) mask of the slots that hold a thing; on the host."""
        return self.shape != EMPTY

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.things.device

    def to(self, device: str | torch.device) -> PackedScenes:
        """Copy of the scenes on another device."""
        return PackedScenes(self.shape, self.things.to(device), self.views.to(device))


def pack(scenes: Sequence[Scene]) -> PackedScenes:
    """Pack scenes into tensors on the host.

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
        rows = _thing_rows(scene)
        shapes.append([int(row[-1]) for row in rows] + [EMPTY] * (most - len(rows)))
        things.append(rows + [missing] * (most - len(rows)))
    count = len(scenes)
    return PackedScenes(
        torch.tensor(shapes, dtype=torch.int64).reshape(count, most),
        torch.tensor(things, dtype=torch.float32).reshape(count, most, len(THING_COLUMNS)),
        torch.tensor([_view_row(scene) for scene in scenes], dtype=torch.float32).reshape(
            count, len(VIEW_COLUMNS)
        ),
    )


def _thing_rows(scene: Scene) -> list[list[float]]:
    return [
        [
            thing.x, thing.y, scene.foot(index), thing.radius, math.cos(thing.turn),
            math.sin(thing.turn), *COLORS[thing.color], MATERIAL_CODE[thing.material],
            PATTERN_CODE[thing.pattern], SHAPE_CODE[thing.shape],
        ]
        for index, thing in enumerate(scene.things)
    ]  # fmt: skip


def _view_row(scene: Scene) -> list[float]:
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


Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom; the last two are one past the last pixel."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Rendering of N scenes of at most K things, H by W pixels.

    Attributes:
        images: (N, H, W, 3) uint8.
        index: (N, H, W) int8 position of the thing seen through the middle of each pixel; −1 for
            ground and sky.
        depth: (N, H, W) float32 distance from the eye along the ray; infinite for the sky.
        silhouettes: (N, K) int64 pixels that each thing would cover alone.
    """

    images: Tensor
    index: Tensor
    depth: Tensor
    silhouettes: Tensor

    def masks(self) -> Tensor:
        """(N, K, H, W) visible pixels of each thing; masks are disjoint."""
        places = torch.arange(self.silhouettes.shape[1], dtype=torch.int8, device=self.index.device)
        return self.index[:, None] == places[:, None, None]

    def areas(self) -> Tensor:
        """(N, K) number of visible pixels of each thing."""
        return self.masks().flatten(2).sum(2)

    def visible(self) -> Tensor:
        """(N, K) visible fraction of each thing's silhouette; 0 if it has none."""
        return self.areas() / self.silhouettes.clamp(min=1)

    def boxes(self) -> list[list[Box | None]]:
        """Bounding box of the visible pixels of each thing; None where there are none."""
        masks = self.masks().cpu()
        return [[_bounding_box(mask) for mask in scene] for scene in masks]

    def nearest_first(self) -> list[list[int]]:
        """Visible things of each scene, by the distance of their nearest visible point."""
        masked = torch.where(self.masks(), self.depth[:, None], torch.inf)
        distances = masked.flatten(2).amin(2).tolist()
        return [
            [k for k in sorted(range(len(row)), key=row.__getitem__) if row[k] < float("inf")]
            for row in distances
        ]


def _bounding_box(mask: Tensor) -> Box | None:
    rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
