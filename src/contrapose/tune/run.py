"""A whole repair: load, look, teach, save, look again, write the bill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.tune import checkpoint
from contrapose.tune.bill import Line, Measurer, bill
from contrapose.tune.distill import Distiller, load_teacher
from contrapose.tune.feed import Feed
from contrapose.tune.frozen import tune_heads
from contrapose.tune.guard import Guard
from contrapose.tune.loop import Told, Trained, fitted, train
from contrapose.tune.lora import add_lora, merge_lora
from contrapose.tune.losses.gather import processes
from contrapose.tune.material import material, unmeasured
from contrapose.tune.objective import Objective, parse_objective
from contrapose.tune.place import TRAINING, make_place, require_place, write_bill, write_model
from contrapose.tune.request import Progress, Request, Tuned
from contrapose.tune.settings import Settings
from contrapose.tune.students import Student, load_student
from contrapose.tune.taught import taught
from contrapose.tune.together import joined

__all__ = ["Request", "Tuned", "tune"]


def tune(request: Request, *, told: Told | None = None, progress: Progress | None = None) -> Tuned:
    """Tune a model, and say what it cost.

    Raises:
        InputError: something cannot be used; nothing is left half-written, and the last good
            checkpoint stays.
    """
    if request.for_heads:
        return tune_heads(request, told=told, progress=progress)
    objective = parse_objective(request.objective)
    if bool(objective.distill) != (request.teacher is not None):
        raise InputError("--with distill and --teacher MODEL go together.")
    if request.heads is not None:
        raise InputError("--tau, --epochs and --head are for --with heads.")
    require_place(request)
    with joined(request.device) as device:
        return _tune(request, objective, device, told, progress)


def _tune(
    request: Request,
    objective: Objective,
    device: str,
    told: Told | None,
    progress: Progress | None,
) -> Tuned:
    settings = request.settings
    student = load_student(request.model, device=device)
    objective = fitted(objective, student)
    if settings.lora is not None:
        torch.manual_seed(settings.seed)
        add_lora(student, settings)
    rows, panel = material(request, student.model, device, progress)
    measurer = Measurer(panel, told=progress, share=bool(objective.dividend))
    before = _lines(measurer, student.model, student)
    guard = None
    if request.guards or request.best:
        guard = Guard(measurer, student.model, before, request.guards, request.best)
    teacher = None
    if request.teacher is not None:
        feed = Feed(rows, student, settings, negatives=True, device=device)
        teacher = Distiller(
            load_teacher(request.teacher, device),
            feed,
            alpha=request.alpha,
            sharpness=request.sharpness,
            seed=settings.seed,
        )
    folder = request.out / TRAINING
    first = processes().rank == 0
    trained = train(
        student, rows, objective, settings,
        folder=folder, resume=request.resume, check=guard, teacher=teacher, device=device,
        told=told, begin=(lambda: make_place(request)) if first else None,
    )  # fmt: skip
    notes = _chosen(student, settings, folder, trained)
    if settings.lora is not None:
        merge_lora(student)
    if first:
        recipe = {"tuned_from": request.model, "with": request.objective, "steps": trained.step}
        write_model(request.out, lambda place: student.save(place, recipe))
    if processes().count > 1:
        dist.barrier()
    if not first:
        return Tuned(request.out, trained, None)
    saved = load_model(str(request.out), device=device, cut=True)
    after = _lines(measurer, saved, student)
    found = bill(
        before, after, model=request.model, objective=request.objective, source=panel.source,
        notes=(*trained.notes, *notes, *unmeasured(request)),
    )  # fmt: skip
    write_bill(request.out, found)
    return Tuned(request.out, trained, found)


def _lines(measurer: Measurer, model: Any, student: Student) -> Mapping[str, Line]:
    found = dict(measurer.measure(model))
    if student.matches:
        for name, line in measurer.measure(model, "itm").items():
            found[f"itm_{name}"] = Line(
                f"itm_{name}", line.values, line.better, line.clusters, line.spread, line.binary
            )
    return found


def _chosen(
    student: Student, settings: Settings, folder: Path, trained: Trained
) -> tuple[str, ...]:
    """Goes back to the weights that are to be kept; says so where they are not the last."""
    notes: list[str] = []
    file = trained.best
    if trained.stopped:
        notes.append(f"stopped early: {trained.stopped}")
        file = file or checkpoint.latest(folder / "checkpoints")
        if file is None:
            raise InputError(
                f"{trained.stopped}, and no checkpoint was within it: lower --lr or --save-every."
            )
    if file is not None:
        state = checkpoint.read_state(file, student.network)
        kind = "mean" if settings.ema else "weights"
        with torch.no_grad():
            for name, weight in taught(student, settings).items():
                weight.copy_(state.tensors[f"{kind}.{name}"])
        student.network.eval()
        if state.step != trained.step:
            notes.append(f"the model is that of step {state.step}")
    return tuple(notes)
