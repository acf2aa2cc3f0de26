"""`contrapose list`: what there is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from contrapose.cli.console import console
from contrapose.data import Benchmark, Suite, benchmark_names, find_benchmark
from contrapose.report import card_lines, cards_table, show, suite_lines

app = typer.Typer(no_args_is_help=True, help="List what there is.")


@app.callback()
def _group() -> None:
    """Keeps `benchmarks` a word of its own while it is the only list."""


@app.command("benchmarks")
def benchmarks(
    name: Annotated[str | None, typer.Argument(help="Show this benchmark's whole card.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON.")] = False,
) -> None:
    """Benchmarks and their cards: paper, licence, counts, chance, files."""
    names = benchmark_names() if name is None else (name,)
    found = [find_benchmark(each) for each in names]
    if as_json:
        listed = {each: _as_json(one) for each, one in zip(names, found, strict=True)}
        typer.echo(json.dumps(listed, indent=2, default=sorted, ensure_ascii=False))
    elif name is None:
        show(
            console(),
            [
                cards_table(found),
                "contrapose list benchmarks NAME shows the whole card. Your own examples are a "
                "benchmark too: use the name of a .jsonl, .csv or .parquet file.",
            ],
        )
    elif isinstance(found[0], Suite):
        show(console(), suite_lines(found[0]))
    else:
        show(console(), card_lines(found[0].card))


def _as_json(found: Benchmark | Suite) -> dict[str, object]:
    if isinstance(found, Benchmark):
        return asdict(found.card)
    parts = {name: asdict(part.card) for name, part in found.parts.items()}
    return {"name": found.name, "title": found.title, "parts": parts}
