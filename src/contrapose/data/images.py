"""References to images, opened by what the bytes are and not by what the name says."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeVar

from contrapose.data.cells import Cell, cell_bytes
from contrapose.errors import InputError
from contrapose.files import resolve_name

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

WORKERS = 8
"""Threads that read and decode files."""

Box = tuple[int, int, int, int]
"""x, y, width, height in pixels."""


class ImageSource(Protocol):
    """An image that is made and not read, such as a rendered scene; a hashable value."""

    @property
    def content(self) -> str:
        """A name for what it shows: equal names, equal pixels, in any run."""

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Make many at once, which is far cheaper than one by one; RGB, in the order given."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that need not be there yet: scores can be read without it.

    Attributes:
        key: its name in the benchmark; references with the same key show the same photograph,
            whatever part of it they crop, and are one cluster in the statistics.
        path: the file, or the Parquet file that holds it; None when a source makes the image.
        crop: the part to show, as the benchmark cuts it.
        cell: where in the Parquet file.
        channels: order of the colour channels when the file is a `.npy` array.
        source: what makes the image, when it does not lie in a file.
    """

    key: str
    path: Path | None = None
    crop: Box | None = None
    cell: Cell | None = None
    channels: Literal["rgb", "bgr"] = "rgb"
    source: ImageSource | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.source is None):
            raise ValueError(f"the image {self.key!r} needs either a path or a source.")


def read_bytes(ref: ImageRef) -> bytes:
    """The stored bytes of an image.

    Raises:
        InputError: the file is not there or cannot be read, or the image lies in no file.
    """
    if ref.path is None:
        raise InputError(f"the image {ref.key} is made by the program and has no stored bytes.")
    if ref.cell is not None:
        return cell_bytes(ref.path, ref.cell)
    try:
        return ref.path.read_bytes()
    except OSError:
        path = resolve_name(ref.path)
    if path is None:
        raise InputError("the image is not there.", file=ref.path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"the image cannot be read ({error.strerror}).", file=path) from None


def open_image(ref: ImageRef) -> Image:
    """Decode an image as RGB: upright by its EXIF tag, cropped as the benchmark says.

    Transparent pixels are laid on white; CMYK, palette and 16-bit images are converted. What Pillow
    refuses as too large, 179 megapixels by default, is refused; where it only warns, from half of
    that, the image is opened like any other.

    Raises:
        InputError: the image is missing, too large, or its bytes cannot be decoded.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if ref.source is not None:
        return _made([ref])[0]
    content = read_bytes(ref)
    _allow_large()
    try:
        if content[:6] == b"\x93NUMPY":
            image = _array_image(content, ref.channels)
        else:
            with Image.open(io.BytesIO(content)) as opened:
                deep = opened.format == "PNG" and opened.mode.startswith("I")
                image = ImageOps.exif_transpose(opened)
                image.load()
            image = _grey(image, deep=deep) if image.mode[0] in "IF" else _as_rgb(image)
        return image if ref.crop is None else _cropped(image, ref.crop)
    except UnidentifiedImageError:
        raise InputError("the bytes are not an image in a known format.", file=ref.path) from None
    except Image.DecompressionBombError:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise InputError(
            f"the image is too large to open (more than {most:.0f} megapixels); make it smaller.",
            file=ref.path,
        ) from None
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        why = str(error) or type(error).__name__
        raise InputError(f"the image cannot be decoded ({why}).", file=ref.path) from None


def open_images(refs: Sequence[ImageRef]) -> list[Image]:
    """Decode many images, in order: files in threads, made ones in one go a kind.

    Raises:
        InputError: one of them is missing or cannot be decoded.
    """
    kinds: dict[object, list[int]] = {}
    for i, ref in enumerate(refs):
        kinds.setdefault(None if ref.source is None else type(ref.source), []).append(i)
    found: dict[int, Image] = {}
    for kind, places in kinds.items():
        these = [refs[i] for i in places]
        opened = _made(these) if kind is not None else _in_threads(open_image, these)
        found.update(zip(places, opened, strict=True))
    return [found[i] for i in range(len(refs))]


def content_id(ref: ImageRef) -> str:
    """A name for what the reference shows: the same bytes and crop have the same id anywhere."""
    digest = hashlib.blake2b(digest_size=16)
    if ref.source is None:
        digest.update(read_bytes(ref))
    else:
        digest.update(f"{type(ref.source).__qualname__}:{ref.source.content}".encode())
    digest.update(repr((ref.crop, ref.channels)).encode())
    return digest.hexdigest()


def content_ids(refs: Sequence[ImageRef]) -> list[str]:
    """`content_id` of many, files read in threads and each reference once."""
    unique = list(dict.fromkeys(refs))
    if all(ref.source is not None for ref in unique):
        found = [content_id(ref) for ref in unique]
    else:
        found = _in_threads(content_id, unique)
    of = dict(zip(unique, found, strict=True))
    return [of[ref] for ref in refs]


def text_id(text: str) -> str:
    """A name for a caption, by its exact characters."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _allow_large() -> None:
    """Keep Pillow from warning of large images.

    The filter is added once, and again where someone took it away, and never removed: to change
    filters for a while is not safe when images are decoded in many threads.
    """
    from PIL import Image

    kind = Image.DecompressionBombWarning
    if not any(each[0] == "ignore" and each[2] is kind for each in warnings.filters):
        warnings.filterwarnings("ignore", category=kind)


def _made(refs: Sequence[ImageRef]) -> list[Image]:
    """Images of references whose sources are all of one kind."""
    sources = [ref.source for ref in refs if ref.source is not None]
    images = list(type(sources[0]).open_many(sources))
    if len(images) != len(refs):
        raise ValueError(f"{type(sources[0]).__name__} made {len(images)} of {len(refs)} images.")
    return [
        image if ref.crop is None else _cropped(image, ref.crop)
        for ref, image in zip(refs, images, strict=True)
    ]


def _in_threads(function: Callable[[ImageRef], T], refs: Sequence[ImageRef]) -> list[T]:
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(function, refs))


def _array_image(content: bytes, channels: str) -> Image:
    import numpy as np
    from PIL import Image

    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        raise ValueError(f"expected height × width × 3 bytes, found {array.shape} {array.dtype}")
    return Image.fromarray(np.ascontiguousarray(array[:, :, ::-1] if channels == "bgr" else array))


def _grey(image: Image, *, deep: bool) -> Image:
    """Grey values of more than 8 bits as RGB: 16 bits where the format says so, else by range."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    sixteen = deep or image.mode.startswith("I;16") or values.max(initial=0.0) > 255
    values = np.clip(values / 257 if sixteen else values, 0, 255)
    return Image.fromarray(values.round().astype(np.uint8)).convert("RGB")


def _as_rgb(image: Image) -> Image:
    from PIL import Image

    if image.mode.endswith(("A", "a")) or "transparency" in image.info:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def _cropped(image: Image, box: Box) -> Image:
    x, y, width, height = box
    left, top = max(x, 0), max(y, 0)
    right, bottom = min(x + width, image.width), min(y + height, image.height)
    if right <= left or bottom <= top:
        raise ValueError(f"the box {box} lies outside the image of {image.width} × {image.height}")
    return image.crop((left, top, right, bottom))
