"""Benchmarks of one's own for audits: captions alone, their images are nowhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = ("red", "green", "blue", "white", "black", "brown", "pink")
THINGS = ("dog", "cat", "cup", "car", "tree", "boat", "book", "lamp")


def write(path: Path, examples: Sequence[dict[str, Any]]) -> Path:
    """Examples as a table of one's own."""
    path.write_text("".join(json.dumps(each) + "\n" for each in examples), encoding="utf-8")
    return path


def captions(count: int, seed: int = 0) -> list[str]:
    """Captions of six words, in no pattern."""
    random = np.random.default_rng(seed)
    return [
        f"a {random.choice(COLOURS)} {random.choice(THINGS)} "
        f"and a {random.choice(COLOURS)} {random.choice(THINGS)}"
        for _ in range(count)
    ]


def longer_is_wrong(path: Path, count: int = 60) -> Path:
    """The wrong caption has two words more."""
    rows = [
        {"id": str(i), "images": [f"{i}.png"], "texts": [text, f"{text} over there"], "right": 0}
        for i, text in enumerate(captions(count))
    ]
    return write(path, [{**row, "tags": {"subset": "added"}} for row in rows])


def balanced(path: Path, count: int = 60) -> Path:
    """Two captions of a kind, either as often right."""
    one, other = captions(count, 1), captions(count, 2)
    rows = [
        {"id": str(i), "images": [f"{i}.png"], "texts": [a, b], "right": i % 2}
        for i, (a, b) in enumerate(zip(one, other, strict=True))
        if a != b
    ]
    return write(path, [{**row, "tags": {"subset": "even"}} for row in rows])


def winograd(path: Path, count: int = 4) -> Path:
    """Two images and two captions: each is right once."""
    rows = [
        {
            "id": str(i),
            "images": [f"{i}a.png", f"{i}b.png"],
            "texts": [f"{text} first", f"{text} second"],
            "match": [[True, False], [False, True]],
        }
        for i, text in enumerate(captions(count))
    ]
    return write(path, rows)


def copy_first(source: Path, target: Path, count: int | None = None, step: int = 1) -> None:
    """Write the first records, or every n-th one, of a benchmark's JSON files."""
    for file in source.glob("*.json"):
        records = json.loads(file.read_text(encoding="utf-8"))
        mapping = isinstance(records, dict)
        rows = list(records.items() if mapping else records)[::step][:count]
        first = dict(rows) if mapping else rows
        (target / file.name).write_text(json.dumps(first), encoding="utf-8")
