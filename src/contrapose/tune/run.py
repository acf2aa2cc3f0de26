"""A tuning run from end to end: load, evaluate, train, save, evaluate again, compare."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from contrapose.errors import InputError, option
from contrapose.losses.gather import processes
from contrapose.models import load_model
from contrapose.models.joined import JoinedSpec, read_joined, save_joined
from contrapose.models.joined.model import require_dual_encoder
from contrapose.models.names import parse_name
from contrapose.models.options import find_device
from contrapose.models.registry import model_names
from contrapose.results.measures import Measurements
from contrapose.tune.datasets import (
    FEATURES_FOLDER,
    FeatureSource,
    load_datasets,
    load_feature_source,
    zero_shot_notes,
)
from contrapose.tune.distill import Distiller, load_teacher
from contrapose.tune.feed import Feed
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.training import HeadTrainer, fold_whitening
from contrapose.tune.heads.vectors import Heads, VectorPanel
from contrapose.tune.objective import Objective, parse_objective
from contrapose.tune.output import (
    TRAINING_FOLDER,
    TensorBoardWriter,
    TuneResult,
    finish_output,
    hold_output,
    panel_records,
    prepare_output,
    require_output,
    working_folder,
    write_bill,
    write_model,
)
from contrapose.tune.parameters import (
    add_lora,
    latest_checkpoint,
    merge_lora,
    process_group,
    read_state,
    select_trainable,
)
from contrapose.tune.report import Evaluator, Guard, make_bill
from contrapose.tune.settings import HeadSettings, ProgressCallback, Settings, TuneRequest
from contrapose.tune.students import Student, load_student
from contrapose.tune.trainer import (
    LossCallback,
    StepBuffer,
    TrainingResult,
    fit_objective,
    train,
)
from contrapose.tune.training_log import TrainingLog

GUARD_CHECKS = 20
"""How often heads are evaluated during training, under a guard."""
LOG_EVERY = 10
"""Steps between two times that the loss is said."""


def tune_heads(
    request: TuneRequest,
    *,
    on_step: LossCallback | None = None,
    progress: ProgressCallback | None = None,
) -> TuneResult:
    """Train heads on a model's own features, save both as one model, and compare.

    The training images and captions are encoded once; their vectors are cached in
    `training/features`, and reused as long as model and data are the same.

    Raises:
        InputError: something cannot be used; nothing is left half-written.
    """
    _refuse_options(request)
    require_output(request)
    events = TensorBoardWriter(request.tensorboard)
    with ExitStack() as held:
        return _tune_heads(request, on_step, progress, events, held)


def _tune_heads(
    request: TuneRequest,
    on_step: LossCallback | None,
    progress: ProgressCallback | None,
    events: TensorBoardWriter,
    held: ExitStack,
) -> TuneResult:
    if request.resume:
        held.enter_context(hold_output(request))
    device = find_device(request.device)
    model = require_dual_encoder(load_model(request.model, device=device, cut=True))
    source = load_feature_source(request, model, device, progress)
    evaluator = HeadEvaluator(source.panels, progress)
    before = evaluator.measure()
    guard = None
    settings = _head_settings(request, source)
    if request.guards or request.best:
        guard = Guard(evaluator, None, before, request.guards, request.best)
    work = working_folder(request)
    folder = work / TRAINING_FOLDER
    source.require()
    earlier = request.out / TRAINING_FOLDER
    _begin_output(request, held, (FEATURES_FOLDER,) if source.is_cached(earlier) else ())
    learnt = source.features(folder, progress)
    trained, heads, notes = _train_with_guard(
        learnt, settings, request, evaluator, guard, device, on_step, events
    )
    joining = source.joining
    write_model(work, lambda files: _save_joined_files(files, joining, heads))
    # The user named this code as the model; no folder did.
    trust = parse_name(request.model, model_names()).scheme == "python"
    after = evaluator.measure_saved(work, device, trust_remote_code=trust)
    bill = make_bill(
        before, after, model=request.model, objective="heads", source=source.source,
        notes=(*notes, *source.notes),
    )  # fmt: skip
    write_bill(work, bill)
    events.write_bill(trained.step, bill)
    finish_output(request, work, trained)
    records = [
        record
        for name, measured in ((request.model, before), (str(request.out), after))
        for record in panel_records(name, source.source, measured, {}, {})
    ]
    return TuneResult(request.out, trained, bill, tuple(records))


def _begin_output(request: TuneRequest, held: ExitStack, kept: Collection[str] = ()) -> None:
    """Prepare the output folder and hold it; one to resume is held already."""
    prepare_output(request, kept)
    if not request.resume:
        held.enter_context(hold_output(request))


def _refuse_options(request: TuneRequest) -> None:
    """Raise `InputError` for options that have no meaning with a frozen model."""
    settings, plain = request.settings, Settings()
    options = {
        "lora": settings.lora != plain.lora,
        "freeze": settings.freeze != plain.freeze,
        "accumulate": settings.pieces != plain.pieces,
        "ema": settings.ema != plain.ema,
        "dtype": settings.dtype != plain.dtype,
        "save_every": settings.save_every != plain.save_every,
        "teacher": request.teacher is not None,
    }
    wrong = [option(name) for name, given in options.items() if given]
    if wrong:
        raise InputError(
            f"{' and '.join(wrong)} cannot go with {option('losses', 'heads')}, which leaves the "
            "model as it is and learns from its vectors."
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            f"heads are trained in one process: run {option('losses', 'heads')} without torchrun."
        )


def _head_settings(request: TuneRequest, source: FeatureSource) -> HeadSettings:
    """Head settings of the request, in the model's own width."""
    settings = request.heads or HeadSettings(seed=request.settings.seed)
    return replace(settings, width=source.width, start=settings.start or "own")


