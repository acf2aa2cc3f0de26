"""Scenes as values (things, camera, light, ground) and the spatial relations between their things.

Every number that decides a pixel stands in the scene, so two scenes that differ in one slot differ
in nothing else. Coordinates: x to the right, y away from the camera, z up; the plane is z = 0 and
the camera looks along y from the negative side. Angles are radians.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from contrapose.errors import InputError

Shape = Literal["ball", "cube", "cylinder", "cone", "pyramid", "dome", "pill"]
Color = Literal[
    "red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink", "brown", "gray"
]
Material = Literal["rubber", "metal"]
Size = Literal["small", "medium", "large"]
Pattern = Literal["plain", "striped", "checkered"]
RGB = tuple[float, float, float]

SHAPES: tuple[Shape, ...] = ("ball", "cube", "cylinder", "cone", "pyramid", "dome", "pill")
COLORS: Mapping[Color, RGB] = {
    "red": (0.80, 0.10, 0.10),
    "orange": (0.95, 0.48, 0.05),
    "yellow": (0.95, 0.85, 0.10),
    "green": (0.10, 0.55, 0.15),
    "cyan": (0.15, 0.80, 0.85),
    "blue": (0.10, 0.20, 0.80),
    "purple": (0.48, 0.12, 0.62),
    "pink": (0.98, 0.50, 0.72),
    "brown": (0.42, 0.24, 0.10),
    "gray": (0.48, 0.48, 0.50),
}
MATERIALS: tuple[Material, ...] = ("rubber", "metal")
SIZES: Mapping[Size, float] = {"small": 0.34, "medium": 0.52, "large": 0.76}
"""Radius: half the width of a thing; half its height too, except for cubes, whose half side is
`CUBE_SIDE` of it, so that they look no larger than balls; domes, which are as high as their radius;
and pills, which lie on their side and are as high as they are thick."""
PATTERNS: tuple[Pattern, ...] = ("plain", "striped", "checkered")
FLAT_TOPS: tuple[Shape, ...] = ("cube", "cylinder")
"""Shapes that another thing can stand on."""
MOST_THINGS = 5
CUBE_SIDE = 0.8
"""Half the side of a cube over its radius; its corners stand a little outside the radius."""
PILL_THICKNESS = 0.5
"""Radius of a pill's round cross-section over half its length."""
PYRAMID_BASE = 0.9
"""Half the side of a pyramid's foot over its radius."""
TALL_HEIGHT = 2.0
"""Height of cylinder, cone and pyramid over their radius."""
TARGET_HEIGHT = 0.4
"""Height above the middle of the ground of the point that the camera looks at."""

PALE_SHARE = 0.80
"""Share of white in every other band or check of a pattern."""
BAND, CHECK = 0.36, 0.45
"""Heights of a stripe and of a check over the radius; no flat top lies on a border of theirs."""
CUBE_CHECK = 0.275
"""Half the width of the middle check of three on a cube's face."""
PILL_START = 1.18
"""Distance over the radius from a pill's middle at which its bands and checks begin."""
HAZE_FROM, HAZE_GROWTH = 14.0, 0.02
"""Distance from which the ground fades into the sky, and the rate."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object of a scene: its appearance, position, and what it stands on.

    Attributes:
        shape: its form.
        color: its color.
        material: rubber is dull, metal shines.
        size: its size class.
        pattern: pattern of its surface.
        x: position to the right of the middle of the ground.
        y: position behind the middle of the ground.
        turn: rotation about the vertical.
        on: index of the thing it stands on, whose x and y it shares; None for the ground.
    """

    shape: Shape
    color: Color
    material: Material
    size: Size
    pattern: Pattern
    x: float
    y: float
    turn: float = 0.0
    on: int | None = None

    @property
    def radius(self) -> float:
        """Half of its width."""
        return SIZES[self.size]

    @property
    def height(self) -> float:
        """Height of its top above its foot."""
        if self.shape == "dome":
            return self.radius
        if self.shape == "cube":
            return 2 * CUBE_SIDE * self.radius
        if self.shape == "pill":
            return 2 * PILL_THICKNESS * self.radius
        return 2 * self.radius


@dataclass(frozen=True, slots=True)
class Camera:
    """Camera above and before the ground, looking at its middle.

    Attributes:
        distance: from the middle of the ground.
        pitch: how far it looks down.
        turn: how far it has gone around the ground; positive is to the right.
        view: vertical field of view.
    """

    distance: float = 8.5
    pitch: float = 0.46
    turn: float = 0.0
    view: float = 0.62


@dataclass(frozen=True, slots=True)
class Light:
    """One distant lamp, and ambient light.

    Attributes:
        azimuth: 0 shines from behind the camera, positive from the right.
        elevation: above the horizon.
        strength: of the lamp.
        ambient: from everywhere.
    """

    azimuth: float = 0.6
    elevation: float = 0.95
    strength: float = 0.75
    ambient: float = 0.40


