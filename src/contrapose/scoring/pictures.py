"""Decoded images, kept while there is room: the next score or model often asks for the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contrapose.data import ImageRef, open_images

if TYPE_CHECKING:
    from PIL.Image import Image

BUDGET = 1 << 28
"""Bytes of pixels kept, 256 MiB: nearly ten thousand rendered scenes of 96 × 96."""


class Pictures:
    """Opens images by their content ids; those opened first are let go first."""

    def __init__(self, budget: int = BUDGET):
        """Keep at most so many bytes."""
        self.budget, self.held = budget, 0
        self._kept: dict[str, Image] = {}

    def open(self, ids: Sequence[str], refs: Sequence[ImageRef]) -> list[Image]:
        """The images, in order; one thread at a time.

        Raises:
            InputError: one of them is missing or cannot be decoded.
        """
        here = {name: self._kept[name] for name in ids if name in self._kept}
        missing = {name: ref for name, ref in zip(ids, refs, strict=True) if name not in here}
        for name, image in zip(missing, open_images(list(missing.values())), strict=True):
            here[name] = image
            self._keep(name, image)
        return [here[name] for name in ids]

    def _keep(self, name: str, image: Image) -> None:
        size = 3 * image.width * image.height
        if size > self.budget:
            return
        self._kept[name] = image
        self.held += size
        while self.held > self.budget:
            old = self._kept.pop(next(iter(self._kept)))
            self.held -= 3 * old.width * old.height
