"""Small students and small sets to learn from, which take a moment and no files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from contrapose.models.options import LoadOptions
from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.models.tiny.network import Config, Network
from contrapose.models.tiny.tokeniser import Tokeniser
from contrapose.tune.data.rows import Rows, Saying
from contrapose.tune.students.tiny import TinyStudent

COLOURS = ("red", "green", "blue", "white")
SHAPES = ("ball", "cube", "cone", "tube")
WORDS = ("a", "the", "left", "of", *COLOURS, *SHAPES)
SIDE = 24


def small_student(*, fusion: bool = False, seed: int = 0, width: int = 16) -> TinyStudent:
    torch.manual_seed(seed)
    config = Config(
        len(Tokeniser(WORDS)), width=width, heads=2, image_layers=1, text_layers=1,
        fusion_layers=int(fusion), embedding=8, image_size=SIDE, patch=12, context=24,
    )  # fmt: skip
    network = Network(config)
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


def small_rows(count: int = 12, *, kept: bool = True, **lacking: bool) -> Rows:
    """Images of one colour each, whose captions name it."""
    make = torch.Generator().manual_seed(3)
    pixels = torch.randint(0, 256, (count, SIDE, SIDE, 3), generator=make, dtype=torch.uint8)
    return Rows(Painted(pixels, kept=kept), [sayings(i, **lacking) for i in range(count)])


def sayings(i: int, *, negatives: bool = True, positives: bool = True) -> list[Saying]:
    colour, shape = COLOURS[i % 4], SHAPES[i // 4 % 4]
    other = COLOURS[(i + 1) % 4]
    caption = f"a {colour} {shape}"
    wrong = ((f"a {other} {shape}", "replace-color"), (f"a {colour} tube tube", "object"))
    right = ((f"the {colour} {shape}", "synonym"),)
    # Every third caption has no changes at all.
    some = i % 3 != 2
    first = Saying(
        caption, wrong if negatives and some else (), right if positives and some else ()
    )
    return [first, Saying(f"{caption} of a {shape}")]


def weights(student: Any) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in student.network.state_dict().items()}
