"""Images with hidden regions, as images of their own: planned, cached and asked like any other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from contrapose.data import ImageRef, open_images
from contrapose.errors import InputError
from contrapose.metrics import BoolArray
from contrapose.models import Model, Prepares
from contrapose.models.blanking import blanked

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import Picture

ZERO, COLOUR, MEAN, BLUR, NOISE = "zero", "colour", "mean", "blur", "noise"
IMAGE_MASKS = {
    ZERO: "pixels of hidden regions are zero in the model's normalised space",
    MEAN: "hidden regions have the image's mean colour",
    BLUR: "hidden regions are blurred",
    NOISE: "hidden regions are noise of the image's mean and spread",
}
"""Ways to hide regions, and what each does."""
SOFTNESS = 16
"""The blur's standard deviation is the longer side divided by this."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Where a region is, eight pixels a byte.

    Attributes:
        bits: rows one after another.
        shape: height and width.
    """

    bits: bytes
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: BoolArray) -> Mask:
        """The mask of an array (height, width)."""
        height, width = mask.shape
        return cls(np.packbits(mask).tobytes(), (height, width))

    def array(self) -> BoolArray:
        """(height, width) true where the region is."""
        count = self.shape[0] * self.shape[1]
        flat = np.unpackbits(np.frombuffer(self.bits, dtype=np.uint8), count=count)
        return flat.reshape(self.shape).astype(np.bool_)


@dataclass(frozen=True, slots=True)
class Filling:
    """What stands in place of hidden regions.

    Attributes:
        kind: `zero`, `mean`, `blur`, `noise`, or `colour` for a colour of one's own.
        colour: that colour, of values from 0 to 1.
        seed: of the noise.
    """

    kind: str = ZERO
    colour: tuple[float, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class HiddenRegions:
    """An image source: another image without some of its regions.

    By `zero` it opens as the whole image, and `prepared` hides the regions for the model.

    Attributes:
        content: a name for what it shows.
        name: content id of the whole image.
        ref: the whole image.
        masks: the hidden regions.
        filling: what stands in their place.
    """

    content: str
    name: str = field(compare=False)
    ref: ImageRef = field(compare=False)
    masks: tuple[Mask, ...] = field(compare=False, repr=False)
    filling: Filling = field(compare=False)

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """The images; one that is seen without several of its regions is opened once."""
        refs = list(dict.fromkeys(source.ref for source in sources))
        opened = dict(zip(refs, open_images(refs), strict=True))
        return [source.filled(opened[source.ref]) for source in sources]

    def hidden(self, image: Image) -> BoolArray:
        """(height, width) true where the image is hidden.

        Raises:
            InputError: a region is of another size than the image.
        """
        shape = (image.height, image.width)
        whole = np.zeros(shape, dtype=np.bool_)
        for mask in self.masks:
            if mask.shape != shape:
                raise InputError(
                    f"a mask of {mask.shape[1]} × {mask.shape[0]} does not fit the image "
                    f"{self.ref.key} of {image.width} × {image.height}."
                )
            whole |= mask.array()
        return whole

    def filled(self, image: Image) -> Image:
        """The image with its hidden regions filled; by `zero` as it is."""
        from PIL import Image, ImageFilter

        kind = self.filling.kind
        if kind == ZERO:
            return image
        hidden = self.hidden(image)
        pixels = np.array(image)
        if kind == BLUR:
            blurred = image.filter(ImageFilter.GaussianBlur(max(image.size) / SOFTNESS))
            pixels[hidden] = np.asarray(blurred)[hidden]
        elif kind == NOISE:
            pixels[hidden] = self._noise(pixels)[hidden]
        else:
            colour = (
                np.asarray(self.filling.colour) * 255
                if kind == COLOUR
                else pixels.mean(axis=(0, 1), dtype=np.float64)
            )
            pixels[hidden] = np.clip(np.rint(colour), 0, 255).astype(np.uint8)
        return Image.fromarray(pixels)

    def _noise(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The same noise whatever is hidden of an image."""
        key = hashlib.blake2b(self.ref.key.encode(), digest_size=8).digest()
        rng = np.random.default_rng([self.filling.seed, int.from_bytes(key, "big")])
        mean, spread = pixels.mean(axis=(0, 1)), pixels.std(axis=(0, 1))
        return np.clip(np.rint(rng.normal(mean, spread, pixels.shape)), 0, 255).astype(np.uint8)


def hidden_ref(ref: ImageRef, name: str, masks: Sequence[Mask], filling: Filling) -> ImageRef:
    """A reference to an image without some of its regions; the image itself where there are none.

    Args:
        ref: the whole image.
        name: its content id.
        masks: the hidden regions.
        filling: what stands in their place.
    """
    if not masks:
        return ref
    digest = hashlib.blake2b(f"{name}|{filling}".encode(), digest_size=16)
    for mask in sorted(masks, key=lambda each: each.bits):
        digest.update(f"|{mask.shape}|".encode() + mask.bits)
    source = HiddenRegions(digest.hexdigest(), name, ref, tuple(masks), filling)
    return ImageRef(ref.key, source=source)


def whole(name: str, ref: ImageRef) -> tuple[str, ImageRef]:
    """Content id and reference of the image in which regions are hidden; any other as it is."""
    source: Any = ref.source
    return (source.name, source.ref) if isinstance(source, HiddenRegions) else (name, ref)


def prepared(model: Model, ref: ImageRef, image: Image) -> Picture:
    """An opened image as far as others may prepare it for a model, with what is hidden in it."""
    if not isinstance(model, Prepares):
        return image
    source: Any = ref.source
    if isinstance(source, HiddenRegions) and source.filling.kind == ZERO:
        return blanked(model, image, source.hidden(image))
    return model.prepare_image(image)
