"""References to images, opened by what the bytes are and not by what the name says."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from contrapose.data.cells import Cell, cell_bytes
from contrapose.errors import InputError
from contrapose.files import resolve_name

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[int, int, int, int]
"""x, y, width, height in pixels."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that need not be there yet: scores can be read without it.

    Attributes:
        key: its name in the benchmark; references with the same key show the same photograph,
            whatever part of it they crop, and are one cluster in the statistics.
        path: the file, or the Parquet file that holds it.
        crop: the part to show, as the benchmark cuts it.
        cell: where in the Parquet file.
        channels: order of the colour channels when the file is a `.npy` array.
    """

    key: str
    path: Path
    crop: Box | None = None
    cell: Cell | None = None
    channels: Literal["rgb", "bgr"] = "rgb"


def read_bytes(ref: ImageRef) -> bytes:
    """The stored bytes of an image.

    Raises:
        InputError: the file is not there or cannot be read.
    """
    if ref.cell is not None:
        return cell_bytes(ref.path, ref.cell)
    path = resolve_name(ref.path)
    if path is None:
        raise InputError("the image is not there.", file=ref.path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"the image cannot be read ({error.strerror}).", file=path) from None


def open_image(ref: ImageRef) -> Image:
    """Decode an image as RGB: upright by its EXIF tag, cropped as the benchmark says.

    Transparent pixels are laid on white; CMYK, palette and 16-bit images are converted.

    Raises:
        InputError: the image is missing or its bytes cannot be decoded.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    content = read_bytes(ref)
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
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        why = str(error) or type(error).__name__
        raise InputError(f"the image cannot be decoded ({why}).", file=ref.path) from None


def content_id(ref: ImageRef) -> str:
    """A name for what the reference shows: the same bytes and crop have the same id anywhere."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(read_bytes(ref))
    digest.update(repr((ref.crop, ref.channels)).encode())
    return digest.hexdigest()


def text_id(text: str) -> str:
    """A name for a caption, by its exact characters."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
