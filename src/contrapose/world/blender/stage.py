"""Scene values as Blender takes them: bodies, camera, lamp, ground and sky; no Blender is needed.

Blender computes light in linear color and shows it by sRGB, so colors are converted. Its camera
looks along its own −z with y up; a lamp of energy π lights a white surface that faces it to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from contrapose.world.scene import COLORS, PALE_SHARE, RGB, TARGET_HEIGHT, Scene, Thing

Vector3 = tuple[float, float, float]

RUBBER_ROUGHNESS, METAL_ROUGHNESS = 0.75, 0.16
METALLIC = 0.7
"""Share of the mirror in metal; the rest is dull, so that its color shows from every side."""
LAMP_ANGLE = 0.06
"""Angular width of the lamp in radians, which softens its shadows a little."""


@dataclass(frozen=True, slots=True)
class Body:
    """One thing of a scene, for Blender.

    Attributes:
        thing: the thing.
        position: middle of its foot.
        paint: its color, linear.
        pale: color of every other band or check, linear.
        metallic: share of the mirror; 0 for rubber.
        roughness: of its surface.
    """

    thing: Thing
    position: Vector3
    paint: RGB
    pale: RGB
    metallic: float
    roughness: float


@dataclass(frozen=True, slots=True)
class Stage:
    """A scene as Blender takes it.

    Attributes:
        bodies: its things, in the order of the scene.
        eye: position of the camera.
        right: unit vector to the right of the image.
        up: unit vector to its top.
        ahead: unit vector along the view.
        view: field of view, of width and height alike.
        lamp: unit vector toward the lamp.
        energy: of the lamp.
        ambient: radiance of the surroundings, gray.
        ground: color of the plane, linear.
        tiles: how strongly every other tile is darkened.
        sky: color of the sky, linear.
    """

    bodies: tuple[Body, ...]
    eye: Vector3
    right: Vector3
    up: Vector3
    ahead: Vector3
    view: float
    lamp: Vector3
    energy: float
    ambient: float
    ground: RGB
    tiles: float
    sky: RGB


def set_stage(scene: Scene) -> Stage:
    """Stage of a scene.

    Raises:
        InputError: the scene cannot be drawn.
    """
    scene.check()
    camera, light = scene.camera, scene.light
    cos, sin = math.cos(camera.turn), math.sin(camera.turn)
    level, down = math.cos(camera.pitch), math.sin(camera.pitch)
    ahead = (-sin * level, cos * level, -down)
    around, low = camera.turn + light.azimuth, math.cos(light.elevation)
    return Stage(
        bodies=tuple(_make_body(scene, i) for i in range(len(scene.things))),
        eye=(
            -camera.distance * ahead[0],
            -camera.distance * ahead[1],
            TARGET_HEIGHT - camera.distance * ahead[2],
        ),
        right=(cos, sin, 0.0),
        up=(-sin * down, cos * down, level),
        ahead=ahead,
        view=camera.view,
        lamp=(low * math.sin(around), -low * math.cos(around), math.sin(light.elevation)),
        energy=math.pi * light.strength,
        ambient=light.ambient,
        ground=to_linear(scene.ground.color),
        tiles=scene.ground.tiles,
        sky=to_linear(scene.ground.sky),
    )


def _make_body(scene: Scene, index: int) -> Body:
    thing = scene.things[index]
    red, green, blue = COLORS[thing.color]
    pale = tuple(part + PALE_SHARE * (1 - part) for part in (red, green, blue))
    metal = thing.material == "metal"
    return Body(
        thing=thing,
        position=(thing.x, thing.y, scene.foot(index)),
        paint=to_linear((red, green, blue)),
        pale=to_linear((pale[0], pale[1], pale[2])),
        metallic=METALLIC if metal else 0.0,
        roughness=METAL_ROUGHNESS if metal else RUBBER_ROUGHNESS,
    )


def to_linear(color: RGB) -> RGB:
    """Linear color of an sRGB color."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color
    )
    return red, green, blue
