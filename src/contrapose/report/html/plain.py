"""The tables of a terminal on a page."""

from __future__ import annotations

from contrapose.report.html.markup import element, escaped
from contrapose.report.tables import Table


def plain_table(table: Table) -> str:
    """The same cells under the same header; empty text where there are no rows."""
    if not table.rows:
        return ""
    columns = table.columns()

    def cells(tag: str, row: tuple[str, ...]) -> list[str]:
        return [
            element(tag, escaped(cell), class_="left" if align == "left" else None)
            for cell, (_, align) in zip(row, columns, strict=True)
        ]

    head = element("thead", element("tr", *cells("th", tuple(name for name, _ in columns))))
    body = element("tbody", *(element("tr", *cells("td", row)) for row in table.rows))
    said = (element("p", escaped(table.title), class_="note"),) if table.title else ()
    return element("div", *said, element("table", head, body), class_="scroll")
