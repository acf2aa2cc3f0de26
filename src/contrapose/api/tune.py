"""`tune`: fine-tune a model, and report what became better and what became worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose.errors import InputError, option
from contrapose.files import local_path

if TYPE_CHECKING:
    from contrapose.api.inputs import PathLike, Words
    from contrapose.engine import Progress
    from contrapose.models import Model
    from contrapose.tune.output import TuneResult
    from contrapose.tune.settings import HeadSettings
    from contrapose.tune.trainer import LossCallback

HEADS = "heads"
TOWERS = ("image", "text")


def tune(
    model: str | Path | Model,
    data: PathLike,
    *,
    out: PathLike,
    losses: str | Iterable[str] = "hp+hn",
    steps: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    seed: int = 0,
    freeze: Words = None,
    lora: int | None = None,
    dtype: Literal["fp32", "bf16"] = "fp32",
    accumulate: int = 1,
    tau: float | None = None,
    epochs: int | None = None,
    head: Literal["linear", "mlp"] | None = None,
    ema: float | None = None,
    guard: Mapping[str, float] | Words = None,
    best: str | None = None,
    save_every: int = 100,
    resume: bool = False,
    images: PathLike | None = None,
    scenes: int = 4000,
    world: Literal["skewed", "balanced"] = "skewed",
    kinds: Words = None,
    held_out: float = 0.05,
    examples: int = 100,
    zero_shot: PathLike | None = None,
    teacher: str | None = None,
    alpha: float = 1.0,
    sharpness: float = 10.0,
    device: str = "auto",
    workers: int = 1,
    overwrite: bool = False,
    tensorboard: PathLike | None = None,
    on_step: LossCallback | None = None,
    progress: Progress | None = None,
) -> TuneResult:
    """Fine-tune a model on pairs; ends with what became better, what became worse, and what not.

    Args:
        model: `tiny`, `tiny-clip`, or a CLIP, SigLIP or BLIP, by name. A loaded model is loaded
            anew by its name.
        data: a `.jsonl`, `.csv` or `.parquet` file with image, caption, negatives and positives;
            COCO's captions; webdataset tars; `scenes`, which are generated; for heads also a folder
            of cached features.
        out: the folder that the tuned model goes to.
        losses: `plain`, `hn`, `hp`, `hp-even`, `infonce-hn`, `eqsim`, `eqsim-paper`,
            `eqsim-released`, `dividend`, `itm`, `lm` and `distill`, joined by `+` or in a list,
            with weights as `eqsim=0.2+hn` and options as `eqsim:margin=0.04`; or `heads`, which
            leaves the model as it is and trains a map for each side.
        steps: of training; None is 300, and of heads goes by `epochs`.
        batch_size: images a step, over all processes; None is 128, and of heads 4096 captions.
        lr: highest learning rate; None takes what suits the model.
        seed: of everything random.
        freeze: `image` or `text`, a tower that stays as it is.
        lora: rank of low-rank updates, where those alone are trained (needs peft).
        dtype: compute dtype; weights stay in float32.
        accumulate: micro-batches of a step; the contrast still sees the whole batch.
        tau: of heads: the fixed temperature; None is 0.1.
        epochs: of heads: how often each caption is seen; None is 30.
        head: of heads: `linear`, or `mlp` with a hidden layer beside it.
        ema: decay of a running mean of the weights, such as 0.999.
        guard: metrics of the report and how far they may fall, as `image_to_text_r1=0.02`.
        best: keep the checkpoint with the best value of this metric.
        save_every: steps between checkpoints; 0 for the end alone.
        resume: go on from the newest checkpoint in `out`.
        images: where paths of images start; None is beside the data.
        scenes: how many are generated, with `data="scenes"`.
        world: whose odds those scenes have.
        kinds: learn from changed captions of these kinds alone, as `swap`.
        held_out: share of your own pairs that is kept for the report.
        examples: of each part of the report, with `data="scenes"`.
        zero_shot: a folder with a folder of images for each class, for a line of the report.
        teacher: a captioner whose likelihoods are taught, with `distill`.
        alpha: how much of the teacher's language prior is taken out.
        sharpness: how sure the teacher is of its choice; lower is softer.
        device: where to compute.
        workers: processes that make captions of scenes.
        overwrite: let `out` take the place of an earlier run.
        tensorboard: a folder for TensorBoard's event files: losses and learning rate of every step,
            and at the end the report's metrics before (step 0) and after (needs tensorboard).
        on_step: called after each step with its number, the number of steps, and the losses.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The folder `out`, how the training ended, and the comparison of before and after.

    Raises:
        InputError: something cannot be used; the last good checkpoint stays.

    Example:
        >>> import contrapose as cp
        >>> tuned = cp.tune("tiny-clip", data="scenes", losses="hn+hp", out="tuned", steps=2,
        ...     batch_size=8, scenes=40, examples=4, device="cpu")
        >>> tuned.trained.step
        2
    """
    from contrapose.api.inputs import list_words, one_path, require_at_least, require_choice
    from contrapose.models.hf import require_torch

    name = str(model) if isinstance(model, str | Path) else model.name
    require_torch(name)
    from contrapose.tune.report import parse_guards
    from contrapose.tune.run import tune as run_tune
    from contrapose.tune.settings import Settings, TuneRequest

    require_at_least(2, examples=examples)
    require_at_least(1, workers=workers)
    objective = losses if isinstance(losses, str) else "+".join(losses)
    for_heads = objective.strip().lower() == HEADS
    plain = Settings()
    settings = Settings(
        steps=plain.steps if steps is None or for_heads else steps,
        batch=plain.batch if batch_size is None or for_heads else batch_size,
        rate=lr,
        seed=seed,
        freeze=tuple(
            require_choice("freeze", tower, ("image", "text")) for tower in list_words(freeze)
        ),
        lora=lora,
        dtype=require_choice("dtype", dtype, ("fp32", "bf16")),
        pieces=accumulate,
        ema=ema,
        save_every=save_every,
    )
    shared = {"steps": steps, "batch_size": batch_size, "lr": lr, "seed": seed} if for_heads else {}
    request = TuneRequest(
        model=name,
        data=str(data),
        out=local_path(out),
        objective=objective,
        settings=settings,
        heads=_head_settings(
            {"tau": tau, "epochs": epochs, "kind": require_choice("head", head, ("linear", "mlp"))},
            shared,
        ),
        images=one_path(images),
        kinds=list_words(kinds),
        scenes=scenes,
        world=require_choice("world", world, ("skewed", "balanced")),
        held_out=held_out,
        examples=examples,
        zero_shot=one_path(zero_shot),
        guards=dict(guard) if isinstance(guard, Mapping) else parse_guards(list_words(guard)),
        best=best,
        teacher=teacher,
        alpha=alpha,
        sharpness=sharpness,
        resume=resume,
        overwrite=overwrite,
        device=device,
        workers=workers,
        tensorboard=one_path(tensorboard),
    )
    result = run_tune(request, on_step=on_step, progress=progress)
    if result.bill is not None:
        from contrapose.report.tuning import build_tuning_page
        from contrapose.tune.output import TRAINING_FOLDER

        page = build_tuning_page(result.bill, result.records)
        page.write(result.out / TRAINING_FOLDER / "report.html")
    return result


def _head_settings(of_heads: Mapping[str, Any], shared: Mapping[str, Any]) -> HeadSettings | None:
    """Settings of heads, if any of their options is given.

    Raises:
        InputError: both `steps` and `epochs`.
    """
    from contrapose.tune.settings import HeadSettings

    given = {name: value for name, value in {**of_heads, **shared}.items() if value is not None}
    if {"steps", "epochs"} <= set(given):
        raise InputError(
            f"{option('steps')} and {option('epochs')} say the same of heads: pass one of them."
        )
    return HeadSettings(**given) if given else None
