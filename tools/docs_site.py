"""Hooks of the documentation site (mkdocs.yml), and the reference pages made from the program.

The reference of commands comes from the command line's own parser, that of functions from their
signatures and docstrings, and the table of benchmarks from their cards, so none can be out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Args", "Returns", "Raises", "Example", "Attributes", "Yields")
"""Headings of a docstring."""
LINE = 88
"""The longest line of a signature."""


def on_config(config: Any) -> Any:
    """Leave pages that are not there out of the navigation, and add those that it does not name."""
    folder = Path(config["docs_dir"])
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*.md")}
    known = there | set(GENERATED)
    nav = _keep_pages(config["nav"], known)
    rest = sorted(known - set(_pages_of(nav)))
    if rest:
        guide = next(
            entry["Guide"] for entry in nav if isinstance(entry, dict) and "Guide" in entry
        )
        guide.append({"More": rest})
    config["nav"] = nav
    return config


def _keep_pages(nav: Sequence[Any], known: set[str]) -> list[Any]:
    kept: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):
            kept += [entry] if entry in known else []
            continue
        for title, value in entry.items():
            inner = _keep_pages(value, known) if isinstance(value, list) else value
            if inner and (isinstance(inner, list) or inner in known):
                kept.append({title: inner})
    return kept


def _pages_of(nav: Sequence[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from _pages_of(value) if isinstance(value, list) else [value]


def on_files(files: Any, config: Any) -> Any:
    """Add the reference pages."""
    from mkdocs.structure.files import File

    for name, write in GENERATED.items():
        files.append(File.generated(config, name, content=write()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files outside docs/, which the site does not have, into plain text."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def unlink(match: re.Match[str]) -> str:
        target = match.group(2).partition("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            return match.group()
        inside = (folder / target).resolve().is_relative_to(ROOT / "docs")
        return match.group() if inside else match.group(1)

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", unlink, markdown)


def command_page() -> str:
    """Reference of all commands, in Markdown."""
    import typer

    from contrapose.cli.app import VERBS, app

    group: Any = typer.main.get_command(app)
    context = group.make_context("contrapose", [], resilient_parsing=True)
    parts = ["# Commands", _sentence(group.help or "")]
    for verb in VERBS:
        parts += _describe_command(group.get_command(context, verb), f"contrapose {verb}", context)
    return "\n\n".join(parts) + "\n"


def _describe_command(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    inner = getattr(command, "commands", None)
    level = "##" if name.count(" ") == 1 else "###"
    yield f"{level} {name}"
    yield _sentence(command.help or "")
    if inner:
        for word in command.list_commands(context):
            yield from _describe_command(
                command.get_command(context, word), f"{name} {word}", parent
            )
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{name} {usage}\n```"
    rows = [_describe_option(parameter, context) for parameter in command.get_params(context)]
    shown = [row for row in rows if row is not None]
    if shown:
        yield "| option | meaning |\n|---|---|\n" + "\n".join(shown)


def _describe_option(parameter: Any, context: Any) -> str | None:
    record = None if parameter.name == "help" else parameter.get_help_record(context)
    if record is None:
        return None
    names, meaning = record
    return f"| `{_sentence(names).replace('|', '/')}` | {_cell(meaning)} |"


def python_page() -> str:
    """Reference of all public functions and classes, in Markdown."""
    import contrapose

    parts = [
        "# Functions and classes",
        "All names of `import contrapose as cp`, with every argument. "
        "[Python API](../api.md) has examples by task.",
    ]
    for name in contrapose.__all__:
        thing = getattr(contrapose, name)
        if callable(thing):
            parts += _describe_callable(thing, f"cp.{name}", "##")
    return "\n\n".join(parts) + "\n"


def _describe_callable(thing: Any, name: str, level: str) -> Iterator[str]:
    yield f"{level} {name}"
    if not inspect.isclass(thing):
        yield f"```python\n{_format_signature(thing, name)}\n```"
    yield from format_docstring(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        for word, member in vars(thing).items():
            if word.startswith("_"):
                continue
            if isinstance(member, property):
                yield f"**`{word}`**: {inspect.getdoc(member) or ''}"
            elif inspect.isfunction(member):
                yield from _describe_callable(member, f"{name}.{word}", level + "#")


def _format_signature(function: Any, name: str) -> str:
    """Call with all parameters and their types, on several lines where it is long."""
    signature = inspect.signature(function)
    words: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        words.append(f"{parameter.name}{kind}{default}")
    back = signature.return_annotation
    arrow = "" if back is signature.empty else f" -> {back}"
    short = f"{name}({', '.join(words)}){arrow}"
    if len(short) <= LINE:
        return short
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){arrow}"


def format_docstring(text: str) -> Iterator[str]:
    """Markdown parts of a docstring in Google's style."""
    blocks = re.split(rf"^({'|'.join(SECTIONS)}):\n", text, flags=re.MULTILINE)
    if blocks[0].strip():
        yield blocks[0].strip()
    for heading, body in zip(blocks[1::2], blocks[2::2], strict=True):
        lines = inspect.cleandoc(body)
        if heading == "Example":
            yield f"```pycon\n{lines}\n```"
        elif heading in ("Returns", "Yields"):
            yield f"**{heading}** {' '.join(lines.split())}"
        else:
            yield f"| {heading.lower()} | |\n|---|---|\n" + "\n".join(_describe_items(lines))


def _describe_items(text: str) -> Iterator[str]:
    for entry in re.split(r"\n(?=\S)", text):
        name, _, meaning = entry.partition(":")
        yield f"| `{name.strip()}` | {_cell(meaning)} |"


def benchmark_page() -> str:
    """Card of every benchmark: paper, files, license, official scoring and errata, in Markdown."""
    from contrapose.data.registry import benchmark_names, find_benchmark

    parts = [
        "# Benchmark cards",
        "Papers to cite, files, licenses and errata. [Benchmarks](../benchmarks.md) has the table.",
    ]
    for name in benchmark_names():
        loaded: Any = find_benchmark(name)
        card = getattr(loaded, "card", None)
        parts += [f"## {name}", _cell(loaded.title if card is None else card.title)]
        if card is None:
            parts.append("A suite of " + ", ".join(f"`{part}`" for part in loaded.parts) + ".")
            continue
        rows = {
            "paper": card.paper,
            "shape": card.shape,
            "examples": f"{sum(card.counts.values()):,}" if any(card.counts.values()) else "",
            "files": card.source,
            "license": card.license,
            "official scoring": card.official,
            "errata": card.errata,
        }
        lines = [f"| {key} | {_cell(value)} |" for key, value in rows.items() if value]
        parts.append("| card | |\n|---|---|\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Text on one line, as a table's cell: no markup, no column."""
    line = _sentence(text).replace("\\|", "|").replace("|", "\\|")
    return line.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


GENERATED = {
    "reference/cli.md": command_page,
    "reference/python.md": python_page,
    "reference/benchmarks.md": benchmark_page,
}
"""Reference pages and the functions that write them."""
