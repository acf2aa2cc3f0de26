"""A small benchmark of one's own whose captions are swaps, with images and regions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE = 48
CAPTIONS = (
    ("a red cube left of a blue ball", "a blue ball left of a red cube"),
    ("a green cone behind a pink dome", "a pink dome behind a green cone"),
    ("a gray cylinder right of a cyan cone", "a cyan cone right of a gray cylinder"),
    ("a brown dome in front of a purple cube", "a purple cube in front of a brown dome"),
)


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def benchmark(folder: Path, count: int = len(CAPTIONS)) -> Path:
    """Two images and two captions an example: a light patch at the left, or at the right."""
    rows = []
    for i, (one, other) in enumerate(CAPTIONS[:count]):
        for j in range(2):
            pixels = np.random.default_rng([i, j]).integers(0, 90, (SIDE, SIDE, 3), np.uint8)
            pixels[10:30, 4 + 22 * j : 20 + 22 * j] += 120
            Image.fromarray(pixels).save(folder / f"{i}{j}.png")
        rows.append(
            {
                "id": str(i),
                "images": [f"{i}0.png", f"{i}1.png"],
                "texts": [one, other],
                "match": [[True, False], [False, True]],
            }
        )
    return write(folder / "swaps.jsonl", rows)


def region_rows(count: int = len(CAPTIONS)) -> list[dict[str, Any]]:
    """Two boxes for every image."""
    left, right = [4, 10, 16, 20], [26, 10, 16, 20]
    return [
        {"id": str(i), "image": j, "regions": {"O1": (left, right)[j], "O2": (right, left)[j]}}
        for i in range(count)
        for j in range(2)
    ]
