"""A whole repair: load, look, teach, save, look again, write the bill."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from contrapose import __version__
from contrapose.errors import InputError
from contrapose.files import write_text
from contrapose.models import load_model
from contrapose.tune import checkpoint
from contrapose.tune.bill import Bill, Line, Measurer, Panel, bill
from contrapose.tune.bill.rows import rows_panel, split
from contrapose.tune.bill.scenes import scene_panel
from contrapose.tune.data.rows import Rows
from contrapose.tune.distill import Distiller, load_teacher
from contrapose.tune.feed import Feed
from contrapose.tune.guard import Guard
from contrapose.tune.loop import Told, Trained, train
from contrapose.tune.lora import add_lora, merge_lora
from contrapose.tune.losses.gather import processes
from contrapose.tune.objective import Objective, parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.students import Student, load_student
from contrapose.tune.taught import taught
from contrapose.tune.together import joined

TRAINING = "training"
"""The folder beside the model that holds the log, checkpoints and the bill."""
SCENES = "scenes"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked; the options of `contrapose tune` by the same names.

    Attributes:
        model: what is tuned.
        data: a file of pairs, or `scenes`.
        out: the folder that the model goes to.
        objective: what is minimised, as `hp+hn`.
        settings: how.
        images: the folder that paths of images start from.
        scenes: how many scenes are made to learn from.
        held_out: the share of one's own pairs that is kept for the bill.
        examples: of each part of the bill on scenes.
        guards: measures and how far they may fall.
        best: the measure by which the best checkpoint is known; without it the last is taken.
        teacher: a captioner, for `distill`.
        alpha: how much of the teacher's prior is taken out.
        resume: go on from the newest checkpoint in `out`.
        overwrite: let `out` take the place of an earlier run.
        device: where to compute.
        workers: processes that make captions of scenes.
    """

    model: str
    data: str
    out: Path
    objective: str = "plain"
    settings: Settings = field(default_factory=Settings)
    images: Path | None = None
    scenes: int = 4000
    held_out: float = 0.05
    examples: int = 100
    guards: Mapping[str, float] = field(default_factory=dict)
    best: str | None = None
    teacher: str | None = None
    alpha: float = 1.0
    resume: bool = False
    overwrite: bool = False
    device: str = "auto"
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of it.

    Attributes:
        out: the folder of the model, as `load_model` takes it.
        trained: how the training ended.
        bill: before and after; None in all processes but the first.
    """

    out: Path
    trained: Trained
    bill: Bill | None


def tune(request: Request, *, told: Told | None = None, progress: Progress | None = None) -> Tuned:
    """Tune a model, and say what it cost.

    Raises:
        InputError: something cannot be used; nothing is left half-written, and the last good
            checkpoint stays.
    """
    objective = parse_objective(request.objective)
    if bool(objective.distill) != (request.teacher is not None):
        raise InputError("--with distill and --teacher MODEL go together.")
    _require_place(request)
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
    if settings.lora is not None:
        torch.manual_seed(settings.seed)
        add_lora(student, settings)
    rows, panel = _data(request, student, device, progress)
    measurer = Measurer(panel, told=progress)
    before = _lines(measurer, student.model, student)
    guard = None
    if request.guards or request.best:
        guard = Guard(measurer, student.model, before, request.guards, request.best)
    teacher = None
    if request.teacher is not None:
        feed = Feed(rows, student, settings, negatives=True, device=device)
        teacher = Distiller(
            load_teacher(request.teacher, device), feed, alpha=request.alpha, seed=settings.seed
        )
    folder = request.out / TRAINING
    first = processes().rank == 0
    trained = train(
        student, rows, objective, settings,
        folder=folder, resume=request.resume, check=guard, teacher=teacher, device=device,
        told=told, begin=(lambda: _make_place(request, objective)) if first else None,
    )  # fmt: skip
    notes = _chosen(student, settings, folder, trained)
    if settings.lora is not None:
        merge_lora(student)
    if first:
        _save(student, request, trained)
    if processes().count > 1:
        dist.barrier()
    if not first:
        return Tuned(request.out, trained, None)
    saved = load_model(str(request.out), device=device, cut=True)
    after = _lines(measurer, saved, student)
    found = bill(
        before, after, model=request.model, objective=request.objective, source=panel.source,
        notes=notes,
    )  # fmt: skip
    write_text(folder / "bill.json", json.dumps(found.as_dict(), indent=2) + "\n")
    return Tuned(request.out, trained, found)


def _data(
    request: Request, student: Student, device: str, progress: Progress | None
) -> tuple[Rows, Panel]:
    """What is learnt from, and what the model is measured by."""
    if request.data == SCENES:
        from contrapose.tune.data.scenes import scene_rows

        rows = scene_rows(
            request.scenes, request.settings.seed, device=device, workers=request.workers,
            progress=progress,
        )  # fmt: skip
        return rows, scene_panel(request.examples, device=device)
    from contrapose.tune.data.files import read_rows

    if not 0 < request.held_out < 1:
        raise InputError(f"--held-out is a share between 0 and 1, not {request.held_out}.")
    rows = read_rows(Path(request.data), request.images)
    learnt, held = split(rows, request.held_out, request.settings.seed)
    if not len(held.sayings):
        raise InputError(f"{request.data} has one image: at least two are needed.")
    return learnt, rows_panel(held, student.model, f"{len(held)} images held out of {request.data}")


def _lines(measurer: Measurer, model: Any, student: Student) -> dict[str, Line]:
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


def _require_place(request: Request) -> None:
    out, there = request.out, (request.out / TRAINING).is_dir()
    if request.resume:
        if not there:
            raise InputError("holds no run to resume: leave out --resume.", file=out)
        return
    if out.exists() and not out.is_dir():
        raise InputError("is there already and is not a folder; choose another --out.", file=out)
    if out.is_dir() and any(out.iterdir()) and not (request.overwrite and there):
        what = "pass --resume to go on, or --overwrite" if there else "choose another --out"
        raise InputError(f"is not empty: {what}.", file=out)


def _make_place(request: Request, objective: Objective) -> None:
    folder = request.out / TRAINING
    try:
        if not request.resume and request.out.is_dir():
            shutil.rmtree(request.out)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "request.json", json.dumps(_asked(request, objective), indent=2) + "\n")
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", file=request.out) from None


def _asked(request: Request, objective: Objective) -> dict[str, Any]:
    return {
        "contrapose": __version__,
        "model": request.model,
        "data": request.data,
        "scenes": request.scenes if request.data == SCENES else None,
        "objective": objective.as_dict(),
        "settings": request.settings.as_dict(),
        "teacher": request.teacher,
        "guards": dict(request.guards),
        "best": request.best,
    }


def _save(student: Student, request: Request, trained: Trained) -> None:
    """The model's files, each moved to its place when all are whole."""
    recipe = {"tuned_from": request.model, "with": request.objective, "steps": trained.step}
    try:
        with tempfile.TemporaryDirectory(prefix=".model-", dir=request.out) as name:
            student.save(Path(name), recipe)
            for file in sorted(Path(name).iterdir()):
                file.replace(request.out / file.name)
    except OSError as error:
        raise InputError(
            f"the model cannot be written ({error.strerror or error}); its checkpoints are whole: "
            "make room and pass --resume.",
            file=request.out,
        ) from None
