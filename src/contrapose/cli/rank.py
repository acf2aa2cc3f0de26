"""`contrapose rank`: models in tiers of significance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, say_written, show_as
from contrapose.cli.options import Format, Quiet, Resamples, Seed, require_one_format

app = typer.Typer(add_completion=False)


@app.command()
def rank(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            help="Run folders or score files; of a folder all runs, or FOLDER@tiny,lm. NAME=RUN "
            "names the model.",
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(help="The benchmark, where the files do not tell: a name, or your own file."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder, for clusters by image.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Rank by this metric; may be repeated. The main one by default."),
    ] = None,
    common: Annotated[
        bool,
        typer.Option("--common", help="Rank on the benchmarks and examples that all models have."),
    ] = False,
    test: Annotated[
        Literal["midp", "exact"], typer.Option(help="Which of McNemar's tests for 0/1 outcomes.")
    ] = "midp",
    level: Annotated[
        float, typer.Option(help="Significance level, after Holm's correction.")
    ] = 0.05,
    protocol: Annotated[
        Literal["strict", "official"], typer.Option(help="As in metrics.")
    ] = "strict",
    threshold: Annotated[float | None, typer.Option(help="As in metrics.")] = None,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write: the ranking as JSON, a page, and diagrams as SVG."),
    ] = None,
    overwrite: options.Overwrite = False,
    form: Format = None,
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank models in tiers of significance, and tell which differences are noise."""
    from contrapose.api.rank import rank as rank_runs
    from contrapose.report.formats import ranking_rows
    from contrapose.report.ranking import ranking_tables

    require_one_format(as_json, form)
    ranking = rank_runs(
        *({name: run} if name else run for name, run in map(_split_name, runs)),
        on=on,
        root=root,
        metric=metric,
        common=common,
        test=test,
        level=level,
        protocol=protocol,
        threshold=threshold,
        resamples=resamples,
        seed=seed,
        out=out,
        overwrite=overwrite,
    )
    if as_json:
        echo_json(ranking.model_dump_json(indent=2))
    else:
        show_as(form, ranking_tables(ranking), lambda: ranking_rows(ranking))
    say_written(out, quiet=quiet)


def _split_name(word: str) -> tuple[str, str]:
    """Name and run of `NAME=RUN`; the name is empty for a path, even one that holds `=`."""
    name, equals, run = word.partition("=")
    if not equals or not name or not run or set("/@") & set(name) or Path(word).exists():
        return "", word
    return name, run
