"""Image references: decoded by their bytes and not by their names, named by their content.

Images inside Parquet files are read a row group at a time, and the last groups are cached: a file
of the hub holds about a hundred images per row group, which can only be read whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from contrapose.data.pixels import BUDGET, decode_array, gray_to_rgb, require_size, to_rgb
from contrapose.errors import InputError, first_line
from contrapose.files import arrow_path, require_parquet_size, require_regular, resolve_name

if TYPE_CHECKING:
    from PIL.Image import Image

ROW_GROUP_BYTES = 1 << 29
"""Bytes of row groups that are cached, 512 MiB; a larger one is cached alone."""

LARGEST_FILE = 1 << 30
"""Most bytes of an image file; a sparse file of any size takes no room on a disk."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Location of an image's bytes inside a Parquet file: a column and a row."""

    column: str
    row: int


def read_cell(path: Path, cell: Cell) -> bytes:
    """Read the bytes of a cell: bare, or the `bytes` field of a struct as the hub stores images.

    Raises:
        InputError: the file, column or row does not exist, or holds no bytes.
    """
    import pyarrow as pa

    try:
        value = _ROW_GROUPS.value(path, cell)
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"is not a readable Parquet file ({first_line(error)}).", file=path
        ) from None
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise InputError(
            f"holds no image bytes in column {cell.column!r}, row {cell.row}.", file=path
        )
    return content


@dataclass(slots=True)
class _RowGroupCache:
    """Thread-safe cache of the row groups read last, at most `ROW_GROUP_BYTES`."""

    groups: OrderedDict[tuple[Path, int, int, str], Any] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def value(self, path: Path, cell: Cell) -> Any:
        """Return a cell's value; None when the column or the row does not exist."""
        changed = path.stat().st_mtime_ns
        with self.lock:  # one thread reads a group, the others wait for it instead of reading too
            for (file, when, first, column), values in self.groups.items():
                within = first <= cell.row < first + len(values)
                if (file, when, column) == (path, changed, cell.column) and within:
                    self.groups.move_to_end((file, when, first, column))
                    return values[cell.row - first].as_py()
            first, values = _read_row_group(path, cell)
            if values is None:
                return None
            self.groups[path, changed, first, cell.column] = values
            while (
                len(self.groups) > 1
                and sum(group.nbytes for group in self.groups.values()) > ROW_GROUP_BYTES
            ):
                self.groups.popitem(last=False)
        return values[cell.row - first].as_py()


_ROW_GROUPS = _RowGroupCache()


def _read_row_group(path: Path, cell: Cell) -> tuple[int, Any]:
    """Read the column of the row group that holds the row, and the group's first row."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(arrow_path(path)) as file:
        require_parquet_size(file, path)
        if cell.column not in file.schema_arrow.names:
            return 0, None
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first <= cell.row < first + rows:
                return first, file.read_row_group(group, columns=[cell.column]).column(cell.column)
            first += rows
    return 0, None


T = TypeVar("T")

IMAGE_WORKERS = 8
"""Threads that read and decode files."""

Box = tuple[int, int, int, int]
"""x, y, width, height in pixels."""


class ImageSource(Protocol):
    """Generated image, such as a rendered scene; a hashable value."""

    @property
    def content(self) -> str:
        """Content name: equal names mean equal pixels, in any run."""

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Generate many images at once, RGB, in the order given."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """Reference to an image that need not exist yet: scores can be read without it.

    Attributes:
        key: its name in the benchmark; references with the same key show the same photograph,
            whatever their crop, and are one cluster in the statistics.
        path: the image file, or the Parquet file that holds it; None for a generated image.
        crop: the box that the benchmark crops.
        cell: position in the Parquet file.
        channels: order of the color channels when the file is a `.npy` array.
        source: source of a generated image; None for a file.
        square: whether black borders make a square of it, after the crop.

    Example:
        >>> import contrapose as cp
        >>> from pathlib import Path
        >>> cp.ImageRef("photo 7", Path("photos/7.jpg"), crop=(20, 10, 200, 150)).crop
        (20, 10, 200, 150)
    """

    key: str
    path: Path | None = field(default=None, hash=False)  # its hash takes long
    crop: Box | None = None
    cell: Cell | None = None
    channels: Literal["rgb", "bgr"] = "rgb"
    source: ImageSource | None = None
    square: bool = False

    def __post_init__(self) -> None:
        if (self.path is None) == (self.source is None):
            raise ValueError(f"the image {self.key!r} needs either a path or a source.")


def read_bytes(ref: ImageRef) -> bytes:
    """Read the stored bytes of an image.

    Raises:
        InputError: the file is missing or cannot be read, or the image is generated.
    """
    if ref.path is None:
        raise InputError(f"the image {ref.key} is made by the program and has no stored bytes.")
    if ref.cell is not None:
        return read_cell(ref.path, ref.cell)
    require_regular(ref.path)
    try:
        return _read_file(ref.path)
    except OSError:
        path = resolve_name(ref.path)
    if path is None:
        raise InputError("the image is not there.", file=ref.path)
    try:
        return _read_file(path)
    except OSError as error:
        raise InputError(f"the image cannot be read ({error.strerror}).", file=path) from None


def _read_file(path: Path) -> bytes:
    """Read a file, in half the time of the usual way: an evaluation may read a million of them.

    Raises:
        InputError: it is larger than any image that is decoded.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        size = os.fstat(descriptor).st_size
        if size > LARGEST_FILE:
            raise InputError(
                f"the file is too large for an image ({size:,} bytes, and at most "
                f"{LARGEST_FILE:,} are read).",
                file=path,
            )
        parts = [os.read(descriptor, size + 1)]
        if len(parts[0]) == size > 0:
            return parts[0]
        while parts[-1]:
            parts.append(os.read(descriptor, 1 << 20))
    finally:
        os.close(descriptor)
    return b"".join(parts)


