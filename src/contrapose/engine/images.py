"""Images for the model: masked regions, a cache of decoded images, a cache of encoded images.

An image with masked regions is an image source of its own: planned, cached and scored like any
other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from contrapose.data import ImageRef, open_images
from contrapose.data.images import open_image
from contrapose.engine.score_types import ModelError
from contrapose.errors import InputError
from contrapose.metrics import BoolArray
from contrapose.models import EncodedImage, ImageCacher, ImagePreparer, Model
from contrapose.models.masking.images import mask_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import AnyImage, ImageLike

ZERO, COLOR, MEAN, BLUR, NOISE = "zero", "colour", "mean", "blur", "noise"
IMAGE_MASKS = {
    ZERO: "pixels of hidden regions are zero in the model's normalised space",
    MEAN: "hidden regions have the image's mean colour",
    BLUR: "hidden regions are blurred",
    NOISE: "hidden regions are noise of the image's mean and spread",
}
"""Ways to hide regions, and what each does."""
BLUR_DIVISOR = 16
"""The blur's standard deviation is the longer side divided by this."""


@dataclass(frozen=True, slots=True)
class RegionMask:
    """Region mask, packed to eight pixels per byte.

    Attributes:
        bits: rows one after another.
        shape: height and width.
    """

    bits: bytes
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: BoolArray) -> RegionMask:
        """Pack a (height, width) array."""
        height, width = mask.shape
        return cls(np.packbits(mask).tobytes(), (height, width))

    def array(self) -> BoolArray:
        """Unpack to (height, width), true inside the region."""
        count = self.shape[0] * self.shape[1]
        flat = np.unpackbits(np.frombuffer(self.bits, dtype=np.uint8), count=count)
        return flat.reshape(self.shape).astype(np.bool_)


@dataclass(frozen=True, slots=True)
class Filling:
    """Fill of masked regions.

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
    """Image source: another image with some of its regions masked.

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
    masks: tuple[RegionMask, ...] = field(compare=False, repr=False)
    filling: Filling = field(compare=False)

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Open masked images; one that is masked in several ways is decoded once."""
        refs = list(dict.fromkeys(source.ref for source in sources))
        opened = dict(zip(refs, open_images(refs), strict=True))
        return [source.filled(opened[source.ref]) for source in sources]

    def hidden(self, image: Image) -> BoolArray:
        """Return the union of the masks, (height, width).

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
        """Return the image with its masked regions filled; unchanged for `zero`."""
        from PIL import Image, ImageFilter

        kind = self.filling.kind
        if kind == ZERO:
            return image
        hidden = self.hidden(image)
        pixels = np.array(image)
        if kind == BLUR:
            blurred = image.filter(ImageFilter.GaussianBlur(max(image.size) / BLUR_DIVISOR))
            pixels[hidden] = np.asarray(blurred)[hidden]
        elif kind == NOISE:
            pixels[hidden] = self._noise(pixels)[hidden]
        else:
            colour = (
                np.asarray(self.filling.colour) * 255
                if kind == COLOR
                else pixels.mean(axis=(0, 1), dtype=np.float64)
            )
            pixels[hidden] = np.clip(np.rint(colour), 0, 255).astype(np.uint8)
        return Image.fromarray(pixels)

    def _noise(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Draw the image's noise, the same whatever is masked."""
        key = hashlib.blake2b(self.ref.key.encode(), digest_size=8).digest()
        rng = np.random.default_rng([self.filling.seed, int.from_bytes(key, "big")])
        mean, spread = pixels.mean(axis=(0, 1)), pixels.std(axis=(0, 1))
        return np.clip(np.rint(rng.normal(mean, spread, pixels.shape)), 0, 255).astype(np.uint8)


def mask_image(ref: ImageRef, name: str, masks: Sequence[RegionMask], filling: Filling) -> ImageRef:
    """Reference an image with masked regions; the image itself where there are none.

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


def unmask_ref(name: str, ref: ImageRef) -> tuple[str, ImageRef]:
    """Return content id and reference of the unmasked image."""
    source: Any = ref.source
    return (source.name, source.ref) if isinstance(source, HiddenRegions) else (name, ref)


def prepare_image(model: Model, ref: ImageRef, image: Image) -> ImageLike:
    """Preprocess an opened image for a model outside its forward pass, masks applied."""
    if not isinstance(model, ImagePreparer):
        return image
    source: Any = ref.source
    if isinstance(source, HiddenRegions) and source.filling.kind == ZERO:
        return mask_pixels(model, image, source.hidden(image))
    return model.prepare_image(image)


CACHE_BYTES = 1 << 28
"""Bytes of pixels kept, 256 MiB: nearly ten thousand rendered scenes of 96 × 96."""

RENDER_WINDOW = 128
"""Images that are made, not read, are made so many at once, which is far cheaper."""


class ImageCache:
    """Thread-safe cache of decoded images by content id; the oldest are evicted first."""

    def __init__(self, budget: int = CACHE_BYTES):
        """Create a cache of at most so many bytes."""
        self.budget, self.held = budget, 0
        self._kept: dict[str, Image] = {}
        self._windows: dict[str, dict[str, ImageRef]] = {}
        self._lock, self._making = Lock(), Lock()

    def expect(self, ids: Sequence[str], refs: Sequence[ImageRef]) -> None:
        """Announce the images to be opened, so that generated ones are made in windows."""
        kinds: dict[type, dict[str, ImageRef]] = {}
        for name, ref in map(unmask_ref, ids, refs):
            if ref.source is not None and name not in self._kept:
                kinds.setdefault(type(ref.source), {})[name] = ref
        self._windows = {}
        for made in (list(each.items()) for each in kinds.values()):
            for start in range(0, len(made), RENDER_WINDOW):
                window = dict(made[start : start + RENDER_WINDOW])
                self._windows |= dict.fromkeys(window, window)

    def open(self, name: str, ref: ImageRef) -> Image:
        """Return an image, decoded or from the cache.

        Raises:
            InputError: it is missing or cannot be decoded.
        """
        if isinstance(ref.source, HiddenRegions):
            return ref.source.filled(self.open(*unmask_ref(name, ref)))
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
        """Generate an image and the others of its window; each window is tried once."""
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


class EncodedImageCache:
    """Cache of encoded images: those of the last batch are reused by the next.

    Batches ask about one image after the other, so that little is kept at a time.
    """

    def __init__(self, model: Model):
        self.model = model
        self.kept: dict[int, tuple[ImageLike, EncodedImage]] = {}

    def __call__(self, pictures: Sequence[ImageLike]) -> Sequence[AnyImage]:
        """Encode images where the model can; the same object for the same image."""
        if not isinstance(self.model, ImageCacher):
            return pictures
        shown = {id(picture): picture for picture in pictures}
        self.kept = {key: held for key, held in self.kept.items() if key in shown}
        new = [picture for key, picture in shown.items() if key not in self.kept]
        if new:
            looked = self.model.look(new)
            if len(looked) != len(new):
                raise ModelError(
                    f"{self.model.name}: look gave {len(looked)} for {len(new)} images."
                )
            self.kept |= {
                id(picture): (picture, one) for picture, one in zip(new, looked, strict=True)
            }
        return [self.kept[id(picture)][1] for picture in pictures]
