"""Contact sheet of minimal pairs by both rendering engines, for the docs.

    python -m tools.engine_sheet --out docs/engines.png

Each pair of columns is one example of `location`, `counting` or `attribute`. The upper row is the
built-in ray tracer's, the lower one Blender's. Prints the captions, and the seconds per image.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from PIL import Image

from contrapose.data import ComposedSet, EditSet, Example, Gallery
from contrapose.world.benchmark import scene_of
from contrapose.world.benchmark.suite import part_data
from contrapose.world.engines import ENGINES, open_engine

PARTS = {"location": 4, "counting": 3, "attribute": 6}
"""The parts, and which example of each is shown."""
SIZE, SHOWN = 224, 144
"""Pixels that are rendered, and pixels on the sheet."""


def choose_example(part: str, index: int) -> Example:
    """An example of a part of the balanced form, seed 0."""
    data = part_data(part, "balanced", index + 1, 0, SIZE)
    if isinstance(data, Gallery | EditSet | ComposedSet):
        raise TypeError(f"{part} has no examples of images and captions")
    return list(data)[index]


def main() -> None:
    """Write the sheet to a file."""
    parser = argparse.ArgumentParser(description="Draw minimal pairs by both engines.")
    parser.add_argument("--out", type=Path, required=True, help="the picture to write")
    out: Path = parser.parse_args().out
    examples = {part: choose_example(part, index) for part, index in PARTS.items()}
    for part, example in examples.items():
        print(f"{part}: {' | '.join(example.texts)}")
    scenes = [scene_of(ref) for example in examples.values() for ref in example.images]
    sheet = Image.new("RGB", (SHOWN * len(scenes), SHOWN * len(ENGINES)))
    for row, name in enumerate(ENGINES):
        before = os.times()
        with open_engine(name) as engine:
            start = time.perf_counter()
            drawn = engine.draw_scenes(scenes, SIZE, masks=False)
            wall = time.perf_counter() - start
        after = os.times()
        busy = sum(after[:4]) - sum(before[:4])
        print(
            f"{name} {engine.version}: {wall / len(scenes):.2f} s an image, "
            f"{busy / len(scenes):.2f} s of processor time with its start"
        )
        for column, (image, _) in enumerate(drawn):
            small = image.resize((SHOWN, SHOWN), Image.Resampling.LANCZOS)
            sheet.paste(small, (SHOWN * column, SHOWN * row))
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out, optimize=True)
    print(f"{out}: {out.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