def open_image(ref: ImageRef, *, content: str = "") -> Image:
    """Decode an image as RGB: upright by its EXIF tag, cropped as the benchmark says.

    Args:
        ref: the image.
        content: `content_id` that it must have, if any; not compared where it is generated.

    Raises:
        InputError: the image is missing, too large, its bytes cannot be decoded, or it is another
            one by now.
    """
    if ref.source is not None:
        return _open_sources([ref])[0]
    stored = read_bytes(ref)
    if content and bytes_id(stored, ref.crop, _form(ref)) != content:
        raise InputError("the image was changed while the program ran.", file=ref.path)
    image = decode_image(stored, file=ref.path, crop=ref.crop, channels=ref.channels)
    return _pad_to_square(image) if ref.square else image


def decode_image(
    content: bytes,
    *,
    file: Path | None = None,
    crop: Box | None = None,
    channels: Literal["rgb", "bgr"] = "rgb",
    side: int | None = None,
) -> Image:
    """Decode the bytes of an image as RGB, upright by its EXIF tag.

    Transparent pixels are laid on white; CMYK, palette and 16-bit images are converted. An image
    over the limit of `pixel_limit` is not decoded, nor what Pillow refuses, 179 megapixels.

    Args:
        content: the bytes of a file.
        file: where they are from, for messages.
        crop: the box to cut out.
        channels: order of the color channels of a `.npy` array.
        side: pixels that the shorter side must keep; a JPEG may then be decoded at ½, ¼ or ⅛ of
            its size, which is many times faster.

    Raises:
        InputError: the image is too large, or its bytes cannot be decoded.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    _silence_size_warning()
    try:
        if content[:6] == b"\x93NUMPY":
            image = decode_array(content, channels)
        else:
            with Image.open(io.BytesIO(content)) as opened:
                require_size(opened.width, opened.height)
                if side is not None:
                    opened.draft(None, (side, side))
                deep = opened.format == "PNG" and opened.mode.startswith("I")
                with BUDGET.take(opened.width * opened.height):
                    ImageOps.exif_transpose(opened, in_place=True)
                    opened.load()
                    gray = opened.mode[0] in "IF"
                    image = gray_to_rgb(opened, deep=deep) if gray else to_rgb(opened)
        return image if crop is None else _crop(image, crop)
    except InputError as error:
        raise InputError(error.message, file=file) from None
    except UnidentifiedImageError:
        raise InputError("the bytes are not an image in a known format.", file=file) from None
    except Image.DecompressionBombError:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise InputError(
            f"the image is too large to open (more than {most:.0f} megapixels); make it smaller.",
            file=file,
        ) from None
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        why = str(error) or type(error).__name__
        raise InputError(f"the image cannot be decoded ({why}).", file=file) from None


def open_images(refs: Sequence[ImageRef]) -> list[Image]:
    """Decode many images in order: files in threads, generated ones in one call per kind.

    Raises:
        InputError: one of them is missing or cannot be decoded.
    """
    kinds: dict[object, list[int]] = {}
    for i, ref in enumerate(refs):
        kinds.setdefault(None if ref.source is None else type(ref.source), []).append(i)
    images: dict[int, Image] = {}
    for kind, positions in kinds.items():
        some = [refs[i] for i in positions]
        opened = _open_sources(some) if kind is not None else _map_threads(open_image, some)
        images.update(zip(positions, opened, strict=True))
    return [images[i] for i in range(len(refs))]


def content_id(ref: ImageRef) -> str:
    """Hash what the reference shows: the same bytes and crop have the same id anywhere."""
    if ref.source is None:
        return bytes_id(read_bytes(ref), ref.crop, _form(ref))
    content = f"{type(ref.source).__qualname__}:{ref.source.content}".encode()
    return bytes_id(content, ref.crop, _form(ref))


def _form(ref: ImageRef) -> str:
    """Part of an image's id that says how its pixels are laid out."""
    return f"{ref.channels} square" if ref.square else ref.channels


