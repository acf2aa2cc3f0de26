"""Layout of tables in a terminal: no number is broken, whatever the width.

A table that is too wide takes these steps until it fits: long column names become letters with a
legend, prose is wrapped at spaces, columns are left out by priority, its narrow form takes its
place, long names are shortened with a legend, and at last it is split into blocks of columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from contrapose.errors import printable
from contrapose.report.tables import Table

GAP = "  "
MIN_PROSE = 20
"""Characters of a wrapped column, at least."""
MAX_NAME = 20
"""Characters of a shortened name, at most."""
HEADER_LINES = 3
"""Lines of a column name, at most; a longer one becomes a letter."""
STYLES = {
    "best": "bold green",
    "leader": "bold green",
    "below": "red",
    "worse": "red",
    "better": "green",
}


def show(console: Console, parts: Sequence[Table | str]) -> None:
    """Print tables and sentences: fitted to a terminal, plain and complete when piped."""
    for i, part in enumerate(parts):
        if isinstance(part, str):
            console.print(Text(printable(part)), soft_wrap=not console.is_terminal)
        elif console.is_terminal:
            for piece in fit_table(part, console.width):
                if isinstance(piece, str):
                    console.print(Text(printable(piece), style="dim"))
                else:
                    _draw(console, piece)
            console.print()
        else:
            console.print(Text(part.plain()), soft_wrap=True)
            if i + 1 < len(parts):
                console.print()


def fit_table(table: Table, width: int) -> Iterator[Table | str]:
    """Tables and sentences that say the same as a table and are no wider than the terminal.

    A single column that is wider than the terminal stays as it is.
    """
    table = table.with_plain_cells()
    short, legend = _shorten_header(table)
    if table_width(table) <= width and not legend:
        yield table
        yield from filter(None, [table.legend()])
        return
    fitted, dropped = _drop_columns(short, width)
    if table_width(fitted) > width and table.narrow:
        for one in table.narrow:
            yield from fit_table(one, width)
        return
    if table_width(fitted) > width:
        (fitted, names), dropped = _shorten_names(short), []
        legend += names
        if table_width(fitted) > width:
            fitted, dropped = _drop_columns(fitted, width)
    yield from _split_columns(fitted, width)
    yield from filter(None, [table.legend()])
    if legend:
        yield " · ".join(f"{letter}: {name}" for letter, name in legend)
    if dropped:
        yield f"Left out for lack of width: {', '.join(dropped)}; a wider terminal shows them."


def table_width(table: Table) -> int:
    """Width of a table whose header is wrapped."""
    return sum(_column_widths(table)) + len(GAP) * (len(table.header) - 1)


def _column_widths(table: Table) -> list[int]:
    rows = table.printed_rows()
    widths = []
    for i, (name, _) in enumerate(table.columns()):
        cells = (cell_len(line) for row in rows for line in row[i].split("\n"))
        words = (cell_len(word) for word in _header_words(printable(name)))
        widths.append(max((*cells, *words), default=0))
    return widths


def _header_words(name: str) -> list[str]:
    """Pieces of a column name, which may be wrapped at spaces and behind hyphens and slashes."""
    return re.findall(r"[^\s/-]*[/-]?\s?", name)[:-1] or [name]


def _header_lines(name: str, width: int) -> list[str]:
    lines = [""]
    for word in _header_words(name):
        if lines[-1] and cell_len((lines[-1] + word).rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _drop_columns(table: Table, width: int) -> tuple[Table, list[str]]:
    """Table with prose wrapped and as few columns left out as fit, and the names of those."""
    names = {name for name, _ in table.columns()}
    dropped: list[str] = []
    for name in (name for name in table.drop if name in names):
        if table_width(_without(table, dropped, width)) <= width:
            break
        dropped.append(name)
    for name in dropped[::-1]:  # a narrow column may fit again behind a wide one
        fewer = [one for one in dropped if one != name]
        if table_width(_without(table, fewer, width)) <= width:
            dropped = fewer
    return _without(table, dropped, width), dropped


def _without(table: Table, names: Sequence[str], width: int) -> Table:
    kept = [i for i, (name, _) in enumerate(table.columns()) if name not in names]
    return _wrap_prose(table.select(kept), width)


def _shorten_header(table: Table) -> tuple[Table, list[tuple[str, str]]]:
    """Table without column names of many lines, and the legend of its letters."""
    rows = table.printed_rows()
    header = list(table.header)
    legend: list[tuple[str, str]] = []
    for i, (name, align) in enumerate(table.columns()):
        cells = max((cell_len(row[i]) for row in rows), default=0)
        lines = _header_lines(printable(name), max(cells, 9))
        if align == "right" and (len(lines) > HEADER_LINES or max(map(cell_len, lines)) > 20):
            letter = _letter(len(legend))
            legend.append((letter, name))
            header[i] = letter
    return replace(table, header=tuple(header)), legend


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"N{number + 1}"


def _wrap_prose(table: Table, width: int) -> Table:
    """Table whose columns of prose are wrapped at spaces, the widest first."""
    widths = _column_widths(table)
    prose = [
        i
        for i, (_, align) in enumerate(table.columns())
        if align == "left" and any(" " in row[i] for row in table.rows)
    ]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    limits = {i: widths[i] for i in prose}
    while excess > 0 and (wide := [i for i in prose if limits[i] > MIN_PROSE]):
        widest = max(wide, key=lambda i: limits[i])
        limits[widest] -= 1
        excess -= 1
    if not prose:
        return table
    rows = tuple(
        tuple(
            _wrap(cell, limits[i]) if i in limits and cell_len(cell) > limits[i] else cell
            for i, cell in enumerate(row)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _wrap(cell: str, width: int) -> str:
    """Cell in lines, wrapped at spaces; a word that is longer than a line stays in one piece."""
    lines: list[str] = []
    for word in cell.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def _shorten_names(table: Table) -> tuple[Table, list[tuple[str, str]]]:
    """Table whose names (left cells of one word, and a score) are short, and their legend."""
    legend: dict[str, str] = {}
    columns: list[list[str]] = []
    for i, (_, align) in enumerate(table.columns()):
        cells = [row[i] for row in table.rows]
        if align == "left":
            names = list(dict.fromkeys(cells))
            lasts = Counter(name.rstrip("/").rpartition("/")[2] for name in names)
            for name in names:
                words = name.split()
                if cell_len(name) > MAX_NAME and len(words) < 3 and words[0][-1] != ",":
                    taken = {*legend.values(), *names}
                    legend.setdefault(name, _shorten(name, taken, lasts))
        columns.append([legend.get(cell, cell) if align == "left" else cell for cell in cells])
    if not legend:
        return table, []
    rows = tuple(zip(*columns, strict=True))
    return replace(table, rows=rows), [(short, name) for name, short in legend.items()]


def _shorten(name: str, taken: set[str], lasts: Mapping[str, int]) -> str:
    """Last part of a path where that is distinct, cut in the middle; with a number where taken."""
    last = name.rstrip("/").rpartition("/")[2]
    short = last if lasts[last] == 1 else name
    if len(short) > MAX_NAME:
        short = f"{short[: MAX_NAME // 2]}…{short[-(MAX_NAME - MAX_NAME // 2 - 1) :]}"
    number = 2
    unique = short
    while unique in taken:
        unique = f"{short}~{number}"
        number += 1
    return unique


def _split_columns(table: Table, width: int) -> Iterator[Table]:
    """Blocks of columns that fit, each with the leading columns that name its rows."""
    widths = _column_widths(table)
    keys = []
    for i, (_, align) in enumerate(table.columns()):
        if i and align != "left":
            break
        keys.append(i)
    start = sum(widths[i] + len(GAP) for i in keys)
    block: list[int] = []
    used = start
    title = table.title
    for i in range(len(keys), len(widths)):
        if block and used + widths[i] > width:
            yield replace(table.select([*keys, *block]), title=title)
            block, used, title = [], start, ""
        block.append(i)
        used += widths[i] + len(GAP)
    yield replace(table.select([*keys, *block]), title=title)


def _draw(console: Console, table: Table) -> None:
    widths = _column_widths(table)
    columns = table.columns()
    if table.title:
        console.print(Text(printable(table.title), style="italic"))
    heads = [
        _header_lines(printable(name), width)
        for (name, _), width in zip(columns, widths, strict=True)
    ]
    height = max(map(len, heads))
    lines = [[""] * (height - len(head)) + head for head in heads]
    for k in range(height):
        _print_cells(console, [line[k] for line in lines], widths, columns, ["bold"] * len(widths))
    rule = sum(widths) + len(GAP) * (len(widths) - 1)
    console.print(Text("─" * min(rule, console.width)), soft_wrap=True)
    for number, row in enumerate(table.printed_rows()):
        styles = [STYLES.get(table.marks.get((number, i), ""), "") for i in range(len(row))]
        cells = [cell.split("\n") for cell in row]
        for k in range(max(map(len, cells))):
            line = [cell[k] if k < len(cell) else "" for cell in cells]
            _print_cells(console, line, widths, columns, styles)


def _print_cells(
    console: Console,
    cells: Sequence[str],
    widths: Sequence[int],
    columns: Sequence[tuple[str, str]],
    styles: Sequence[str],
) -> None:
    line = Text()
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - cell_len(cell))
        left = columns[i][1] == "left"
        line.append(GAP if i else "")
        line.append(f"{cell}{space}" if left else f"{space}{cell}", style=styles[i])
    line.rstrip()
    console.print(line, soft_wrap=True)
