"""Regions of images: what the renderer drew, what the user marked, or superpixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrapose.data import Example, ImageRef
from contrapose.diagnose.marked import UserRegions
from contrapose.diagnose.players import Masks, Missing, Regions
from contrapose.diagnose.superpixels import USUAL, Superpixels
from contrapose.diagnose.words import Players
from contrapose.scoring.hidden import Mask
from contrapose.world.benchmark import SceneImage, index_maps, mentioned, read_caption

IndexMap = NDArray[np.int8]
OBJECTS = ("O1", "O2")
"""The two things that a caption speaks of."""
AT_ONCE = 128
"""Scenes whose masks are drawn in one go."""


@dataclass(frozen=True, slots=True)
class SceneRegions:
    """Where the two things are seen that the captions of `scenes` speak of."""

    name: str = "the renderer's masks (scenes)"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[Masks] | Missing]:
        """O1 and O2 of each image."""
        found: list[Sequence[Masks] | Missing] = []
        for start in range(0, len(examples), AT_ONCE):
            some = examples[start : start + AT_ONCE]
            things = [_things(example) for example in some]
            drawn = _drawn(
                [
                    ref
                    for example, each in zip(some, things, strict=True)
                    if not isinstance(each, Missing)
                    for ref in example.images
                ]
            )
            found += [
                each if isinstance(each, Missing) else _seen(example, each, drawn)
                for example, each in zip(some, things, strict=True)
            ]
        return found


def _drawn(refs: Sequence[ImageRef]) -> dict[ImageRef, IndexMap]:
    """For each image of a scene the position of the thing in each pixel."""
    sources = {ref: ref.source for ref in refs if isinstance(ref.source, SceneImage)}
    found: dict[ImageRef, IndexMap] = {}
    for size in dict.fromkeys(source.size for source in sources.values()):
        alike = [ref for ref, source in sources.items() if source.size == size]
        maps = index_maps([sources[ref].scene for ref in alike], size)
        found.update(zip(alike, maps, strict=True))
    return found


Two = tuple[tuple[int, ...], tuple[int, ...]]
"""The things of a scene that the first and the second mention of a caption fit."""


def _things(example: Example) -> list[Two] | Missing:
    """For each image the things that O1 and O2 are.

    The first image's caption says so where it fits, so that O1 is the same thing in all images;
    else the image's own.
    """
    if not all(isinstance(ref.source, SceneImage) for ref in example.images):
        return Missing("its images are not drawn from scenes")
    right = [next((j for j, ok in enumerate(row) if ok), None) for row in example.match]
    found: list[Two] = []
    for image, own in enumerate(right):
        two = _two(example, right[0], image)
        if isinstance(two, Missing):
            two = _two(example, own, image)
        if isinstance(two, Missing):
            return two
        found.append(two)
    return found


def _two(example: Example, text: int | None, image: int) -> Two | Missing:
    """The things of an image that a caption's two phrases mean."""
    caption = None if text is None else read_caption(example.texts[text])
    if caption is None or text is None:
        return Missing("an image has no caption that is a sentence of scenes")
    if len(caption.mentions) != len(OBJECTS):
        return Missing("its caption does not speak of two things")
    first, second = mentioned(example, text, image)
    if not first or not second:
        return Missing("what its caption speaks of is not in the image")
    if set(first) & set(second):
        return Missing("both phrases of its caption can mean one thing")
    return first, second


def _seen(
    example: Example, things: Sequence[Two], drawn: Mapping[ImageRef, IndexMap]
) -> Sequence[Masks] | Missing:
    images: list[Masks] = []
    for ref, two in zip(example.images, things, strict=True):
        masks = [np.isin(drawn[ref], each) for each in two]
        if not all(mask.any() for mask in masks):
            return Missing("nothing is seen of a thing that its caption speaks of")
        images.append(dict(zip(OBJECTS, map(Mask.of, masks), strict=True)))
    return images


def regions_for(
    examples: Sequence[Example],
    players: Players = "groups",
    *,
    file: Path | None = None,
    count: int = USUAL,
) -> Regions | None:
    """Where regions come from, as the user chose; None where there are none to be had.

    Args:
        examples: what is diagnosed.
        players: `superpixels` cuts every image into patches.
        file: the user's own file, or folder of masks.
        count: of superpixels.

    Raises:
        InputError: the file cannot be used, or there are too many superpixels.
    """
    if players == "superpixels":
        return Superpixels(count)
    if file is not None:
        return UserRegions.read(file)
    drawn = any(isinstance(ref.source, SceneImage) for each in examples for ref in each.images)
    return SceneRegions() if drawn else None