def _train_with_guard(
    features: Features,
    settings: HeadSettings,
    request: TuneRequest,
    evaluator: HeadEvaluator,
    guard: Guard | None,
    device: str,
    on_step: LossCallback | None,
    events: TensorBoardWriter,
) -> tuple[TrainingResult, Heads, tuple[str, ...]]:
    """Train heads under the guard; returns the result, the chosen heads and notes."""
    training = HeadTrainer(features, settings, torch.device(device))
    log = TrainingLog(working_folder(request) / TRAINING_FOLDER / "log.jsonl")
    every = max(1, training.total // GUARD_CHECKS)
    good: tuple[int, Heads] | None = None
    best: tuple[int, Heads] | None = None
    trained = TrainingResult(0)
    buffer = StepBuffer(None if request.tensorboard is None else events.write_step)
    for loss in training.steps():
        trained.step = training.done
        buffer.add(training.done, {"contrast": loss}, training.optimizer.param_groups[0]["lr"])
        last = training.done == training.total
        if training.done % LOG_EVERY == 0 or last:
            trained.losses = {"contrast": float(loss)}
            buffer.flush()
            log.write({"step": training.done, **trained.losses})
            if on_step is not None:
                on_step(training.done, training.total, trained.losses)
        if guard is None or not (training.done % every == 0 or last):
            continue
        evaluator.heads = fold_whitening(training.heads, training.start)
        trained.stopped, found_best = guard(training.done)
        if trained.stopped:
            break
        good = training.done, evaluator.heads
        best = good if found_best else best
    buffer.flush()
    heads = training.trained().heads  # refuses a loss that is no number
    chosen = best or (good if trained.stopped else None)
    notes = [f"stopped early: {trained.stopped}"] if trained.stopped else []
    if trained.stopped and chosen is None:
        raise InputError(f"{trained.stopped}, and no heads were within it: lower {option('lr')}.")
    if chosen is not None:
        heads = dict(chosen[1])
        if chosen[0] != trained.step:
            notes.append(f"the heads are those of step {chosen[0]}")
    return trained, heads, tuple(notes)


def _save_joined_files(folder: Path, joining: JoinedSpec, heads: Heads) -> None:
    """Write the two files of a joined model into an existing folder."""
    save_joined(folder / "joined", joining, heads)
    for file in (folder / "joined").iterdir():
        file.replace(folder / file.name)
    (folder / "joined").rmdir()


class HeadEvaluator:
    """Evaluator of heads during training, on the model's own vectors.

    Attributes:
        heads: the current ones; none for the model itself.
    """

    def __init__(self, panels: Sequence[VectorPanel], progress: ProgressCallback | None):
        self.panels, self.progress = panels, progress
        self.heads: Heads = {}

    def measure(self, model: Any = None) -> dict[str, Measurements]:
        """Measure the current heads."""
        measured: dict[str, Measurements] = {}
        for panel in self.panels:
            measured |= panel.measure(self.heads)
        return measured

    def measure_saved(
        self, folder: Path, device: str, *, trust_remote_code: bool = False
    ) -> dict[str, Measurements]:
        """Measure the saved model."""
        saved = load_model(
            str(folder), device=device, cut=True, trust_remote_code=trust_remote_code
        )
        heads = read_joined(folder)[1]
        measured: dict[str, Measurements] = {}
        for panel in self.panels:
            if panel.panel is None:
                measured |= panel.measure(heads)
            else:
                measured |= Evaluator(panel.panel, progress=self.progress).measure(saved)
        return measured


__all__ = ["TuneRequest", "TuneResult", "tune"]


def tune(
    request: TuneRequest,
    *,
    on_step: LossCallback | None = None,
    progress: ProgressCallback | None = None,
) -> TuneResult:
    """Tune a model, and compare it before and after.

    Raises:
        InputError: something cannot be used; nothing is left half-written, and the last good
            checkpoint stays.
    """
    if request.for_heads:
        return tune_heads(request, on_step=on_step, progress=progress)
    objective = parse_objective(request.objective)
    if ("teacher" in objective.needs) != (request.teacher is not None):
        raise InputError(f"{option('losses', 'distill')} and {option('teacher')} go together.")
    if request.heads is not None:
        raise InputError(
            f"{option('tau')}, {option('epochs')} and {option('head')} are for "
            f"{option('losses', 'heads')}."
        )
    require_output(request)
    rank = int(os.environ.get("RANK", "0"))
    events = TensorBoardWriter(request.tensorboard if rank == 0 else None)
    with ExitStack() as held, process_group(request.device) as device:
        if request.resume and rank == 0:
            held.enter_context(hold_output(request))
        return _tune_model(request, objective, device, on_step, progress, events, held)


def _tune_model(
    request: TuneRequest,
    objective: Objective,
    device: str,
    on_step: LossCallback | None,
    progress: ProgressCallback | None,
    events: TensorBoardWriter,
    held: ExitStack,
) -> TuneResult:
    settings = request.settings
    student = load_student(request.model, device=device)
    objective = fit_objective(objective, student)
    if settings.lora is not None:
        torch.manual_seed(settings.seed)
        add_lora(student, settings)
    rows, panel = load_datasets(request, student.model, device, progress)
    evaluator = Evaluator(panel, progress=progress, interaction_share="masked" in objective.needs)
    before = evaluator.measure_all(student.model, matches=student.matches)
    tables = dict(evaluator.tables)
    guard = None
    if request.guards or request.best:
        guard = Guard(evaluator, student.model, before, request.guards, request.best)
    teacher = None
    if request.teacher is not None:
        feed = Feed(rows, student, settings, needs={"negative"}, device=device)
        teacher = Distiller(
            load_teacher(request.teacher, device),
            feed,
            alpha=request.alpha,
            sharpness=request.sharpness,
            seed=settings.seed,
        )
    work = working_folder(request)
    folder = work / TRAINING_FOLDER
    first = processes().rank == 0
    trained = train(
        student, rows, objective, settings,
        folder=folder, resume=request.resume, check=guard, teacher=teacher, device=device,
        on_step=on_step, scalars=None if events.folder is None else events.write_step,
        begin=(lambda: _begin_output(request, held)) if first else None,
    )  # fmt: skip
    notes = _load_chosen_weights(student, settings, folder, trained)
    if settings.lora is not None:
        merge_lora(student)
    if first:
        recipe = {"tuned_from": request.model, "with": request.objective, "steps": trained.step}
        write_model(work, lambda folder: student.save(folder, recipe))
    if processes().count > 1:
        dist.barrier()
    if not first:
        return TuneResult(request.out, trained, None)
    saved = load_model(str(work), device=device, cut=True)
    after = evaluator.measure_all(saved, matches=student.matches)
    bill = make_bill(
        before, after, model=request.model, objective=request.objective, source=panel.source,
        notes=(*trained.notes, *notes, *zero_shot_notes(request)),
    )  # fmt: skip
    write_bill(work, bill)
    events.write_bill(trained.step, bill)
    finish_output(request, work, trained)
    cases = evaluator.selection.units()
    records = [
        *panel_records(request.model, panel.source, before, tables, cases),
        *panel_records(str(request.out), panel.source, after, evaluator.tables, cases),
    ]
    return TuneResult(request.out, trained, bill, tuple(records))


def _load_chosen_weights(
    student: Student, settings: Settings, folder: Path, trained: TrainingResult
) -> tuple[str, ...]:
    """Load the chosen weights; returns notes where they are not the last."""
    notes: list[str] = []
    file = trained.best
    if trained.stopped:
        notes.append(f"stopped early: {trained.stopped}")
        file = file or latest_checkpoint(folder / "checkpoints")
        if file is None:
            raise InputError(
                f"{trained.stopped}, and no checkpoint was within it: lower {option('lr')} or "
                f"{option('save_every')}."
            )
    if file is not None:
        state = read_state(file, student.network)
        kind = "mean" if settings.ema else "weights"
        with torch.no_grad():
            for name, weight in select_trainable(student, settings).items():
                weight.copy_(state.tensors[f"{kind}.{name}"])
        student.network.eval()
        if state.step != trained.step:
            notes.append(f"the model is that of step {state.step}")
    return tuple(notes)
