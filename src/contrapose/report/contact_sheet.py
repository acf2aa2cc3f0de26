"""Search results: a table for the terminal, and contact sheets as PNG and HTML."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.data import ImageRef
from contrapose.data.images import decode_image, open_image
from contrapose.errors import InputError, one_line
from contrapose.files import MalformedError, safe_join, write_bytes, write_text
from contrapose.report.html.page import (
    element,
    escape,
    image_data_uri,
    render_footer,
    render_page,
    render_section,
)
from contrapose.report.tables import Table

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.search.queries import Hit, SearchResult

TILE = 224
"""Width and height of an image on a PNG sheet."""

COLUMNS = 5
MARGIN, LINES = 12, 34
"""Pixels between images, and below an image for its lines."""


def describe_query(result: SearchResult) -> str:
    """The query in words, with its fusion and λ."""
    query = result.query
    parts = []
    if query.image is not None:
        parts.append("a dropped image" if isinstance(query.image, bytes) else str(query.image))
    if query.text is not None:
        parts.append(f"“{query.text}”")
    parts += [str(change) for change in query.changes]
    weight = "" if result.scale is None else f", λ = {result.scale:.2f}"
    return f"{' + '.join(parts)} ({result.fusion}{weight})"


def result_tables(result: SearchResult) -> list[Table | str]:
    """Table of the hits, and the notes."""
    hits = result.hits
    header = ["rank", "<image", "score"]
    with_image = bool(hits) and hits[0].image_cosine is not None
    with_text = bool(hits) and hits[0].text_cosine is not None
    header += ["image"] * with_image + ["text"] * with_text
    header += [str(change) for change in result.query.changes]
    rows = []
    for hit in hits:
        numbers = [hit.score]
        numbers += [hit.image_cosine] if hit.image_cosine is not None else []
        numbers += [hit.text_cosine] if hit.text_cosine is not None else []
        numbers += hit.changes
        rows.append((str(hit.rank), hit.path, *(f"{number:.4f}" for number in numbers)))
    title = f"{describe_query(result)}, {result.model}"
    parts: list[Table | str] = [Table(title, tuple(header), tuple(rows))]
    if not hits:
        parts.append("no image is left beside the query.")
    if result.left_out:
        parts.append(f"left out, the query itself: {', '.join(result.left_out)}")
    parts += [f"{note}." for note in result.notes]
    return parts


def write_result(result: SearchResult, path: Path) -> None:
    """Write a result as `.json`, `.html` or `.png`, by the name's ending.

    Raises:
        InputError: it cannot be written.
    """
    try:
        if path.suffix == ".json":
            text = json.dumps(result.to_dict(), indent=2, ensure_ascii=False)
            write_text(path, text + "\n")
        elif path.suffix == ".html":
            write_text(path, render_sheet(result))
        else:
            stream = io.BytesIO()
            draw_sheet(result).save(stream, "PNG")
            write_bytes(path, stream.getvalue())
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", file=path) from None


def render_sheet(result: SearchResult) -> str:
    """Render the HTML contact sheet: one file, nothing external; names are escaped."""
    figures = []
    query = _open_query(result)
    if query is not None:
        figures.append(_figure(query, "query", ""))
    for hit in result.hits:
        figures.append(
            _figure(_open_hit(result, hit), f"{hit.rank}. {hit.path}", _reasons(result, hit))
        )
    style = "display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start"
    grid = element("div", *figures, style=style)
    title = f"Search: {describe_query(result)}"
    lead = f"{len(result.hits)} images of {result.root}, by {result.model}."
    section = render_section("Results", "", grid)
    return render_page(title, lead, [section], render_footer(result.notes))


def draw_sheet(result: SearchResult) -> Image:
    """Draw the PNG contact sheet: the query first, then the hits with rank, name and score."""
    from PIL import Image as Images
    from PIL import ImageDraw, ImageOps

    query = _open_query(result)
    cells: list[tuple[Image | None, str, str]] = []
    if query is not None:
        cells.append((query, "query", ""))
    for hit in result.hits:
        cells.append((_open_hit(result, hit), f"{hit.rank}. {hit.path}", f"{hit.score:.4f}"))
    columns = min(COLUMNS, max(1, len(cells)))
    rows = -(-max(1, len(cells)) // columns)
    step = TILE + MARGIN, TILE + MARGIN + LINES
    sheet = Images.new("RGB", (columns * step[0] + MARGIN, rows * step[1] + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (image, name, score) in enumerate(cells):
        left = MARGIN + number % columns * step[0]
        top = MARGIN + number // columns * step[1]
        if image is None:
            draw.rectangle((left, top, left + TILE, top + TILE), outline="gray")
        else:
            small = ImageOps.contain(image, (TILE, TILE))
            sheet.paste(small, (left + (TILE - small.width) // 2, top + (TILE - small.height) // 2))
        for line, text in enumerate((_shorten(draw, name), score)):
            draw.text((left, top + TILE + 4 + 14 * line), text, fill="black")
    return sheet


def _shorten(draw: object, name: str) -> str:
    """Shorten a name to the width of a tile, from the left; the default font has few letters."""
    plain = one_line(name).encode("ascii", "replace").decode()
    while draw.textlength(plain) > TILE and len(plain) > 4:  # type: ignore[attr-defined]
        plain = "..." + plain[4:]
    return plain


def _figure(image: Image | None, name: str, reasons: str) -> str:
    picture = (
        element("p", "the image cannot be opened")
        if image is None
        else element("img", src=image_data_uri(image), alt=name, style="max-width:100%")
    )
    caption = element("figcaption", escape(name), element("br"), element("small", escape(reasons)))
    return element(
        "figure", picture, caption, title=reasons or None,
        style="margin:0;width:14rem;overflow-wrap:anywhere",
    )  # fmt: skip


def _reasons(result: SearchResult, hit: Hit) -> str:
    """Why an image is a hit: its score, and its cosines with the parts of the query."""
    words = [f"score {hit.score:.4f}"]
    if hit.image_cosine is not None:
        words.append(f"image {hit.image_cosine:.4f}")
    if hit.text_cosine is not None:
        words.append(f"text {hit.text_cosine:.4f}")
    changes = zip(result.query.changes, hit.changes, strict=True)
    return " · ".join([*words, *(f"{change}: {value:+.4f}" for change, value in changes)])


def _open_query(result: SearchResult) -> Image | None:
    """Open the query image; None where there is none."""
    image = result.query.image
    if image is None:
        return None
    if isinstance(image, bytes):
        return decode_image(image)
    return open_image(ImageRef("query", image))


def _open_hit(result: SearchResult, hit: Hit) -> Image | None:
    """Open the image of a hit; None where it is no longer there."""
    try:
        return open_image(ImageRef(hit.path, safe_join(result.root, hit.path)))
    except (InputError, MalformedError):
        return None
