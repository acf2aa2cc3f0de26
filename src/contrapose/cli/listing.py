"""`contrapose list`: benchmarks, models and scores."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, output_console, show, show_as
from contrapose.cli.option_groups import FormatOptions, IncludeOptions, take_options
from contrapose.errors import install_command

app = typer.Typer(add_completion=False, no_args_is_help=True, help="List what there is.")

MODULES = {
    "torch": ("torch", "safetensors"),
    "hf": ("torch", "transformers"),
    "openclip": ("torch", "open_clip", "torchvision"),
    "st": ("torch", "transformers", "sentence_transformers"),
    "language": ("torch", "transformers", "gguf", "accelerate"),
}
"""Extra → what is imported of it; all of them must be there."""


@app.command("benchmarks")
@take_options
def benchmarks(
    output: FormatOptions,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this benchmark's whole card.", autocompletion=options.complete_benchmarks
        ),
    ] = None,
) -> None:
    """Benchmarks: shape, examples, chance, licence, download, errata; NAME shows one card."""
    from contrapose.api.catalog import benchmarks as benchmark_names
    from contrapose.api.catalog import load_benchmark
    from contrapose.data import Suite
    from contrapose.report.benchmarks import (
        benchmark_json,
        benchmarks_table,
        card_lines,
        suite_lines,
    )
    from contrapose.report.formats import table_rows

    names = benchmark_names() if name is None else (name,)
    chosen = [load_benchmark(one) for one in names]
    if output.as_json:
        listed = {key: benchmark_json(one) for key, one in zip(names, chosen, strict=True)}
        echo_json(json.dumps(listed, indent=2, default=sorted, ensure_ascii=False))
    elif name is None:
        tables = benchmarks_table(chosen)
        show_as(
            output.form,
            [
                *tables,
                "contrapose list benchmarks NAME shows the whole card. Your own examples are a "
                "benchmark too: use the name of a .jsonl, .csv or .parquet file.",
            ],
            lambda: table_rows(*(part for part in tables if not isinstance(part, str))),
        )
    elif isinstance(chosen[0], Suite):
        show(output_console(), suite_lines(chosen[0]))
    else:
        show(output_console(), card_lines(chosen[0]))


@app.command("models")
@take_options
def models(
    included: IncludeOptions,
    output: FormatOptions,
) -> None:
    """Families of models: how they are named, what they give, what they need."""
    from contrapose.api.catalog import models as list_families
    from contrapose.report.catalog import families_json, families_table
    from contrapose.report.formats import table_rows

    every = list_families()
    known = [family for family in every if family.scores or family.pattern != family.name]
    installed = {
        extra: all(find_spec(module) is not None for module in modules)
        for extra, modules in MODULES.items()
    }
    plugins = [family.name for family in every if family not in known]
    if output.as_json:
        echo_json(families_json(known, installed, plugins))
        return
    table = families_table(known, installed)
    missing = sorted({family.extra for family in known if not installed.get(family.extra, True)})
    show_as(
        output.form,
        [
            table,
            *(f"Not installed: the extra {extra}: {install_command(extra)}" for extra in missing),
            f"Plug-ins: {', '.join(plugins) or 'none'}.",
            "After a name may stand ,dtype=bf16,long=cut. contrapose check model NAME says whether "
            "a model does what it must; docs/adding-a-model.md how to add one.",
        ],
        lambda: table_rows(table),
    )


@app.command("scores")
@take_options
def scores(
    output: FormatOptions,
) -> None:
    """Scores: what each number is, which capability it needs, and which models have it."""
    from contrapose.api.catalog import models as list_families
    from contrapose.api.catalog import scores as list_scores
    from contrapose.engine import REQUIRED_CAPABILITY
    from contrapose.report.catalog import scores_json, scores_table
    from contrapose.report.formats import table_rows

    listed = [
        {
            "name": name,
            "meaning": meaning,
            "needs": REQUIRED_CAPABILITY[name].__name__,
            "families": [family.name for family in list_families() if name in family.scores],
        }
        for name, meaning in list_scores().items()
    ]
    if output.as_json:
        echo_json(scores_json(listed))
    else:
        table = scores_table(listed)
        show_as(
            output.form,
            [
                table,
                "lm-alpha is lm with the prior taken out (--prior noise:3): lm − α · prior.",
            ],
            lambda: table_rows(table),
        )
