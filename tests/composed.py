"""A small composed-retrieval benchmark in CIRR's format, rendered from the built-in world."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from PIL.Image import Image

from contrapose.data import EditSet, open_images
from contrapose.files import StrictProblems
from contrapose.world.benchmark import scenes

LARGEST = 12
"""Queries that can be written."""


@cache
def _scene_edits() -> EditSet:
    edits = scenes(examples=LARGEST, seed=1).parts["edits"].read(Path(), StrictProblems())
    assert isinstance(edits, EditSet)
    return edits


@cache
def _rendered() -> list[Image]:
    return list(open_images(_scene_edits().images))


def write_cirr(root: Path, queries: int = 12, *, split: str = "val", images: bool = True) -> None:
    """Write annotations of edit queries of the world, and their images."""
    edits = _scene_edits()
    assert queries <= LARGEST
    chosen = edits.queries[:queries]
    names = [f"dev-{i}" for i in range(2 * queries)]
    folder = "dev" if split == "val" else split
    records = []
    for q, query in enumerate(chosen):
        others = [names[(2 * q + step) % len(names)] for step in (2, 3, 4, 5)]
        record: dict[str, object] = {
            "pairid": 100 + q,
            "reference": names[2 * q],
            "caption": edits.captions[query.target_caption],
            "img_set": {"id": q, "members": [names[2 * q + 1], *others, names[2 * q]]},
        }
        if split == "val":
            record["target_hard"] = names[2 * q + 1]
        records.append(record)
    for name in ("captions", "image_splits"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "captions" / f"cap.rc2.{split}.json").write_text(json.dumps(records))
    paths = {name: f"./{folder}/{name}.png" for name in names}
    (root / "image_splits" / f"split.rc2.{split}.json").write_text(json.dumps(paths))
    if not images:
        return
    (root / folder).mkdir()
    for name, image in zip(names, _rendered(), strict=False):
        image.save(root / folder / f"{name}.png")
