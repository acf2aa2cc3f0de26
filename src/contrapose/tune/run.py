"""A tuning run from end to end: load, evaluate, train, save, evaluate again, compare."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist

from contrapose.errors import InputError, option
from contrapose.losses.gather import processes
from contrapose.models import load_model
from contrapose.tune import checkpoint
from contrapose.tune.datasets import load_datasets, zero_shot_notes
from contrapose.tune.distill import Distiller, load_teacher
from contrapose.tune.feed import Feed
from contrapose.tune.objective import Objective, parse_objective
from contrapose.tune.output import (
    TRAINING_FOLDER,
    TuneResult,
    finish_output,
    prepare_output,
    require_output,
    working_folder,
    write_bill,
    write_model,
)
from contrapose.tune.parameters import add_lora, merge_lora, process_group, select_trainable
from contrapose.tune.report import Evaluator, Guard, make_bill
from contrapose.tune.settings import ProgressCallback, Settings, TuneRequest
from contrapose.tune.students import Student, load_student
from contrapose.tune.train_heads import tune_heads
from contrapose.tune.trainer import LossCallback, TrainingResult, fit_objective, train

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
    with process_group(request.device) as device:
        return _tune_model(request, objective, device, on_step, progress)


def _tune_model(
    request: TuneRequest,
    objective: Objective,
    device: str,
    on_step: LossCallback | None,
    progress: ProgressCallback | None,
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
        on_step=on_step, begin=(lambda: prepare_output(request)) if first else None,
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
    finish_output(request, work, trained)
    return TuneResult(request.out, trained, bill)


def _load_chosen_weights(
    student: Student, settings: Settings, folder: Path, trained: TrainingResult
) -> tuple[str, ...]:
    """Load the chosen weights; returns notes where they are not the last."""
    notes: list[str] = []
    file = trained.best
    if trained.stopped:
        notes.append(f"stopped early: {trained.stopped}")
        file = file or checkpoint.latest_checkpoint(folder / "checkpoints")
        if file is None:
            raise InputError(
                f"{trained.stopped}, and no checkpoint was within it: lower {option('lr')} or "
                f"{option('save_every')}."
            )
    if file is not None:
        state = checkpoint.read_state(file, student.network)
        kind = "mean" if settings.ema else "weights"
        with torch.no_grad():
            for name, weight in select_trainable(student, settings).items():
                weight.copy_(state.tensors[f"{kind}.{name}"])
        student.network.eval()
        if state.step != trained.step:
            notes.append(f"the model is that of step {state.step}")
    return tuple(notes)
