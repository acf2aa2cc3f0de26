"""`contrapose tune`: fine-tune a model and report what it cost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from contrapose.cli import options
from contrapose.cli.console import error_console, show_progress
from contrapose.cli.option_groups import IncludeOptions, WriteOptions, take_options
from contrapose.cli.options import HeadOption, words_option
from contrapose.cli.tune_heads import tune_heads

if TYPE_CHECKING:
    from contrapose.tune.trainer import LossCallback

STEP_LINE_SECONDS = 10.0
"""Seconds between plain lines."""


@contextmanager
def show_steps(*, quiet: bool) -> Iterator[LossCallback | None]:
    """Callback for training steps and losses: one updating line, or a plain line now and then."""
    screen = error_console()
    if quiet:
        yield None
        return
    last = time.monotonic()
    first: tuple[int, float] | None = None  # what came before the first step does not count

    def report(done: int, total: int, losses: Mapping[str, float]) -> None:
        nonlocal first, last
        now = time.monotonic()
        begun = first = first or (done, now)
        terms = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        left = (now - begun[1]) * (total - done) / max(1, done - begun[0])
        text = f"step {done:,} of {total:,}: {terms}"
        if begun[0] < done < total:
            text += f"; {left:.0f} s left"
        if screen.is_terminal:
            screen.print(f"{text:<{screen.width - 1}}", end="\n" if done == total else "\r")
        elif now - last >= STEP_LINE_SECONDS or done == total:
            last = now
            screen.print(text)

    yield report


class _TuneGroup(TyperGroup):
    """Command group that reads `tune MODEL …` as `tune model MODEL …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `model` where no subcommand is named: `tune -h` shows its options too."""
        if not args:
            args = ["-h"]
        if args[0] not in self.commands:
            args = ["model", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_TuneGroup,
    add_completion=False,
    help="Repair a model: `contrapose tune MODEL --data PAIRS --with hp+hn --out DIR`.",
)


class TowerOption(StrEnum):
    """Towers that can be frozen."""

    image = "image"
    text = "text"


class DtypeOption(StrEnum):
    """Compute dtypes."""

    fp32 = "fp32"
    bf16 = "bf16"


class WorldOption(StrEnum):
    """Built-in worlds to sample scenes from."""

    skewed = "skewed"
    balanced = "balanced"


@app.command("model")
@take_options
def tune(
    model: Annotated[
        str,
        typer.Argument(
            help="tiny, tiny-clip, or a CLIP, SigLIP or BLIP.",
            autocompletion=options.complete_models,
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Pairs: a .jsonl, .csv or .parquet file with image, caption, negatives and "
            "positives; COCO's captions; webdataset tars; scenes, which are made; for heads also "
            "a folder of cached .npy features."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder that the tuned model goes to.")],
    included: IncludeOptions,
    output: WriteOptions,
    objective: Annotated[
        str,
        typer.Option(
            "--with",
            help="Names of losses such as hn, hp, eqsim (docs/losses.md has all), joined by +, "
            "with weights as eqsim=0.2+hn and options as eqsim:margin=0.04; plain for none. Or "
            "heads: the model stays, a head a side is trained.",
        ),
    ] = "hp+hn",
    steps: Annotated[
        int | None, typer.Option(help="How many. Left out: 300; for heads by --epochs.")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Images a step, over all processes. Left out: 128; for heads 4096 captions."
        ),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Highest learning rate. Left out: what suits the model.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    freeze: Annotated[
        list[TowerOption] | None, typer.Option(help="A tower that stays as it is.")
    ] = None,
    lora: Annotated[
        int | None, typer.Option(metavar="RANK", help="Teach low-rank updates alone (needs peft).")
    ] = None,
    dtype: Annotated[
        DtypeOption, typer.Option(help="What is computed in; weights stay in float32.")
    ] = DtypeOption.fp32,
    accumulate: Annotated[
        int,
        typer.Option(help="Compute a batch in so many pieces; the contrast still sees all of it."),
    ] = 1,
    tau: Annotated[
        float | None, typer.Option(help="Of heads: the fixed temperature. Left out: 0.1.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Of heads: how often each caption is seen. Left out: 30.")
    ] = None,
    head: Annotated[
        HeadOption | None,
        typer.Option(help="Of heads: one linear map a side, or a hidden layer beside it."),
    ] = None,
    ema: Annotated[
        float | None, typer.Option(help="Keep a running mean of the weights, such as 0.999.")
    ] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=DROP",
            help="Stop when a metric of the bill has fallen by more, as image_to_text_r1=0.02.",
        ),
    ] = None,
    best: Annotated[
        str | None, typer.Option(help="Keep the checkpoint with the best value of this metric.")
    ] = None,
    save_every: Annotated[
        int, typer.Option(help="Steps between checkpoints; 0 for the end alone.")
    ] = 100,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")
    ] = False,
    images: Annotated[
        Path | None, typer.Option(help="Where paths of images start. Left out: beside --data.")
    ] = None,
    scenes: Annotated[int, typer.Option(help="How many are made, with --data scenes.")] = 4000,
    world: Annotated[
        WorldOption, typer.Option(help="Whose odds scenes have, with --data scenes.")
    ] = WorldOption.skewed,
    kinds: Annotated[
        str,
        typer.Option(
            help="Learn from changed captions of these kinds alone, as swap or "
            "replace-color,swap-relation. Left out: all that the data has."
        ),
    ] = "",
    held_out: Annotated[
        float, typer.Option(help="Share of your own pairs that is kept for the bill.")
    ] = 0.05,
    examples: Annotated[
        int,
        typer.Option("--limit", min=2, help="Examples of each part of the bill, of scenes."),
    ] = 100,
    zero_shot: Annotated[
        Path | None,
        typer.Option(help="A folder with a folder of images a class: a line of the bill."),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="A captioner whose likelihoods are taught, with distill.")
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="How much of the teacher's language prior is taken out.")
    ] = 1.0,
    sharpness: Annotated[
        float, typer.Option(help="How sure the teacher is of its choice; lower is softer.")
    ] = 10.0,
    device: options.Device = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Processes that make scenes' captions.")] = 1,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write event files for TensorBoard here: losses, learning rate, the bill.",
        ),
    ] = None,
) -> None:
    """Fine-tune a model on pairs; ends with what became better, what became worse, and what not."""
    from contrapose.api.tune import tune as tune_model
    from contrapose.report.tuning import bill_table

    quiet = (
        output.quiet or os.environ.get("RANK", "0") != "0"
    )  # of several processes the first speaks
    with show_progress(quiet=quiet) as progress, show_steps(quiet=quiet) as on_step:
        tuned = tune_model(
            model,
            data,
            out=out,
            losses=objective,
            steps=steps,
            batch_size=batch_size,
            lr=lr,
            seed=seed,
            freeze=[tower.value for tower in freeze or ()],
            lora=lora,
            dtype=dtype.value,
            accumulate=accumulate,
            tau=tau,
            epochs=epochs,
            head=None if head is None else head.value,
            ema=ema,
            guard=guard,
            best=best,
            save_every=save_every,
            resume=resume,
            images=images,
            scenes=scenes,
            world=world.value,
            kinds=words_option([kinds]),
            held_out=held_out,
            examples=examples,
            zero_shot=zero_shot,
            teacher=teacher,
            alpha=alpha,
            sharpness=sharpness,
            device=device,
            workers=workers,
            tensorboard=tensorboard,
            on_step=on_step,
            progress=progress,
            **output.arguments(),
        )
    if tuned.bill is None:
        return
    bill = tuned.bill
    output.show(lambda: json.dumps(bill.as_dict(), indent=2), lambda: bill_table(bill))
    if not quiet:
        error_console().print(f"Written to {out}: use it as a model by this name.")


app.command("heads")(tune_heads)
