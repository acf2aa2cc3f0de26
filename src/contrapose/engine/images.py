"""Images for the model: masked regions, a cache of decoded images, a cache of encoded images.

An image with masked regions is an image source of its own: planned, cached and scored like any
other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from contrapose.data import ImageRef, open_images
from contrapose.data.images import open_image
from contrapose.engine.columns import ModelError
from contrapose.errors import InputError
from contrapose.metrics import BoolArray
from contrapose.models import EncodedImage, ImageCacher, ImagePreparer, Model

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import AnyImage, ImageLike, PreparedImage

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
        bits: the mask row by row, eight pixels per byte.
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
        kind: `zero`, `mean`, `blur`, `noise`, or `colour` for a given color.
        colour: that color, values from 0 to 1. The spelling is part of the content ids.
        seed: of the noise.
    """

    kind: str = ZERO
    colour: tuple[float, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class HiddenRegions:
    """Image source: another image with some of its regions masked.

    With the fill `zero` it opens as the unmasked image, and `prepare_image` masks its pixels in the
    model's own space.

    Attributes:
        content: hash of the image, its masks and their fill.
        name: content id of the unmasked image.
        ref: the unmasked image.
        masks: the masked regions.
        filling: fill of the masked regions.
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
        return [source.fill(opened[source.ref]) for source in sources]

    def mask(self, image: Image) -> BoolArray:
        """Return the union of the masks, (height, width).

        Raises:
            InputError: a mask has another size than the image.
        """
        shape = (image.height, image.width)
        union = np.zeros(shape, dtype=np.bool_)
        for mask in self.masks:
            if mask.shape != shape:
                raise InputError(
                    f"a mask of {mask.shape[1]} × {mask.shape[0]} does not fit the image "
                    f"{self.ref.key} of {image.width} × {image.height}."
                )
            union |= mask.array()
        return union

    def fill(self, image: Image) -> Image:
        """Return the image with its masked regions filled; unchanged for `zero`."""
        from PIL import Image, ImageFilter

        kind = self.filling.kind
        if kind == ZERO:
            return image
        masked = self.mask(image)
        pixels = np.array(image)
        if kind == BLUR:
            blurred = image.filter(ImageFilter.GaussianBlur(max(image.size) / BLUR_DIVISOR))
            pixels[masked] = np.asarray(blurred)[masked]
        elif kind == NOISE:
            pixels[masked] = self._noise(pixels)[masked]
        else:
            color = (
                np.asarray(self.filling.colour) * 255
                if kind == COLOR
                else pixels.mean(axis=(0, 1), dtype=np.float64)
            )
            pixels[masked] = np.clip(np.rint(color), 0, 255).astype(np.uint8)
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
        ref: the unmasked image.
        name: its content id.
        masks: the masked regions.
        filling: fill of the masked regions.
    """
    if not masks:
        return ref
    digest = hashlib.blake2b(f"{name}|{filling}".encode(), digest_size=16)
    for mask in sorted(masks, key=lambda mask: mask.bits):
        digest.update(f"|{mask.shape}|".encode() + mask.bits)
    source = HiddenRegions(digest.hexdigest(), name, ref, tuple(masks), filling)
    return ImageRef(ref.key, source=source)


def unmask_ref(name: str, ref: ImageRef) -> tuple[str, ImageRef]:
    """Return content id and reference of the unmasked image."""
    source: Any = ref.source
    return (source.name, source.ref) if isinstance(source, HiddenRegions) else (name, ref)


PREPARED_BYTES = 1 << 26
"""Bytes of prepared images that wait for their next mask, 64 MiB: 85 of 224 × 224 pixels, as bytes
and normalized."""


class PreparedCache:
    """Thread-safe cache of a model's prepared, unmasked images: the masks of one image share it."""

    def __init__(self, budget: int = PREPARED_BYTES) -> None:
        """Create a cache of at most so many bytes."""
        self.budget = budget
        self._futures: dict[tuple[str, bool], Future[PreparedImage]] = {}
        self._sizes: dict[tuple[str, bool], int] = {}
        self._lock = Lock()

    def prepare(self, model: ImagePreparer, name: str, image: Image) -> PreparedImage:
        """Prepare an image, or wait for the thread that does."""
        return self._make_once((name, False), lambda: model.prepare_image(image))

    def normalize(self, model: ImagePreparer, name: str, image: Image) -> PreparedImage:
        """Prepare and normalize an image, or wait for the thread that does."""
        from contrapose.models.masking.images import normalize_prepared

        return self._make_once(
            (name, True), lambda: normalize_prepared(model, self.prepare(model, name, image))
        )

    def _make_once(self, key: tuple[str, bool], make: Callable[[], PreparedImage]) -> PreparedImage:
        with self._lock:
            future = self._futures.get(key)
            new = future is None
            if future is None:
                future = self._futures[key] = Future()
        if new:
            try:
                made = make()
            except BaseException as error:
                with self._lock:
                    del self._futures[key]
                future.set_exception(error)
            else:
                future.set_result(made)
                self._evict(key, _count_bytes(made))
        return future.result()

    def _evict(self, key: tuple[str, bool], size: int) -> None:
        """Record the size of what was made, and drop the oldest that there is no room for."""
        with self._lock:
            self._sizes[key] = size
            while sum(self._sizes.values()) > self.budget:
                oldest = next(iter(self._sizes))
                del self._sizes[oldest], self._futures[oldest]


def _count_bytes(prepared: PreparedImage) -> int:
    tensors: Any = prepared.values() if isinstance(prepared, Mapping) else [prepared]
    return sum(int(getattr(tensor, "nbytes", 0)) for tensor in tensors)


def prepare_image(
    model: Model, name: str, ref: ImageRef, image: Image, cache: PreparedCache | None = None
) -> ImageLike:
    """Preprocess an opened image for a model outside its forward pass, masks applied.

    Args:
        model: the model.
        name: content id of the image.
        ref: reference of the image.
        image: the opened image.
        cache: the model's prepared images that are masked in several ways.
    """
    if not isinstance(model, ImagePreparer):
        return image
    source: Any = ref.source
    cache = PreparedCache() if cache is None else cache
    if isinstance(source, HiddenRegions) and source.filling.kind == ZERO:
        hidden = source.mask(image)
        from contrapose.models.masking.images import hide_pixels

        return hide_pixels(model, cache.normalize(model, source.name, image), hidden)
    return cache.prepare(model, name, image)


CACHE_BYTES = 1 << 28
"""Bytes of pixels that are cached, 256 MiB: nearly ten thousand rendered scenes of 96 × 96."""

RENDER_WINDOW = 128
"""Generated images are made so many at once, which is far cheaper than one by one; fewer of large
ones, which tell their number of pixels: a quarter of the cache."""


class ImageCache:
    """Thread-safe cache of decoded images by content id; the oldest are evicted first."""

    def __init__(self, budget: int = CACHE_BYTES):
        """Create a cache of at most so many bytes."""
        self.budget, self.held = budget, 0
        self._cached: dict[str, Image] = {}
        self._windows: dict[str, dict[str, ImageRef]] = {}
        self._lock, self._generating = Lock(), Lock()

    def expect(self, ids: Sequence[str], refs: Sequence[ImageRef]) -> None:
        """Announce the images to be opened, so that generated ones are made in windows."""
        kinds: dict[type, dict[str, ImageRef]] = {}
        for name, ref in map(unmask_ref, ids, refs):
            if ref.source is not None and name not in self._cached:
                kinds.setdefault(type(ref.source), {})[name] = ref
        self._windows = {}
        for refs_of_kind in kinds.values():
            window: dict[str, ImageRef] = {}
            size = 0
            for name, ref in refs_of_kind.items():
                size += 3 * getattr(ref.source, "pixels", 0)
                if window and (len(window) == RENDER_WINDOW or size > self.budget // 4):
                    window, size = {}, 3 * getattr(ref.source, "pixels", 0)
                window[name] = ref
                self._windows[name] = window

    def holds(self, name: str) -> bool:
        """Whether an image is cached."""
        return name in self._cached

    def open(self, name: str, ref: ImageRef) -> Image:
        """Return an image, decoded or from the cache.

        Raises:
            InputError: it is missing or cannot be decoded.
        """
        if isinstance(ref.source, HiddenRegions):
            return ref.source.fill(self.open(*unmask_ref(name, ref)))
        cached = self._cached.get(name)
        if cached is not None:
            return cached
        if ref.source is None:
            image = open_image(ref, content=name)
            self._add(name, image)
            return image
        with self._generating:  # the others of its window are being made, perhaps this one too
            return self._cached.get(name) or self._generate(name, ref)

    def _generate(self, name: str, ref: ImageRef) -> Image:
        """Generate an image and the others of its window.

        A window with an image that cannot be made is halved, so that the others are still made
        many at once.
        """
        window = self._windows.get(name, {name: ref})
        for other in window:
            self._windows.pop(other, None)
        try:
            images = open_images(list(window.values()))
        except InputError:  # one of them; perhaps not this one
            if len(window) == 1:
                raise
            listed = list(window.items())
            for some in (listed[: len(listed) // 2], listed[len(listed) // 2 :]):
                half = dict(some)
                for other in half:
                    self._windows[other] = half
            return self._generate(name, ref)
        generated = dict(zip(window, images, strict=True))
        for other, image in generated.items():
            self._add(other, image)
        return generated[name]

    def _add(self, name: str, image: Image) -> None:
        size = 3 * image.width * image.height
        if size > self.budget:
            return
        with self._lock:
            if name in self._cached:
                return
            self._cached[name] = image
            self.held += size
            while self.held > self.budget:
                old = self._cached.pop(next(iter(self._cached)))
                self.held -= 3 * old.width * old.height


class EncodedImageCache:
    """Cache of encoded images: those of the last batch are reused by the next.

    Batches go through one image after the other, so that few encoded images are held at a time.
    """

    def __init__(self, model: Model):
        self.model = model
        self.held: dict[int, tuple[ImageLike, EncodedImage]] = {}

    def encode(self, images: Sequence[ImageLike]) -> list[AnyImage]:
        """Encode images where the model can; the same object for the same image."""
        if not isinstance(self.model, ImageCacher):
            return list(images)
        distinct = {id(image): image for image in images}
        self.held = {key: pair for key, pair in self.held.items() if key in distinct}
        new = [image for key, image in distinct.items() if key not in self.held]
        if new:
            encoded = self.model.encode_images(new)
            if len(encoded) != len(new):
                raise ModelError(
                    f"{self.model.name}: encode_images gave {len(encoded)} for {len(new)} images."
                )
            self.held |= {
                id(image): (image, code) for image, code in zip(new, encoded, strict=True)
            }
        return [self.held[id(image)][1] for image in images]
