"""Review page: one HTML file in which a person keeps or drops pairs; it sends no requests."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from contrapose.build.review.pairs import PairSet
from contrapose.data import ImageRef
from contrapose.data.images import open_image
from contrapose.engine import Progress
from contrapose.errors import InputError
from contrapose.files import atomic_file, safe_join
from contrapose.files.pages import escape_json, inline_page

ImageStorage = Literal["inline", "beside"]
"""Thumbnails within the page, or links to the images of the set."""

THUMBNAIL = 320
"""Longest side of a thumbnail, in pixels."""
JPEG_QUALITY = 82
WORKERS = 4
DATA, POLICY = "/* data */", "/* policy */"
MOST_NOTES, LONGEST_NOTE = 6, 60
SHOWN_ELSEWHERE = frozenset(
    ("instruction", "kind", "margin", "new", "old", "prompt0", "prompt1", "score", "subset")
)
"""Tags that the page does not repeat among its notes."""
NO_IMAGE = "data:,"


def write_review_page(
    pair_set: PairSet,
    out: Path,
    *,
    images: ImageStorage = "inline",
    side: int = THUMBNAIL,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the review page of a set.

    Args:
        pair_set: the set.
        out: the page, an `.html` file.
        images: thumbnails within the page, or links to the files of the set.
        side: longest side of a thumbnail.
        overwrite: replace a file that is there.
        progress: called with a description, the number done and the total.

    Returns:
        The page, its bytes, the number of pairs, the id of the build, and how many images could
        not be read.

    Raises:
        InputError: the file cannot be written.
    """
    if out.exists() and not overwrite:
        raise InputError("is there already; choose another name, or let it be replaced.", file=out)
    before, after = load_template().split(DATA)
    rows, unreadable = pair_set.rows, 0
    scores = [score for row in rows if (score := _score(row)) is not None]
    head = {
        "build": pair_set.id,
        "name": f"{pair_set.manifest['builder']}: {pair_set.folder.resolve().name}",
        "scores": [min(scores), max(scores)] if scores else None,
    }

    def entry(row: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        return _page_entry(row, pair_set, out.parent, images, side)

    with atomic_file(out) as stream, ThreadPoolExecutor(WORKERS) as pool:
        stream.write(f'{before}{escape_json(head)[:-1]}, "pairs": ['.encode())
        for number, (value, failures) in enumerate(pool.map(entry, rows), start=1):
            stream.write(f"{',' if number > 1 else ''}\n{escape_json(value)}".encode())
            unreadable += failures
            if progress is not None:
                progress("review page", number, len(rows))
        stream.write(f"]}}{after}".encode())
    return {
        "page": str(out),
        "pairs": len(rows),
        "build": pair_set.id,
        "unreadable": unreadable,
        "bytes": out.stat().st_size,
    }


def load_template() -> str:
    """Page without its data; the content policy allows its script and style by hash."""
    text, (script, style) = inline_page(files(__package__).joinpath("assets"), "review")
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "img-src 'self' data: file:; base-uri 'none'; form-action 'none'"
    )
    return text.replace(POLICY, policy)


def _page_entry(
    row: Mapping[str, Any], pair_set: PairSet, folder: Path, images: ImageStorage, side: int
) -> tuple[dict[str, Any], int]:
    """Entry of a pair in the page's data, and how many of its images cannot be read."""
    sources, problems = [], []
    for name in row["images"]:
        path = safe_join(pair_set.folder, name)
        if images == "beside" and path.suffix != ".npy":
            sources.append(quote(Path(os.path.relpath(path, folder)).as_posix()))
            continue
        try:
            sources.append(_thumbnail(path, side))
        except InputError as error:
            sources.append(NO_IMAGE)
            problems.append(f"{name}: {error.message}")
    entry = {
        "id": row["id"],
        "kind": row["tags"].get("kind") or pair_set.manifest["subset"],
        "captions": row["captions"],
        "images": sources,
        "score": _score(row),
        "notes": [*problems, *_notes(row["tags"])],
    }
    return entry, len(problems)


def _thumbnail(path: Path, side: int) -> str:
    """Data URL of an image, no larger than a side."""
    image = open_image(ImageRef(path.name, path))
    image.thumbnail((side, side))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=JPEG_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"


def _notes(tags: Mapping[str, str]) -> Iterator[str]:
    shown = [(name, text) for name, text in tags.items() if name not in SHOWN_ELSEWHERE and text]
    for name, text in shown[:MOST_NOTES]:
        yield f"{name} {text}"[:LONGEST_NOTE]


def _score(row: Mapping[str, Any]) -> float | None:
    """Margin of the score filter; None where the set was not filtered."""
    try:
        value = float(row["tags"]["margin"])
    except (KeyError, ValueError):
        return None
    return value if abs(value) < float("inf") else None
