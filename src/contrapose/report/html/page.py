"""HTML page: escaped markup, style sheet, page frame, sections, tables and the footer.

Nothing external is loaded: no font, no request, and no script but the explorer's, by its hash.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from contrapose import __version__
from contrapose.files.pages import escape_json, hash_source
from contrapose.report.tables import Table

if TYPE_CHECKING:
    from PIL.Image import Image

VOID_TAGS = frozenset({"img", "input", "meta", "br", "hr"})
"""HTML elements without an end tag."""

CONTROL_CHARACTERS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")
"""Characters that HTML does not allow, even escaped."""

CONTENT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'"
)
"""What a browser lets a page do: show its own styles and images, and nothing else."""

ASSETS = "explorer/assets"
"""Markup, style and script of the explorer, in the package of reports."""

MAX_IMAGE_SIDE = 320
"""Pixels of an image's longer side; larger images are scaled down."""

Attribute = str | float | bool | None


def escape(text: str) -> str:
    """Escape text for use between tags or in a quoted attribute."""
    return html.escape(text.translate(CONTROL_CHARACTERS), quote=True)


def format_coordinate(value: float) -> str:
    """Format a number of a drawing briefly.

    Raises:
        ValueError: it is not finite; no drawing may hold such a number.
    """
    if not math.isfinite(value):
        raise ValueError(f"a drawing cannot hold the number {value}.")
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0", "0" if abs(value) < 0.005 else "-0")


def element(tag: str, *content: str, **attributes: Attribute) -> str:
    """HTML or SVG element around markup that is already escaped.

    Args:
        tag: name of the element.
        content: markup; text must have gone through `escape`.
        attributes: `class_` stands for `class`, and `_` for `-`; None and False omit the
            attribute, True writes its name alone.
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        else:
            written = escape(value) if isinstance(value, str) else format_coordinate(value)
            words.append(f'{key}="{written}"')
    start = f"<{' '.join(words)}>"
    return start if tag in VOID_TAGS else f"{start}{''.join(content)}</{tag}>"


@cache
def style_sheet() -> str:
    """Style sheet of all pages, for light and dark screens and for print."""
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


@cache
def read_asset(name: str) -> str:
    """Read a file of the explorer: `explorer.html`, `.css` or `.js`, or the pages' `page.js`."""
    return files("contrapose.report").joinpath(ASSETS, name).read_text(encoding="utf-8")


def script_policy(*, server: bool = False) -> str:
    """Content policy of a page with the pages' and the explorer's script, allowed by their hashes.

    Images are the page's own or files beside it; only a page of the local server sends requests.
    """
    scripts = " ".join(hash_source(read_asset(name)) for name in ("page.js", "explorer.js"))
    policy = CONTENT_POLICY.replace("img-src data:", "img-src 'self' data: file:")
    return f"{policy}; script-src {scripts}" + ("; connect-src 'self'" if server else "")


def render_page(
    title: str,
    lead: str,
    sections: Iterable[str],
    footer: str,
    *,
    with_script: bool = False,
    data: Any = None,
) -> str:
    """Render a complete HTML page.

    Args:
        title: heading of the page.
        lead: paragraph below the heading; empty for none.
        sections: markup; empty sections are left out.
        footer: markup.
        with_script: add the pages' script: contents, and tables that sort and copy.
        data: JSON values of the explorer, whose script is added too; None where the page has no
            examples.
    """
    is_server = isinstance(data, dict) and bool(data.get("server"))
    policy = script_policy(server=is_server) if with_script else CONTENT_POLICY
    style = style_sheet() + (read_asset("explorer.css") if with_script else "")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", escape(title)),
        element("style", style),
    )
    header = element(
        "header",
        element("h1", escape(title)),
        element("p", escape(lead), class_="lead") if lead else "",
    )
    scripts = []
    if data is not None:
        scripts.append(
            element("script", escape_json(data), id="explorer-data", type="application/json")
        )
    if with_script:
        scripts.append(element("script", read_asset("page.js")))
    if with_script and data is not None:
        scripts.append(element("script", read_asset("explorer.js")))
    body = element("body", header, element("main", *sections), footer, *scripts)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def render_section(title: str, introduction: str, *content: str) -> str:
    """Render a section with a heading; empty if it has no content."""
    if not any(content):
        return ""
    paragraph = (element("p", escape(introduction)),) if introduction else ()
    return element("section", element("h2", escape(title)), *paragraph, *content)


def render_footer(notes: Iterable[str], *, resamples: int | None = None, seed: int = 0) -> str:
    """Render the footer: version, bootstrap settings and notes."""
    words = [f"Contrapose {__version__}"]
    words += [] if resamples is None else [f"{resamples:,} bootstrap resamples, seed {seed}"]
    return element("footer", escape(" · ".join(words)), render_list(notes))


def render_list(items: Iterable[str]) -> str:
    """Render a bullet list of sentences; empty if there are none."""
    lines = [element("li", escape(item)) for item in items]
    return element("ul", *lines) if lines else ""


def render_details(summary: str, *content: str, note: str = "", is_open: bool = False) -> str:
    """Render a collapsible block; empty if it has no content."""
    if not any(content):
        return ""
    words = (" ", element("small", escape(note))) if note else ()
    return element("details", element("summary", escape(summary), *words), *content, open=is_open)


def render_table(table: Table) -> str:
    """Render a table with its title above; empty if it has no rows.

    The first column is the header of its row; where the table ends in a total, the last row is
    set off.
    """
    if not table.rows:
        return ""
    columns = table.columns()
    lines = []
    for number, row in enumerate(table.rows, 1):
        cells = [
            element(
                "td" if i else "th",
                _cell_markup(cell),
                class_="left" if align == "left" else None,
                scope=None if i else "row",
            )
            for i, (cell, (_, align)) in enumerate(zip(row, columns, strict=True))
        ]
        total = table.total and number == len(table.rows)
        lines.append(element("tr", *cells, class_="total" if total else None))
    head = [
        element("th", escape(name), class_="left" if align == "left" else None, scope="col")
        for name, align in columns
    ]
    title = (element("p", escape(table.title), class_="note"),) if table.title else ()
    markup = element("table", element("thead", element("tr", *head)), element("tbody", *lines))
    return element("div", *title, markup, class_="scroll")


def _cell_markup(cell: str) -> str:
    """Cell of a table; the interval after a number is set small."""
    value, bracket, interval = cell.partition(" (")
    if not bracket or not cell.endswith(")") or not value[:1].isdigit():
        return escape(cell)
    return f"{escape(value)} {element('small', escape(interval[:-1]))}"


def image_data_uri(image: Image, side: int = MAX_IMAGE_SIDE) -> str:
    """JPEG data URI of an image of at most `side` pixels, so that the report is one file."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=92, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()


def render_origins(labels: Sequence[str], origins: Sequence[Mapping[str, str]]) -> str:
    """Render the section of how each run was made, a column for each run; empty without any."""
    names = dict.fromkeys(name for origin in origins for name in origin)
    rows = tuple((name, *(origin.get(name, "–") for origin in origins)) for name in names)
    header = ("<", *(f"<{label}" for label in labels))
    return render_section(
        "How it was made", "", render_table(Table("", header, rows)) if rows else ""
    )
