"""A small table that is drawn with lines in a terminal and with spaces elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

Align = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Table:
    """Text cells under a header.

    Attributes:
        title: said above it; empty for none.
        header: column names; those that start with `<` are aligned left, the others right.
        rows: the cells.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def columns(self) -> list[tuple[str, Align]]:
        """The names of the columns without their mark, and how each is aligned."""
        return [
            (name.removeprefix("<"), "left" if name.startswith("<") else "right")
            for name in self.header
        ]

    def plain(self) -> str:
        """The table as lines of plain text, never cut."""
        columns = self.columns()
        cells = [tuple(name for name, _ in columns), *self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        lines = [self.title] if self.title else []
        for row in cells:
            padded = (
                cell.ljust(width) if align == "left" else cell.rjust(width)
                for cell, width, (_, align) in zip(row, widths, columns, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    def rich(self) -> RichTable:
        """The table for a terminal."""
        table = RichTable(
            title=Text(self.title) if self.title else None,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for name, align in self.columns():
            table.add_column(Text(name), justify=align, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def show(console: Console, parts: Sequence[Table | str]) -> None:
    """Print tables and sentences: drawn in a terminal, plain when piped."""
    for i, part in enumerate(parts):
        if isinstance(part, str):
            console.print(Text(part), soft_wrap=not console.is_terminal)
        elif console.is_terminal:
            console.print(part.rich())
        else:
            console.print(Text(part.plain()), soft_wrap=True)
            if i + 1 < len(parts):
                console.print()
