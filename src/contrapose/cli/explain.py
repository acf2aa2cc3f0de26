"""`contrapose explain`: what each word and region of one pair adds to the score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.diagnose import PlayersOption, TaggerOption
from contrapose.cli.option_groups import (
    CacheOptions,
    ModelOptions,
    OutputOptions,
    take_options,
)
from contrapose.cli.options import Seed

app = typer.Typer(add_completion=False)


@app.command()
@take_options
def explain(
    model: Annotated[str, typer.Argument(help="The model to ask.")],
    image: Annotated[Path, typer.Option(help="A picture.")],
    text: Annotated[str, typer.Option(help="A caption.")],
    loading: ModelOptions,
    store: CacheOptions,
    output: OutputOptions,
    against: Annotated[
        str | None, typer.Option(help="Another caption, to compare with the first.")
    ] = None,
    players: Annotated[
        PlayersOption,
        typer.Option(help="Word groups; every word by itself; patches of the image."),
    ] = PlayersOption.groups,
    groups: Annotated[
        str | None,
        typer.Option(help='Word groups: "O=cat,mat;R=sits on", or a .jsonl file with the image.'),
    ] = None,
    regions: Annotated[
        str | None,
        typer.Option(
            help='Regions: "O1=X,Y,WIDTH,HEIGHT;O2=mask.png", or a .jsonl file whose id is the '
            "image's name."
        ),
    ] = None,
    superpixels: Annotated[
        int | None,
        typer.Option(
            help="Patches that the image is cut into, without --regions; 0 for none. Left out: 8."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What stands in place of what is hidden, as in diagnose. Left out: zero"),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="itc, itm, lm or vqa. Left out: the model's first.")
    ] = None,
    tagger: Annotated[
        TaggerOption, typer.Option(help="Parts of speech of captions that follow no template.")
    ] = TaggerOption.textblob,
    out: Annotated[Path | None, typer.Option(help="Write a page to this .html file.")] = None,
    seed: Seed = 0,
) -> None:
    """Say what each word group and region of one pair adds to a model's score."""
    from contrapose.api.explain import explain as explain_pair
    from contrapose.report.diagnosis import explanation_tables

    with output.show_progress() as progress:
        explained = explain_pair(
            model,
            image,
            text,
            against=against,
            players=players.value,
            groups=groups,
            regions=regions,
            superpixels=superpixels,
            baseline=baseline,
            score=score,
            tagger=tagger.value,
            out=out,
            seed=seed,
            progress=progress,
            **loading.arguments(),
            **store.arguments(),
        )
    output.show(
        lambda: explained.value.model_dump_json(indent=2),
        lambda: explanation_tables(explained.value),
    )
    output.say_written(out)
