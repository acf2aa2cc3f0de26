"""HTML page: escaped markup, style sheet, page frame and sections; nothing external is loaded."""

from __future__ import annotations

import html
import math

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --card: #f7f8f9; --ink: #1d2227; --soft: #5a646e; --line: #dfe3e7;
  --accent: #0b62a4; --good: #0b6b4f; --bad: #b0400a;
  --s0: #0072b2; --s1: #d98200; --s2: #00896a; --s3: #cc4e00; --s4: #b3568a; --s5: #5b6770;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --card: #1c2024; --ink: #e7eaed; --soft: #a2abb4; --line: #33393f;
    --accent: #6cb6f0; --good: #58c9a3; --bad: #ff9a66;
    --s0: #5ab0ea; --s1: #f2b134; --s2: #3fcda4; --s3: #ff8a4d; --s4: #e89cc8; --s5: #a9b4bd;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 64rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.75rem 0 .75rem; color: var(--accent); }
p { margin: .4rem 0 1rem; max-width: 46rem; }
.lead, .note, footer { color: var(--soft); }
.note { font-size: .85rem; margin: .4rem 0 0; }
footer { font-size: .85rem; margin-top: 3rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
footer ul { padding-left: 1.1rem; margin: .5rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .36rem .8rem .36rem 0; text-align: right; vertical-align: baseline; }
th { font-weight: 600; border-bottom: 2px solid var(--line); vertical-align: bottom; }
td, tbody th { border-bottom: 1px solid var(--line); white-space: nowrap; }
tbody th { font-weight: 400; border-bottom-width: 1px; vertical-align: baseline; }
tr.total th, tr.total td { font-weight: 600; border-top: 2px solid var(--line); }
.left { text-align: left; }
small { color: var(--soft); font-size: .8em; font-weight: 400; }
summary { cursor: pointer; color: var(--accent); margin: 1rem 0 .5rem; }
figure { margin: 1.25rem 0 2rem; min-width: 0; }
figcaption { margin-bottom: .5rem; }
svg { display: block; width: 100%; height: auto; }
figure .scroll svg { min-width: 26rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 0 2.5rem; }
svg text { font: 11.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  fill: var(--ink); }
svg .tick, svg .axis { fill: var(--soft); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .rule { stroke: var(--line); stroke-width: .5; }
svg .zero, svg .tick-chance { stroke: var(--soft); stroke-width: 1.5; opacity: .75; }
svg .tick-chance { stroke-width: 2.5; opacity: .55; }
svg .whisker { stroke: currentColor; stroke-width: 2; opacity: .65; }
svg .dot { fill: currentColor; stroke: var(--paper); stroke-width: .75; }
svg .ring { fill: var(--paper); stroke: var(--soft); stroke-width: 1.6; }
svg .curve { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
svg .band { fill: var(--soft); opacity: .16; }
.s0 { color: var(--s0); } .s1 { color: var(--s1); } .s2 { color: var(--s2); }
.s3 { color: var(--s3); } .s4 { color: var(--s4); } .s5 { color: var(--s5); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr));
  gap: 1rem; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .9rem; font-size: .9rem; overflow: hidden; }
article header { display: flex; justify-content: space-between; gap: .5rem; font-weight: 600; }
article header small { text-align: right; }
.pictures { display: flex; gap: .5rem; margin: .7rem 0; }
.pictures div { flex: 1 1 0; max-width: 12rem; font-size: .8rem; color: var(--soft); }
.pictures img { display: block; width: 100%; border-radius: .3rem; }
article th { white-space: nowrap; padding: .2rem 0 .2rem .6rem; }
article th.left { padding-left: 0; }
article table { width: 100%; font-size: .85rem; }
article td { white-space: normal; padding-right: 0; padding-left: .6rem; }
article td.left { padding-left: 0; overflow-wrap: anywhere; }
article tr:last-child td { border-bottom: 0; }
.right, .wrong { display: block; font-size: .75rem; line-height: 1.2; }
.right { color: var(--good); } .wrong { color: var(--bad); }
svg .points { fill: none; stroke: currentColor; stroke-width: 4; stroke-linecap: round;
  opacity: .5; }
svg .frame { fill: none; stroke: var(--line); }
svg .bar { fill: currentColor; }
.games { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
  gap: 1rem; }
.games figure { margin: .9rem 0 0; }
.games figure .scroll svg { min-width: 0; }
.word { font-weight: 600; text-decoration: underline; text-underline-offset: .2em; }
.word sub { font-size: .65em; font-weight: 400; margin-left: .1em; }
.plain { display: block; font-size: .75rem; line-height: 1.2; }
@media print { body { max-width: none; } article, figure { break-inside: avoid; } }
"""


VOID_TAGS = frozenset({"img", "meta", "br", "hr"})
"""HTML elements without an end."""

CONTROL_CHARACTERS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")
"""Characters that HTML does not allow, even escaped."""

Attribute = str | float | bool | None


def escape(text: str) -> str:
    """Escape text for use between tags or in a quoted attribute."""
    return html.escape(text.translate(CONTROL_CHARACTERS), quote=True)


def format_number(value: float) -> str:
    """Format a coordinate briefly.

    Raises:
        ValueError: it is not finite; no drawing may hold such a number.
    """
    if not math.isfinite(value):
        raise ValueError(f"a drawing cannot hold the number {value}.")
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0", "0" if abs(value) < 0.005 else "-0")


def element(tag: str, *inside: str, **attributes: Attribute) -> str:
    """HTML or SVG element around markup that is already escaped.

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
            written = escape(value) if isinstance(value, str) else format_number(value)
            words.append(f'{key}="{written}"')
    opened = f"<{' '.join(words)}>"
    return opened if tag in VOID_TAGS else f"{opened}{''.join(inside)}</{tag}>"


def render_page(title: str, lead: str, main: str, footer: str) -> str:
    """Render a complete HTML page.

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
        element("title", escape(title)),
        element("style", STYLE),
    )
    header = element(
        "header",
        element("h1", escape(title)),
        element("p", escape(lead), class_="lead") if lead else "",
    )
    body = element("body", header, element("main", main), footer)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def render_section(title: str, words: str, *content: str) -> str:
    """Render a section with a heading; empty if it has no content."""
    if not any(content):
        return ""
    said = (element("p", escape(words)),) if words else ()
    return element("section", element("h2", escape(title)), *said, *content)