def bytes_id(content: bytes, crop: Box | None = None, channels: str = "rgb") -> str:
    """Hash the bytes of an image with its crop and channel order."""
    digest = hashlib.blake2b(content, digest_size=16)
    digest.update(repr((crop, channels)).encode())
    return digest.hexdigest()


def content_ids(refs: Sequence[ImageRef]) -> list[str]:
    """Compute `content_id` of many; files are read in threads, each reference once."""
    unique = list(dict.fromkeys(refs))
    if all(ref.source is not None for ref in unique):
        ids = [content_id(ref) for ref in unique]
    else:
        ids = _map_threads(content_id, unique)
    of = dict(zip(unique, ids, strict=True))
    return [of[ref] for ref in refs]


def text_id(text: str) -> str:
    """Hash a caption by its exact characters."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _silence_size_warning() -> None:
    """Silence Pillow's warning about large images.

    The filter is added once, and again where someone took it away, and never removed: to change
    filters for a while is not safe when images are decoded in many threads.
    """
    from PIL import Image

    kind = Image.DecompressionBombWarning
    if not any(entry[0] == "ignore" and entry[2] is kind for entry in warnings.filters):
        warnings.filterwarnings("ignore", category=kind)


def _open_sources(refs: Sequence[ImageRef]) -> list[Image]:
    """Generate the images of references whose sources are all of one kind."""
    sources = [ref.source for ref in refs if ref.source is not None]
    images = list(type(sources[0]).open_many(sources))
    if len(images) != len(refs):
        raise ValueError(f"{type(sources[0]).__name__} made {len(images)} of {len(refs)} images.")
    crops = [
        image if ref.crop is None else _crop(image, ref.crop)
        for ref, image in zip(refs, images, strict=True)
    ]
    return [
        _pad_to_square(image) if ref.square else image
        for ref, image in zip(refs, crops, strict=True)
    ]


def _map_threads(function: Callable[[ImageRef], T], refs: Sequence[ImageRef]) -> list[T]:
    from concurrent.futures import ThreadPoolExecutor  # decoders use no threads

    with ThreadPoolExecutor(IMAGE_WORKERS) as pool:
        return list(pool.map(function, refs))


def _crop(image: Image, box: Box) -> Image:
    x, y, width, height = box
    left, top = max(x, 0), max(y, 0)
    right, bottom = min(x + width, image.width), min(y + height, image.height)
    if right <= left or bottom <= top:
        raise ValueError(f"the box {box} lies outside the image of {image.width} × {image.height}")
    return image.crop((left, top, right, bottom))


def _pad_to_square(image: Image) -> Image:
    """Pad an image with black on both sides, so that it is as wide as high."""
    from PIL import Image as ImageModule

    side = max(image.size)
    square = ImageModule.new(image.mode, (side, side))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square
