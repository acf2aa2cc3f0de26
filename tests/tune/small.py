"""Small students and small sets to learn from, which take a moment and no files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from contrapose.models.options import LoadOptions
from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.models.tiny.network import TinyConfig, TinyNetwork, Tokenizer
from contrapose.tune.data.rows import TrainingCaption, TrainingSet, pixel_fingerprint
from contrapose.tune.students import TinyStudent

COLOURS = ("red", "green", "blue", "white")
SHAPES = ("ball", "cube", "cone", "tube")
WORDS = ("a", "the", "left", "of", *COLOURS, *SHAPES)
SIDE = 24


def small_student(*, fusion: bool = False, seed: int = 0, width: int = 16) -> TinyStudent:
    torch.manual_seed(seed)
    config = TinyConfig(
        len(Tokenizer(WORDS)), width=width, heads=2, image_layers=1, text_layers=1,
        fusion_layers=int(fusion), embedding=8, image_size=SIDE, patch=12, context=24,
    )  # fmt: skip
    network = TinyNetwork(config)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.mul_(6)  # far enough apart that inputs give clearly different vectors
    kind = Tiny if fusion else TinyClip
    options = LoadOptions(cut=True)
    return TinyStudent(kind("small", network.eval(), WORDS, "small", options))


class Painted:
    """Images in memory; `kept` says whether their bytes may be taken as they are."""

    def __init__(self, pixels: Tensor, *, kept: bool = True):
        self.all = pixels
        self.pixels: Tensor | None = pixels if kept else None

    def open(self, rows: Sequence[int]) -> list[Image.Image]:
        return [Image.fromarray(self.all[row].numpy()) for row in rows]

    def mark(self, row: int) -> str:
        return pixel_fingerprint(self.all[row])


def small_rows(count: int = 12, *, kept: bool = True, **lacking: bool) -> TrainingSet:
    """Images of one colour each, whose captions name it."""
    make = torch.Generator().manual_seed(3)
    pixels = torch.randint(0, 256, (count, SIDE, SIDE, 3), generator=make, dtype=torch.uint8)
    return TrainingSet(Painted(pixels, kept=kept), [sayings(i, **lacking) for i in range(count)])


def sayings(i: int, *, negatives: bool = True, positives: bool = True) -> list[TrainingCaption]:
    colour, shape = COLOURS[i % 4], SHAPES[i // 4 % 4]
    other = COLOURS[(i + 1) % 4]
    caption = f"a {colour} {shape}"
    wrong = ((f"a {other} {shape}", "replace-color"), (f"a {colour} tube tube", "object"))
    right = ((f"the {colour} {shape}", "synonym"),)
    # Every third caption has no changes at all.
    some = i % 3 != 2
    first = TrainingCaption(
        caption, wrong if negatives and some else (), right if positives and some else ()
    )
    return [first, TrainingCaption(f"{caption} of a {shape}")]


def write_pairs(root: Path, count: int) -> Path:
    """Pictures, and a file of pairs beside them."""
    rows = small_rows(count)
    for i, image in enumerate(rows.images.open(range(count))):
        image.save(root / f"{i}.png")
    lines = [
        {
            "image": f"{i}.png",
            "caption": saying.caption,
            "negatives": [text for text, _ in saying.negatives],
            "positives": [text for text, _ in saying.positives],
            "kinds": {
                "negatives": [kind for _, kind in saying.negatives],
                "positives": [kind for _, kind in saying.positives],
            },
        }
        for i, row in enumerate(rows.image_captions)
        for saying in row
    ]
    file = root / "pairs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def class_folders(root: Path, *, classes: int, each: int) -> Path:
    """Pictures in a folder a class, named by colour and shape."""
    names = [f"{colour} {shape}" for shape in SHAPES for colour in COLOURS][:classes]
    pictures = small_rows(classes * each).images.open(range(classes * each))
    for i, picture in enumerate(pictures):
        folder = root / names[i % classes]
        folder.mkdir(parents=True, exist_ok=True)
        picture.save(folder / f"{i}.png")
    return root


def weights(student: Any) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in student.network.state_dict().items()}
