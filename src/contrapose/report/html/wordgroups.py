"""Captions with their words marked by group."""

from __future__ import annotations

from contrapose.diagnose.players import Groups
from contrapose.report.html.markup import element, escaped

LOOKS = {"O": 0, "R": 3, "A": 2}
"""Colours of the usual groups."""


def marked(text: str, groups: Groups) -> str:
    """The caption as markup: every group's words in its colour, with its name set below."""
    colours = {name: LOOKS.get(name, place % 6) for place, name in enumerate(groups)}
    spans = sorted((start, end, name) for name, each in groups.items() for start, end in each)
    parts: list[str] = []
    at = 0
    alone = all(text[start:end] == name.partition("·")[0] for start, end, name in spans)
    for start, end, name in spans:
        if start < at or end > len(text):
            continue
        parts.append(escaped(text[at:start]))
        below = () if alone else (element("sub", escaped(name)),)
        parts.append(
            element("span", escaped(text[start:end]), *below, class_=f"word s{colours[name]}")
        )
        at = end
    return "".join([*parts, escaped(text[at:])])
