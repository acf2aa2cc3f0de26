"""`contrapose list`: benchmarks, models and scores."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.util import find_spec
from typing import Annotated

import typer

from contrapose.cli.console import output_console
from contrapose.data import Benchmark, Suite, benchmark_names, find_benchmark
from contrapose.engine.score_types import REQUIRED_CAPABILITY, SCORES
from contrapose.files.plugins import include
from contrapose.models import model_names
from contrapose.models.registry import families
from contrapose.report import show
from contrapose.report.catalog import (
    card_lines,
    cards_table,
    families_json,
    families_table,
    scores_json,
    scores_table,
    suite_lines,
)

app = typer.Typer(no_args_is_help=True, help="List what there is.")

MODULES = {
    "torch": ("torch", "safetensors"),
    "hf": ("torch", "transformers"),
    "openclip": ("torch", "open_clip", "torchvision"),
    "language": ("torch", "transformers", "gguf", "accelerate"),
}
"""Extra → what is imported of it; all of them must be there."""


@app.command("benchmarks")
def benchmarks(
    name: Annotated[str | None, typer.Argument(help="Show this benchmark's whole card.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the cards as JSON.")] = False,
) -> None:
    """Benchmarks and their cards: paper, licence, counts, chance, files."""
    names = benchmark_names() if name is None else (name,)
    found = [find_benchmark(each) for each in names]
    if as_json:
        listed = {each: _card_json(one) for each, one in zip(names, found, strict=True)}
        typer.echo(json.dumps(listed, indent=2, default=sorted, ensure_ascii=False))
    elif name is None:
        show(
            output_console(),
            [
                cards_table(found),
                "contrapose list benchmarks NAME shows the whole card. Your own examples are a "
                "benchmark too: use the name of a .jsonl, .csv or .parquet file.",
            ],
        )
    elif isinstance(found[0], Suite):
        show(output_console(), suite_lines(found[0]))
    else:
        show(output_console(), card_lines(found[0].card))


@app.command("models")
def models(
    include_files: Annotated[
        list[str] | None,
        typer.Option("--include", help="A Python file that adds models; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the families as JSON.")] = False,
) -> None:
    """Families of models: how they are named, what they give, what they need."""
    for file in include_files or ():
        include(file)
    known = families()
    installed = {
        extra: all(find_spec(module) is not None for module in modules)
        for extra, modules in MODULES.items()
    }
    plugins = [name for name in model_names() if name not in {family.name for family in known}]
    if as_json:
        typer.echo(families_json(known, installed, plugins))
        return
    show(
        output_console(),
        [
            families_table(known, installed),
            f"Plug-ins: {', '.join(plugins) or 'none'}.",
            "After a name may stand ?dtype=bf16&long=cut. contrapose check model NAME says whether "
            "a model does what it must; docs/adding-a-model.md how to add one.",
        ],
    )


@app.command("scores")
def scores(
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Scores: what each number is, which capability it needs, and which models have it."""
    listed = [
        {
            "name": name,
            "meaning": meaning,
            "needs": REQUIRED_CAPABILITY[name].__name__,
            "families": [family.name for family in families() if name in family.scores],
        }
        for name, meaning in SCORES.items()
    ]
    if as_json:
        typer.echo(scores_json(listed))
    else:
        show(
            output_console(),
            [
                scores_table(listed),
                "lm-alpha is lm with the prior taken out (--prior noise:3): lm − α · prior.",
            ],
        )


def _card_json(found: Benchmark | Suite) -> dict[str, object]:
    if isinstance(found, Benchmark):
        return asdict(found.card)
    parts = {name: asdict(part.card) for name, part in found.parts.items()}
    return {"name": found.name, "title": found.title, "parts": parts}
