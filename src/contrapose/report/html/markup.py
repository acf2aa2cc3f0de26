"""Writing HTML and SVG: every attribute and every piece of text is escaped here."""

from __future__ import annotations

import html
import math

VOID = frozenset({"img", "meta", "br", "hr"})
"""HTML elements without an end."""

CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")
"""Characters that HTML does not allow, even escaped."""

Attribute = str | float | bool | None


def escaped(text: str) -> str:
    """Text as it may stand between tags or in a quoted attribute."""
    return html.escape(text.translate(CONTROLS), quote=True)


def number(value: float) -> str:
    """A coordinate, short.

    Raises:
        ValueError: it is not finite; no drawing may hold such a number.
    """
    if not math.isfinite(value):
        raise ValueError(f"a drawing cannot hold the number {value}.")
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0", "0" if abs(value) < 0.005 else "-0")


def element(tag: str, *inside: str, **attributes: Attribute) -> str:
    """An element around markup that is already safe.

    Args:
        tag: its name.
        inside: markup; text must have gone through `escaped`.
        attributes: `class_` stands for `class`, and `_` for `-`; None and False leave one out,
            True writes its name alone.
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        else:
            written = escaped(value) if isinstance(value, str) else number(value)
            words.append(f'{key}="{written}"')
    opened = f"<{' '.join(words)}>"
    return opened if tag in VOID else f"{opened}{''.join(inside)}</{tag}>"
