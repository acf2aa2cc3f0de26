"""`contrapose tune heads`: align two frozen encoders from cached features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import error_console
from contrapose.cli.option_groups import WriteOptions, take_options
from contrapose.cli.options import HeadOption
from contrapose.errors import InputError


@take_options
def tune_heads(
    features: Annotated[
        Path,
        typer.Option(
            help="A folder with train_images.npy, train_texts.npy and train_image_of_text.npy, and "
            "the same for test, on which is measured."
        ),
    ],
    output: WriteOptions,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write: heads a temperature, and results.")
    ] = None,
    tau: Annotated[str, typer.Option(help="Temperatures, each fixed: A,B,…")] = "0.1,0.05,0.01",
    scale: Annotated[
        str, typer.Option("--lambda", help="Scales of the deltas to measure: A,B,…; or none.")
    ] = "0.5,1,1.5,2",
    head: Annotated[
        HeadOption, typer.Option(help="One linear map a side, or a hidden layer beside it.")
    ] = HeadOption.linear,
    width: Annotated[int, typer.Option(help="Numbers in the common space.")] = 512,
    epochs: Annotated[int, typer.Option(help="How often each caption is seen.")] = 30,
    batch_size: Annotated[int, typer.Option(help="Captions a step.")] = 4096,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-3,
    drop: Annotated[
        float, typer.Option(help="Share of the features that each step leaves out.")
    ] = 0.2,
    weight_decay: Annotated[float, typer.Option(help="Of AdamW.")] = 0.0,
    hold_out: Annotated[
        float,
        typer.Option(help="Share of the images to keep aside, to choose the best epoch by."),
    ] = 0.0,
    image_encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder that made the image features, ORG/NAME or a folder: written to "
            "joined.json. Left out: as a joined.json in --features says."
        ),
    ] = None,
    text_encoder: Annotated[
        str | None, typer.Option(help="The sentence encoder, likewise.")
    ] = None,
    device: options.Device = "auto",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help="An .svg file to write: R@10 of the deltas by λ, a curve for each τ."),
    ] = None,
) -> None:
    """Train heads on cached features at each temperature, and measure retrieval and deltas."""
    from contrapose.api.tune_heads import tune_heads as sweep_heads
    from contrapose.report.tuning import heads_tables

    with output.show_progress() as progress:
        sweep = sweep_heads(
            features,
            out=out,
            tau=_parse_numbers(tau, "--tau"),
            scales=() if scale == "none" else _parse_numbers(scale, "--lambda"),
            head=head.value,
            width=width,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            drop=drop,
            weight_decay=weight_decay,
            hold_out=hold_out,
            image_encoder=image_encoder,
            text_encoder=text_encoder,
            device=device,
            seed=seed,
            plot=plot,
            progress=progress,
            **output.arguments(),
        )
    output.show(lambda: json.dumps(sweep.as_dict(), indent=2), lambda: heads_tables(sweep))
    if out is None or output.quiet:
        return
    names = ", ".join(f"joined:{out / run.folder}" for run in sweep.runs)
    if sweep.joining is None:
        error_console().print(
            f"Written to {out}, without joined.json: name the encoders with --image-encoder and "
            "--text-encoder to load them as a model."
        )
    else:
        error_console().print(f"Written to {out}: use them as {names}.")


def _parse_numbers(text: str, option: str) -> tuple[float, ...]:
    """Parse numbers separated by commas.

    Raises:
        InputError: one of them is not a number.
    """
    try:
        numbers = tuple(float(word) for word in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers:
        raise InputError(f"{option} must be numbers separated by commas, found {text!r}.")
    return numbers
