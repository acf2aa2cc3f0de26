"""What every page has: head, style, title, and nothing from anywhere else."""

from __future__ import annotations

from contrapose.report.html.markup import element, escaped
from contrapose.report.html.style import STYLE


def page(title: str, lead: str, main: str, footer: str) -> str:
    """A whole page.

    Args:
        title: above everything.
        lead: a paragraph below it; empty for none.
        main: markup.
        footer: markup.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", escaped(title)),
        element("style", STYLE),
    )
    header = element(
        "header",
        element("h1", escaped(title)),
        element("p", escaped(lead), class_="lead") if lead else "",
    )
    body = element("body", header, element("main", main), footer)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def section(title: str, words: str, *content: str) -> str:
    """A headed section; nothing at all when it would be empty."""
    if not any(content):
        return ""
    said = (element("p", escaped(words)),) if words else ()
    return element("section", element("h2", escaped(title)), *said, *content)
