"""`contrapose list`: what there is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from contrapose.cli.console import console
from contrapose.data import benchmark_names, find_benchmark
from contrapose.report import card_lines, cards_table, show

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
    cards = [find_benchmark(each).card for each in names]
    if as_json:
        listed = {card.name: asdict(card) for card in cards}
        typer.echo(json.dumps(listed, indent=2, default=sorted, ensure_ascii=False))
    elif name is None:
        show(
            console(),
            [
                cards_table(cards),
                "contrapose list benchmarks NAME shows the whole card. Your own examples are a "
                "benchmark too: use the name of a .jsonl, .csv or .parquet file.",
            ],
        )
    else:
        show(console(), card_lines(cards[0]))
