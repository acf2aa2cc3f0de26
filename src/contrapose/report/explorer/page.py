"""Page of the explorer: rows of an example table, and thumbnails inside the page or beside it."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.data import ImageRef, open_images
from contrapose.data.file_maps import map_files
from contrapose.data.images import open_image
from contrapose.engine import Progress
from contrapose.errors import InputError
from contrapose.files import write_bytes, write_text
from contrapose.metrics import IntArray
from contrapose.report.explorer.queries import choose_start
from contrapose.report.explorer.table import ExampleTable

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_ROWS = 20_000
"""Examples up to which a page holds all of them."""
HELD_ROWS = 2_000
"""Examples that a page of more than `MAX_ROWS` holds: the worst."""
MAX_INSIDE = 20_000_000
"""Bytes of thumbnails inside a page; further ones are files beside it."""
MAX_THUMBNAILS = 2_000
"""Thumbnails of a page, of the worst examples first; the local server shows all images."""
THUMBNAIL_SIDE = 320
"""Pixels of a thumbnail's longer side."""
JPEG_QUALITY = 85
CHUNK = 64
"""Images that are decoded at once."""
FILES_PER_TASK = 8
"""Images that a thread opens in one task."""
QUICK_IMAGE = 1e-3
"""Seconds of an image which no other thread need decode."""
IMAGES_FOLDER = "report-images"
"""Folder of thumbnails beside a page."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportFiles:
    """Report: a page, and the files beside it.

    Attributes:
        page: the HTML.
        images: thumbnails that the page has no room for, by name.
    """

    page: str
    images: Mapping[str, bytes] = field(default_factory=dict)

    def named(self, name: str) -> dict[str, str | bytes]:
        """Every file by its name, the page under the name that is given."""
        return {name: self.page, **self.images}

    def write(self, path: Path) -> None:
        """Write the page to a file, atomically, and the images beside it before."""
        for name, content in self.images.items():
            write_bytes(path.parent / name, content)
        write_text(path, self.page)


@dataclass(frozen=True, slots=True, eq=False)
class ExplorerData:
    """Data of the explorer on one page.

    Attributes:
        values: JSON values that the page's script reads.
        images: files beside the page, by name.
    """

    values: dict[str, Any]
    images: Mapping[str, bytes] = field(default_factory=dict)


def build_explorer(
    table: ExampleTable,
    *,
    beside: bool = False,
    start: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> ExplorerData:
    """Build the data of a page that holds its examples.

    Args:
        table: the examples.
        beside: whether thumbnails may be files beside the page.
        start: first query of the page, as `ExampleQuery` has it.
        progress: called with a description, the number of thumbnails, and their total.
    """
    holds_all = len(table) <= MAX_ROWS
    worst = table.worst_first(MAX_ROWS if holds_all else HELD_ROWS)
    rows = range(len(table)) if holds_all else sorted(worst.tolist())
    numbers, thumbnails, files = _make_thumbnails(table, worst, beside=beside, progress=progress)
    held = []
    for row in rows:
        values = table.row(row)
        # Images that have no thumbnail are a number that the page does not know.
        values["images"] = [numbers.get(number, -1) for number in values["images"]]
        held.append(values)
    values = {
        "server": False,
        "about": describe_rows(table, len(held)),
        "rows": held,
        "thumbnails": thumbnails,
        "start": choose_start(table, start or {}),
        **table.describe(),
    }
    return ExplorerData(values, files)


def server_values(
    table: ExampleTable, edition: str, start: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """JSON values of a page whose rows come from the local server of this edition."""
    values = {"server": True, "edition": edition, "about": describe_rows(table, len(table))}
    return {**values, "start": dict(start or {}), **table.describe()}


def describe_rows(table: ExampleTable, held: int) -> str:
    """Sentence on the examples of a page, and on how to see the others."""
    if held == len(table):
        return f"All {len(table):,} examples: choose, sort, and click one to enlarge it."
    folders = [run.folder for run in table.runs if run.folder]
    words = " ".join(dict.fromkeys(folders)) or "RUN"
    return (
        f"The {held:,} worst of {len(table):,} examples, by the margin. This file would be too "
        f"large for all; contrapose view {words} shows every one."
    )


def thumbnail_bytes(image: Image, side: int = THUMBNAIL_SIDE) -> bytes:
    """JPEG copy of an image, no larger than a side."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=JPEG_QUALITY)
    return stream.getvalue()


def open_readable(refs: Sequence[ImageRef]) -> list[Image | None]:
    """Decode images; None for each that is missing or damaged."""
    try:
        return list(open_images(refs))
    except InputError:
        return [_open_one(ref) for ref in refs]


def _open_one(ref: ImageRef) -> Image | None:
    try:
        return open_image(ref) if ref.source is None else open_images([ref])[0]
    except InputError:
        return None


def _make_thumbnails(
    table: ExampleTable, worst: IntArray, *, beside: bool, progress: Progress | None
) -> tuple[dict[int, int], list[str], dict[str, bytes]]:
    """Thumbnails of the worst examples first.

    Returns:
        Position of each image of the table among the thumbnails, their addresses, and the files
        beside the page.
    """
    refs = list(dict.fromkeys(ref for row in worst.tolist() for ref in table.row_images(row)))
    refs = refs[:MAX_THUMBNAILS]
    numbers: dict[int, int] = {}
    addresses: list[str] = []
    files: dict[str, bytes] = {}
    inside = 0
    for done, (ref, content) in enumerate(_encode_images(refs), start=1):
        if progress is not None and (done % CHUNK == 0 or done == len(refs)):
            progress("thumbnails of the report", done, len(refs))
        if content is None:
            continue
        address = f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
        if inside + len(address) > MAX_INSIDE:
            if not beside:
                break
            address = f"{IMAGES_FOLDER}/{len(addresses):05d}.jpg"
            files[address] = content
        else:
            inside += len(address)
        numbers[table.images.number(ref)] = len(addresses)
        addresses.append(address)
    return numbers, addresses, files


def _encode_images(refs: Sequence[ImageRef]) -> Iterator[tuple[ImageRef, bytes | None]]:
    """Encode images as thumbnails; None for each that cannot be opened."""
    if any(ref.source is not None for ref in refs):
        for start in range(0, len(refs), CHUNK):
            some = refs[start : start + CHUNK]
            yield from zip(some, map(_encode, open_readable(some)), strict=True)
        return
    blocks = map_files(_encode_file, refs, quick=QUICK_IMAGE, size=FILES_PER_TASK)
    yield from zip(refs, chain.from_iterable(blocks), strict=True)


def _encode_file(ref: ImageRef) -> bytes | None:
    return _encode(_open_one(ref))


def _encode(image: Image | None) -> bytes | None:
    return None if image is None else thumbnail_bytes(image)
