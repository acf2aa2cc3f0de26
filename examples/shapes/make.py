"""Makes the demonstration: 120 pairs of pictures of flat shapes, their captions, and two scorers.

The first scorer knows which words fit the picture and nothing of their order: a bag of words.
The second looks at the left and the right half on their own. Both look at the pixels only; the
scores in this folder are what they gave. Run `python examples/shapes/make.py` to make all again.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

HERE = Path(__file__).parent
SIZE = 64
COLOURS = {
    "red": (205, 45, 45),
    "orange": (235, 140, 40),
    "green": (50, 150, 65),
    "blue": (45, 85, 200),
    "purple": (140, 60, 170),
}
FILL = {"square": 1.0, "circle": math.pi / 4, "triangle": 0.5}
"""Share of its upright bounding box that a shape fills."""
EACH = 40

Thing = tuple[str, str]
Pixels = NDArray[np.uint8]


def draw(left: Thing, right: Thing, rng: np.random.Generator) -> Image.Image:
    """Two shapes side by side, each somewhat turned, shaded and out of place."""
    image = Image.new("RGB", (SIZE, SIZE), (236, 232, 225))
    pen = ImageDraw.Draw(image)
    for (colour, shape), middle in ((left, SIZE * 0.27), (right, SIZE * 0.73)):
        x, y = middle + rng.uniform(-2, 2), SIZE / 2 + rng.uniform(-12, 12)
        radius, shade = rng.uniform(8, 11), rng.uniform(0.8, 1.1)
        fill = tuple(min(255, round(value * shade)) for value in COLOURS[colour])
        if shape == "circle":
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
        else:
            sides = 4 if shape == "square" else 3
            first = (45 if shape == "square" else -90) + rng.uniform(-14, 14)
            pen.regular_polygon((x, y, radius * 1.25), sides, rotation=first, fill=fill)
    return image.quantize(16).convert("RGB")


def evidence(pixels: Pixels, word: str) -> float:
    """How well a word fits some pixels: the share of its colour, or how full the blobs are."""
    ink = np.abs(pixels.astype(int) - (236, 232, 225)).sum(axis=2) > 60
    if word in COLOURS:
        distance = np.abs(pixels.astype(float) - COLOURS[word]).sum(axis=2)
        return float((ink & (distance < 90)).sum() / max(ink.sum(), 1))
    fits = []
    for half in (slice(0, SIZE // 2), slice(SIZE // 2, SIZE)):
        rows, columns = np.nonzero(ink[:, half])
        if rows.size:
            box = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
            fits.append(1 - abs(rows.size / box - FILL[word]))
    return max(fits, default=0.0)


def words(caption: str) -> list[str]:
    return sorted(word for word in caption.split() if word in COLOURS or word in FILL)


def bag_of_words(pixels: Pixels, caption: str) -> float:
    """The mean evidence of the caption's words, whatever their order."""
    return float(np.mean([evidence(pixels, word) for word in words(caption)]))


def looks_left_and_right(pixels: Pixels, caption: str) -> float:
    """Each noun phrase against one half; "left of" fixes which, "and" leaves it open."""
    blank = np.full_like(pixels, (236, 232, 225))
    left, right = pixels.copy(), pixels.copy()
    left[:, SIZE // 2 :], right[:, : SIZE // 2] = blank[:, SIZE // 2 :], blank[:, : SIZE // 2]
    one, other = caption.split(" left of " if " left of " in caption else " and ")
    straight = bag_of_words(left, one) + bag_of_words(right, other)
    crossed = bag_of_words(right, one) + bag_of_words(left, other)
    return straight / 2 if " left of " in caption else max(straight, crossed) / 2


def phrase(thing: Thing) -> str:
    colour, shape = thing
    return f"{'an' if colour == 'orange' else 'a'} {colour} {shape}"


def pair(subset: str, rng: np.random.Generator) -> list[tuple[Thing, Thing]]:
    """Two scenes that differ in one thing: a colour, who has which colour, or the sides."""
    one, two, three = (str(colour) for colour in rng.choice(list(COLOURS), 3, replace=False))
    shape, other = (str(shape) for shape in rng.choice(list(FILL), 2, replace=False))
    scene = ((one, shape), (two, other))
    changed = {
        "replace-colour": ((three, shape), (two, other)),
        "swap-attribute": ((two, shape), (one, other)),
        "swap-sides": ((two, other), (one, shape)),
    }
    return [scene, changed[subset]]


def main() -> None:
    rng = np.random.default_rng(7)
    (HERE / "images").mkdir(exist_ok=True)
    scorers = {"bag-of-words": bag_of_words, "looks-left-and-right": looks_left_and_right}
    tables: dict[str, list[tuple[str, int, int, float]]] = {name: [] for name in scorers}
    lines = []
    for subset in ("replace-colour", "swap-attribute", "swap-sides"):
        link = "left of" if subset == "swap-sides" else "and"
        for number in range(EACH):
            name = f"{subset}-{number:02d}"
            scenes = pair(subset, rng)
            files = [f"images/{name}-{i}.png" for i in range(2)]
            texts = [f"{phrase(left)} {link} {phrase(right)}" for left, right in scenes]
            for i, (scene, file) in enumerate(zip(scenes, files, strict=True)):
                draw(*scene, rng).save(HERE / file, optimize=True)
                pixels = np.asarray(Image.open(HERE / file).convert("RGB"))
                for scorer, score in scorers.items():
                    for j, text in enumerate(texts):
                        tables[scorer].append((name, i, j, score(pixels, text)))
            match = [[True, False], [False, True]]
            lines.append({"id": name, "images": files, "texts": texts, "match": match,
                          "tags": {"subset": subset}})  # fmt: skip
    examples = "".join(json.dumps(line) + "\n" for line in lines)
    (HERE / "examples.jsonl").write_text(examples)
    for scorer, rows in tables.items():
        with (HERE / f"{scorer}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("example", "image", "text", "score"))
            writer.writerows(rows)


if __name__ == "__main__":
    main()
