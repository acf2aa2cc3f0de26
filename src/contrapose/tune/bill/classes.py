"""Zero-shot classification of one's own images, as a test of any panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import open_images
from contrapose.data.benchmarks.classes import read
from contrapose.errors import InputError
from contrapose.files import Strict
from contrapose.tune.bill.panel import Collector, Opened, Panel, Shown, Trial

if TYPE_CHECKING:
    from PIL.Image import Image

NAME = "zero_shot"
MOST = 5000
"""Images at most, drawn from all; more would not change a verdict."""
UNMEASURED = (
    "zero-shot classification was not measured: --zero-shot DIR does it, a folder with a folder of "
    "images a class"
)


def zero_shot_panel(root: Path, seed: int = 0) -> Panel:
    """Images in a folder a class, to be named by the class's prompts.

    The folder is what the benchmark `class-folders` reads: names may stand in `classnames.txt` and
    prompts in `templates.txt`. A class's vector is the mean of its prompts' (Radford et al. 2021).

    Args:
        root: the folder.
        seed: of the draw, where there are more than `MOST` images.

    Raises:
        InputError: the folder cannot be read, or has one class alone.
    """
    gallery = read(root, Strict())
    if len(gallery.texts) < 2:
        raise InputError("has one class: zero-shot classification needs two or more.", file=root)
    pairs = gallery.pairs
    if len(pairs) > MOST:
        drawn = np.random.default_rng((seed, 7)).choice(len(pairs), MOST, replace=False)
        pairs = tuple(pairs[i] for i in sorted(drawn.tolist()))
    found = Collector()
    prompts = [
        [found.text(template.replace("{}", name)) for template in gallery.templates]
        for name in gallery.texts
    ]
    test = Trial(
        NAME,
        "classes",
        np.arange(len(pairs))[:, None],
        np.array(prompts, dtype=np.int64),
        np.array([right for _, right in pairs], dtype=np.int64),
        ks=(1, 5) if len(gallery.texts) > 5 else (1,),
    )
    refs = [gallery.images[image] for image, _ in pairs]

    def opened(some: Sequence[object]) -> list[Image]:
        return list(open_images([refs[int(str(key))] for key in some]))

    source = f"{len(pairs):,} images of {len(gallery.texts):,} classes in {root}"
    shown = Opened(range(len(refs)), opened)
    return Panel(source, shown, list(found.captions), [test])


@dataclass(frozen=True, slots=True)
class Both:
    """Pictures of two panels, one after the other."""

    first: Shown
    second: Shown

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def open(self, places: Sequence[int]) -> list[Image]:
        """Some of them."""
        start = len(self.first)
        sides = (
            (self.first, [place for place in places if place < start]),
            (self.second, [place - start for place in places if place >= start]),
        )
        left, right = (iter(shown.open(some) if some else []) for shown, some in sides)
        return [next(left) if place < start else next(right) for place in places]


def joined_panels(first: Panel, second: Panel) -> Panel:
    """Both panels as one; the places of the second move behind those of the first."""
    later = [
        Trial(
            test.name,
            test.kind,
            test.images + len(first.images),
            test.texts + len(first.texts),
            test.right,
            test.ks,
        )
        for test in second.tests
    ]
    return Panel(
        f"{first.source}; {second.source}",
        Both(first.images, second.images),
        [*first.texts, *second.texts],
        [*first.tests, *later],
    )