@dataclass(frozen=True, slots=True)
class Ground:
    """The ground plane and the sky behind it.

    Attributes:
        color: of the plane.
        tiles: how strongly every other tile is darkened; 0 is plain.
        sky: what is seen above the horizon.
    """

    color: RGB = (0.72, 0.70, 0.66)
    tiles: float = 0.0
    sky: RGB = (0.80, 0.86, 0.92)


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene: things, camera, light and ground, as an immutable value.

    Attributes:
        things: one to five things.
        camera: the camera.
        light: the lamp and the ambient light.
        ground: the ground plane and the sky.
    """

    things: tuple[Thing, ...]
    camera: Camera = Camera()
    light: Light = Light()
    ground: Ground = Ground()

    def foot(self, index: int) -> float:
        """Height of a thing's foot above the ground."""
        below = self.things[index].on
        return 0.0 if below is None else self.foot(below) + self.things[below].height

    def edit_thing(self, index: int, **slots: Any) -> Scene:
        """Copy of the scene with some slots of one thing changed, and nothing else.

        Things on top of it stay there: their height is derived, their x and y do not change.
        """
        things = list(self.things)
        things[index] = replace(things[index], **slots)
        return replace(self, things=tuple(things))

    def without(self, index: int) -> Scene:
        """Copy of the scene with one thing removed; what stands on it must be removed first."""
        if any(thing.on == index for thing in self.things):
            raise InputError("something stands on this thing; take that away first.")
        kept = [thing for i, thing in enumerate(self.things) if i != index]
        lowered = [
            replace(thing, on=thing.on - 1) if thing.on is not None and thing.on > index else thing
            for thing in kept
        ]
        return replace(self, things=tuple(lowered))

    def to_json(self) -> str:
        """The scene as one line of JSON; equal scenes give equal text."""
        return json.dumps(_canonical(asdict(self)), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Scene:
        """Read a scene that `to_json` wrote.

        Raises:
            InputError: the text is not a scene.
        """
        try:
            value = json.loads(text)
            ground = value["ground"]
            scene = Scene(
                tuple(Thing(**thing) for thing in value["things"]),
                Camera(**value["camera"]),
                Light(**value["light"]),
                Ground(tuple(ground["color"]), ground["tiles"], tuple(ground["sky"])),
            )
            scene.check()
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"this is not a scene ({error}).") from None
        return scene

    def check(self) -> None:
        """Validate the scene.

        Raises:
            InputError: too many things, an unknown word, a number that is not finite, or a thing
                that stands on nothing.
        """
        if not 1 <= len(self.things) <= MOST_THINGS:
            raise InputError(f"a scene has 1 to {MOST_THINGS} things, not {len(self.things)}.")
        for index, thing in enumerate(self.things):
            known = (
                (thing.shape, SHAPES), (thing.color, COLORS), (thing.material, MATERIALS),
                (thing.size, SIZES), (thing.pattern, PATTERNS),
            )  # fmt: skip
            for word, words in known:
                if word not in words:
                    raise InputError(f"{word!r} is not one of {', '.join(words)}.")
            if thing.on is not None and not (
                0 <= thing.on < index and self.things[thing.on].shape in FLAT_TOPS
            ):
                raise InputError(f"thing {index} cannot stand on thing {thing.on}.")
        if not len(self.ground.color) == len(self.ground.sky) == 3:
            raise InputError("a colour has three numbers.")
        try:
            finite = all(map(math.isfinite, self._numbers()))
        except (TypeError, OverflowError):
            finite = False
        if not finite:
            raise InputError("every number of a scene must be finite.")

    def _numbers(self) -> tuple[float, ...]:
        camera, light, ground = self.camera, self.light, self.ground
        return (
            camera.distance, camera.pitch, camera.turn, camera.view,
            light.azimuth, light.elevation, light.strength, light.ambient,
            *ground.color, ground.tiles, *ground.sky,
            *(number for thing in self.things for number in (thing.x, thing.y, thing.turn)),
        )  # fmt: skip


def _canonical(value: Any) -> Any:
    """Canonical JSON value: every number but `on` a float, and no negative zero."""
    if isinstance(value, dict):
        return {key: item if key == "on" else _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value if isinstance(value, str) else float(value) + 0.0


Relation = Literal["left of", "right of", "in front of", "behind", "on top of", "under"]

RELATIONS: tuple[Relation, ...] = (
    "left of", "right of", "in front of", "behind", "on top of", "under",
)  # fmt: skip
OPPOSITE: Mapping[Relation, Relation] = {
    "left of": "right of",
    "right of": "left of",
    "in front of": "behind",
    "behind": "in front of",
    "on top of": "under",
    "under": "on top of",
}
"""The relation that holds the other way round, and that is false where this one holds."""

SIDE_MARGIN = 0.75
"""Least sideways distance of two things' middles for one to be left of the other."""
DEPTH_MARGIN = 0.9
"""Least distance in depth for one to be in front of the other."""


def camera_position(scene: Scene, index: int) -> tuple[float, float]:
    """Position of a thing in camera axes: (right, away) from the middle of the ground."""
    thing, turn = scene.things[index], scene.camera.turn
    right = thing.x * math.cos(turn) + thing.y * math.sin(turn)
    away = -thing.x * math.sin(turn) + thing.y * math.cos(turn)
    return right, away


def holds(scene: Scene, first: int, relation: Relation, second: int) -> bool:
    """Whether the relation holds beyond doubt; `holds(…, OPPOSITE[relation], …)` is then false.

    Things of one pile are only on top of or under each other.
    """
    if relation == "on top of":
        return scene.things[first].on == second
    if relation == "under":
        return scene.things[second].on == first
    if ground_thing(scene, first) == ground_thing(scene, second):
        return False
    (right, away), (other_right, other_away) = (
        camera_position(scene, first),
        camera_position(scene, second),
    )
    return {
        "left of": other_right - right >= SIDE_MARGIN,
        "right of": right - other_right >= SIDE_MARGIN,
        "in front of": other_away - away >= DEPTH_MARGIN,
        "behind": away - other_away >= DEPTH_MARGIN,
    }[relation]


def relations_between(scene: Scene, first: int, second: int) -> tuple[Relation, ...]:
    """All relations that hold beyond doubt between two things."""
    return tuple(relation for relation in RELATIONS if holds(scene, first, relation, second))


def ground_thing(scene: Scene, index: int) -> int:
    """Index of the ground thing at the bottom of this thing's pile; its own if on the ground."""
    below = scene.things[index].on
    return index if below is None else ground_thing(scene, below)
