"""`contrapose tune`: repair a model, and see what it cost."""

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

from contrapose.cli.console import console, errors
from contrapose.cli.progress import progress
from contrapose.report import show

if TYPE_CHECKING:
    from contrapose.tune.loop import Told

EVERY = 10.0
"""Seconds between plain lines."""


class _Verbs(TyperGroup):
    """`contrapose tune MODEL …` is `contrapose tune model MODEL …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the word in where no verb is named."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["model", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    help="Repair a model: `contrapose tune MODEL --data PAIRS --with hp+hn --out DIR`.",
)


class TowerOption(StrEnum):
    """What stays as it is."""

    image = "image"
    text = "text"


class DtypeOption(StrEnum):
    """What is computed in."""

    fp32 = "fp32"
    bf16 = "bf16"


@app.command("model")
def tune(
    model: Annotated[str, typer.Argument(help="tiny, tiny-clip, or a CLIP, SigLIP or BLIP.")],
    data: Annotated[
        str,
        typer.Option(
            help="Pairs: a .jsonl, .csv or .parquet file with image, caption, negatives and "
            "positives; COCO's captions; webdataset tars; or scenes, which are made."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder that the tuned model goes to.")],
    objective: Annotated[
        str,
        typer.Option(
            "--with",
            help="plain, hn, hp, eqsim, eqsim-paper, eqsim-released, itm, lm, distill; joined by "
            "+, with weights as eqsim=0.2+hn.",
        ),
    ] = "hp+hn",
    steps: Annotated[int, typer.Option(help="How many.")] = 300,
    batch_size: Annotated[int, typer.Option(help="Images a step, over all processes.")] = 128,
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
    ema: Annotated[
        float | None, typer.Option(help="Keep a running mean of the weights, such as 0.999.")
    ] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=DROP",
            help="Stop when a measure of the bill has fallen by more, as image_to_text_r1=0.02.",
        ),
    ] = None,
    best: Annotated[
        str | None, typer.Option(help="Keep the checkpoint with the best value of this measure.")
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
    held_out: Annotated[
        float, typer.Option(help="Share of your own pairs that is kept for the bill.")
    ] = 0.05,
    examples: Annotated[
        int, typer.Option(min=2, help="Of each part of the bill, with --data scenes.")
    ] = 100,
    teacher: Annotated[
        str | None, typer.Option(help="A captioner whose likelihoods are taught, with distill.")
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="How much of the teacher's language prior is taken out.")
    ] = 1.0,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, …; auto takes cuda where there is some.")
    ] = "auto",
    workers: Annotated[int, typer.Option(min=1, help="Processes that make scenes' captions.")] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --out take the place of an earlier run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the bill as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fine-tune a model on pairs; ends with what became better, what became worse, and what not."""
    _require_torch(model)
    from contrapose.report.bill import bill_table
    from contrapose.tune.guard import parse_guards
    from contrapose.tune.run import Request, tune
    from contrapose.tune.settings import Settings

    settings = Settings(
        steps=steps,
        batch=batch_size,
        rate=lr,
        seed=seed,
        freeze=tuple(each.value for each in dict.fromkeys(freeze or ())),
        lora=lora,
        dtype=dtype.value,
        pieces=accumulate,
        ema=ema,
        save_every=save_every,
    )
    request = Request(
        model=model,
        data=data,
        out=out,
        objective=objective,
        settings=settings,
        images=images,
        scenes=scenes,
        held_out=held_out,
        examples=examples,
        guards=parse_guards(guard or ()),
        best=best,
        teacher=teacher,
        alpha=alpha,
        resume=resume,
        overwrite=overwrite,
        device=device,
        workers=workers,
    )
    quiet = quiet or os.environ.get("RANK", "0") != "0"  # of several processes the first speaks
    with progress(quiet=quiet) as making, _steps(quiet=quiet) as told:
        tuned = tune(request, told=told, progress=making)
    if tuned.bill is None:
        return
    if as_json:
        typer.echo(json.dumps(tuned.bill.as_dict(), indent=2))
    else:
        show(console(), bill_table(tuned.bill))
    if not quiet:
        errors().print(f"Written to {out}: use it as a model by this name.")


@contextmanager
def _steps(*, quiet: bool) -> Iterator[Told | None]:
    """A function to be told steps and losses: a line in its place, or one now and then."""
    screen = errors()
    if quiet:
        yield None
        return
    start = last = time.monotonic()

    def told(done: int, total: int, losses: Mapping[str, float]) -> None:
        nonlocal last
        now = time.monotonic()
        terms = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        left = (now - start) * (total - done) / done
        text = f"step {done:,} of {total:,}: {terms}; {left:.0f} s left"
        if screen.is_terminal:
            screen.print(f"{text:<{screen.width - 1}}", end="\n" if done == total else "\r")
        elif now - last >= EVERY or done == total:
            last = now
            screen.print(text)

    yield told


def _require_torch(model: str) -> None:
    from contrapose.models.hf import require_torch

    require_torch(model)
