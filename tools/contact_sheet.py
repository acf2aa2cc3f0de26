"""Contact sheet of scenes: every shape, color, material, pattern and relation in one image.

    python -m tools.contact_sheet --out docs/contact-sheet.png

Row one shows the shapes, in rubber and metal; row two the colors and the patterns; row three the
relations; row four scenes drawn at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from contrapose.world.render import are_visible, pack, render
from contrapose.world.sample import sample_scenes
from contrapose.world.scene import (
    COLORS,
    MATERIALS,
    PATTERNS,
    SHAPES,
    SIZES,
    Camera,
    Color,
    Ground,
    Scene,
    Shape,
    Thing,
)

ROWS, COLUMNS, SIZE = 4, 8, 128
NEAR = Camera(distance=6.2)
TILED = Ground(tiles=0.12)


def sheet_scenes() -> list[Scene]:
    """The scenes of the sheet, row by row."""
    return [*_shape_scenes(), *_color_scenes(), *_relation_scenes(), *_random_scenes()]


def _shape_scenes() -> list[Scene]:
    scenes = []
    for place, shape in enumerate(SHAPES):
        color = list(COLORS)[place]
        dull = Thing(shape, color, "rubber", "large", "plain", -0.85, 0.0, 0.5)
        shiny = Thing(shape, color, "metal", "large", "plain", 0.85, 0.0, 0.5)
        scenes.append(Scene((dull, shiny), NEAR))
    sizes = [
        Thing("ball", "pink", "metal", size, "plain", x, 0.0)
        for size, x in zip(SIZES, (-1.25, -0.3, 1.05), strict=True)
    ]
    return [*scenes, Scene(tuple(sizes), NEAR)]


def _color_scenes() -> list[Scene]:
    names = list(COLORS)
    scenes = []
    for start in range(0, len(names), 2):
        balls = [
            Thing("ball", color, material, "medium", "plain", x, y)
            for color, x in zip(names[start : start + 2], (-0.7, 0.7), strict=True)
            for material, y in zip(MATERIALS, (-0.8, 0.8), strict=True)
        ]
        scenes.append(Scene(tuple(balls), NEAR))
    trios: dict[Color, tuple[Shape, Shape, Shape]] = {
        "blue": ("ball", "cube", "cone"),
        "red": ("cylinder", "pyramid", "dome"),
        "green": ("pill", "cube", "ball"),
    }
    for color, trio in trios.items():
        things = [
            Thing(shape, color, "rubber", "medium", pattern, x, 0.0, 0.4)
            for shape, pattern, x in zip(trio, PATTERNS, (-1.35, 0.0, 1.35), strict=True)
        ]
        scenes.append(Scene(tuple(things), NEAR))
    return scenes


def _relation_scenes() -> list[Scene]:
    red = Thing("cube", "red", "rubber", "medium", "plain", 0.0, 0.0, 0.4)
    blue = Thing("ball", "blue", "metal", "medium", "plain", 0.0, 0.0)
    places = (  # of the cube, of the ball
        ((-1.0, 0.0), (1.0, 0.0)), ((1.0, 0.0), (-1.0, 0.0)),
        ((0.2, -1.3), (-0.2, 1.3)), ((-0.2, 1.3), (0.2, -1.3)),
    )  # fmt: skip
    scenes = []
    for (x, y), (other_x, other_y) in places:
        scene = Scene((red, blue), ground=TILED)
        scenes.append(scene.edit_thing(0, x=x, y=y).edit_thing(1, x=other_x, y=other_y))
    base = Thing("cylinder", "yellow", "rubber", "large", "striped", 0.0, 0.0)
    on_top = Scene((red, Thing("ball", "blue", "metal", "medium", "plain", 0.0, 0.0, on=0)))
    tower = Scene((base, Thing("cube", "red", "metal", "medium", "plain", 0.0, 0.0, 0.4, on=0)))
    cone = Thing("cone", "green", "rubber", "medium", "plain", 0.0, 0.0, on=1)
    high = Scene((*tower.things, cone), Camera(distance=9.5), ground=TILED)
    five = tuple(
        Thing("dome", "purple", "metal", "small", "plain", x, y)
        for x, y in ((-1.3, -0.6), (-0.5, 0.8), (0.1, -0.8), (0.9, 0.5), (1.5, -0.5))
    )
    return [*scenes, on_top, tower, high, Scene(five, ground=TILED)]


def _random_scenes() -> list[Scene]:
    return sample_scenes(COLUMNS, 0, "balanced", keep=_all_visible)


def _all_visible(scenes: Sequence[Scene]) -> list[bool]:
    visible: list[bool] = are_visible(pack(scenes), fraction=0.7, pixels=16).tolist()
    return visible


def contact_sheet() -> Image.Image:
    """Render the contact sheet."""
    images = render(sheet_scenes(), SIZE).images
    grid = images.reshape(ROWS, COLUMNS, SIZE, SIZE, 3).transpose(1, 2)
    return Image.fromarray(grid.reshape(ROWS * SIZE, COLUMNS * SIZE, 3).numpy())


def main() -> None:
    """Write the sheet to a file."""
    parser = argparse.ArgumentParser(description="Draw a sheet of scenes.")
    parser.add_argument("--out", type=Path, required=True, help="the picture to write")
    out: Path = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    contact_sheet().save(out)
    print(out)


if __name__ == "__main__":
    main()
