"""How fast scenes are drawn, beside flat drawings of the same things made with Pillow.

    python benchmarks/render.py [--scenes 512] [--rounds 5]

Prints scenes a second at 96 pixels with three things each, and the ratio to the flat drawings,
which have neither light, shadow, depth nor masks. Every way runs once in each round; the best
round counts, so that other work on the machine disturbs little. Needs torch, numpy and Pillow.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.world.render import pack, render, render_packed, visibility
from contrapose.world.sample import sample_scenes
from contrapose.world.scene import COLORS, Scene, Thing

SIZE, THINGS = 96, 3


def flat_drawings(scenes: Sequence[Scene]) -> np.ndarray:
    """The fastest plain alternative: things as filled outlines, the farthest first."""
    return np.stack([np.asarray(_flat(scene)) for scene in scenes])


def _flat(scene: Scene) -> Image.Image:
    picture = Image.new("RGB", (SIZE, SIZE), _ink(scene.ground.color))
    pen = ImageDraw.Draw(picture)
    camera = scene.camera
    cos, sin = math.cos(camera.turn), math.sin(camera.turn)
    level, down = math.cos(camera.pitch), math.sin(camera.pitch)
    zoom = SIZE / 2 / math.tan(camera.view / 2)
    placed = []
    for index, thing in enumerate(scene.things):
        right, away = thing.x * cos + thing.y * sin, thing.y * cos - thing.x * sin
        high = scene.foot(index) + thing.height / 2 - 0.4
        far = camera.distance + away * level - high * down
        placed.append((far, right, away * down + high * level, thing))
    for far, right, up, thing in sorted(placed, key=lambda each: -each[0]):
        scale = zoom / far
        _outline(pen, thing, SIZE / 2 + right * scale, SIZE / 2 - up * scale, scale)
    return picture


def _outline(pen: ImageDraw.ImageDraw, thing: Thing, x: float, y: float, scale: float) -> None:
    wide, high = thing.radius * scale, thing.height / 2 * scale
    box, ink = (x - wide, y - high, x + wide, y + high), _ink(COLORS[thing.color])
    if thing.shape in ("cube", "cylinder"):
        pen.rectangle(box, fill=ink)
    elif thing.shape in ("cone", "pyramid"):
        pen.polygon([(x, y - high), (x - wide, y + high), (x + wide, y + high)], fill=ink)
    elif thing.shape == "dome":
        pen.pieslice((x - wide, y - high, x + wide, y + 3 * high), 180, 360, fill=ink)
    else:
        pen.ellipse(box, fill=ink)


def _ink(color: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (int(value * 255) for value in color)
    return red, green, blue


def ways(scenes: list[Scene]) -> dict[str, tuple[Callable[[], object], int]]:
    """What is compared: a name, what to run, and how many scenes it draws."""
    packed, count = pack(scenes), len(scenes)
    found: dict[str, tuple[Callable[[], object], int]] = {
        "Pillow, flat": (lambda: flat_drawings(scenes), count),
        "CPU, from scenes, smooth edges": (lambda: render(scenes, SIZE), count),
        "CPU, packed, smooth edges": (lambda: render_packed(packed, SIZE), count),
        "CPU, packed, one ray a pixel": (lambda: render_packed(packed, SIZE, samples=1), count),
        "CPU, visibility at 48 pixels": (lambda: visibility(packed, 48), count),
    }
    if torch.cuda.is_available():
        times = max(1, 8192 // count)
        many = pack(scenes * times).to("cuda")
        total = len(many)

        def on_gpu(samples: int) -> object:
            drawn = render_packed(many, SIZE, samples=samples)
            torch.cuda.synchronize()
            return drawn

        def seen_on_gpu() -> object:
            fraction, _ = visibility(many, 48)
            torch.cuda.synchronize()
            return fraction

        found["GPU, packed, smooth edges"] = (lambda: on_gpu(2), total)
        found["GPU, packed, one ray a pixel"] = (lambda: on_gpu(1), total)
        found["GPU, visibility at 48 pixels"] = (seen_on_gpu, total)
        same = render(scenes, SIZE).images
        off = (render(scenes, SIZE, "cuda").images.cpu().int() - same.int()).abs()
        print(f"largest difference between CPU and GPU: {int(off.max())}/255")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--scenes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    compared = ways(sample_scenes(asked.scenes, seed=0, things=THINGS))
    best = dict.fromkeys(compared, 0.0)
    for _ in range(asked.rounds):
        for name, (way, count) in compared.items():
            start = time.perf_counter()
            way()
            best[name] = max(best[name], count / (time.perf_counter() - start))
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    print(f"{SIZE} pixels, {THINGS} things, {torch.get_num_threads()} CPU threads{gpu}")
    print(f"{'':32}{'scenes/s':>10}{'ratio':>9}")
    for name, rate in best.items():
        print(f"{name:32}{rate:10.0f}{rate / best['Pillow, flat']:9.3f}")


if __name__ == "__main__":
    main()
