"""Decoded images, kept while there is room: the next score or model often asks for the same."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from contrapose.data import ImageRef, open_images
from contrapose.data.images import open_image
from contrapose.errors import InputError
from contrapose.scoring.hidden import HiddenRegions, whole

if TYPE_CHECKING:
    from PIL.Image import Image

BUDGET = 1 << 28
"""Bytes of pixels kept, 256 MiB: nearly ten thousand rendered scenes of 96 × 96."""

TOGETHER = 128
"""Images that are made, not read, are made so many at once, which is far cheaper."""


class Pictures:
    """Opens images by their content ids, in any thread; those opened first are let go first."""

    def __init__(self, budget: int = BUDGET):
        """Keep at most so many bytes."""
        self.budget, self.held = budget, 0
        self._kept: dict[str, Image] = {}
        self._windows: dict[str, dict[str, ImageRef]] = {}
        self._lock, self._making = Lock(), Lock()

    def expect(self, ids: Sequence[str], refs: Sequence[ImageRef]) -> None:
        """Say which images will be opened, in this order, so that those to be made can be."""
        kinds: dict[type, dict[str, ImageRef]] = {}
        for name, ref in map(whole, ids, refs):
            if ref.source is not None and name not in self._kept:
                kinds.setdefault(type(ref.source), {})[name] = ref
        self._windows = {}
        for made in (list(each.items()) for each in kinds.values()):
            for start in range(0, len(made), TOGETHER):
                window = dict(made[start : start + TOGETHER])
                self._windows |= dict.fromkeys(window, window)

    def open(self, name: str, ref: ImageRef) -> Image:
        """The image.

        Raises:
            InputError: it is missing or cannot be decoded.
        """
        if isinstance(ref.source, HiddenRegions):
            return ref.source.filled(self.open(*whole(name, ref)))
        found = self._kept.get(name)
        if found is not None:
            return found
        if ref.source is None:
            image = open_image(ref)
            self._keep(name, image)
            return image
        with self._making:  # the others of its window are being made, perhaps this one too
            return self._kept.get(name) or self._make(name, ref)

    def _make(self, name: str, ref: ImageRef) -> Image:
        """Make an image and those of its window; each window is tried once."""
        window = self._windows.get(name, {name: ref})
        for each in window:
            self._windows.pop(each, None)
        try:
            images = open_images(list(window.values()))
        except InputError:  # one of them; perhaps not this one
            window, images = {name: ref}, [open_image(ref)]
        made = dict(zip(window, images, strict=True))
        for each, image in made.items():
            self._keep(each, image)
        return made[name]

    def _keep(self, name: str, image: Image) -> None:
        size = 3 * image.width * image.height
        if size > self.budget:
            return
        with self._lock:
            if name in self._kept:
                return
            self._kept[name] = image
            self.held += size
            while self.held > self.budget:
                old = self._kept.pop(next(iter(self._kept)))
                self.held -= 3 * old.width * old.height
