"""A repair that leaves the model as it is: one map a side, learnt on its vectors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.joined.model import mapped
from contrapose.models.joined.spec import Joining, read_joined, save_joined
from contrapose.models.joined.whole import require_whole
from contrapose.models.options import find_device
from contrapose.tune.bill import Line, Measurer, bill
from contrapose.tune.bill.measure import lines_of_vectors
from contrapose.tune.bill.panel import Trial
from contrapose.tune.guard import Guard
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.settings import HeadSettings
from contrapose.tune.heads.training import Training, fold
from contrapose.tune.journal import Journal
from contrapose.tune.loop import Told, Trained
from contrapose.tune.place import TRAINING, make_place, require_place, write_bill, write_model
from contrapose.tune.request import Progress, Request, Tuned
from contrapose.tune.settings import Settings
from contrapose.tune.vectors import FEATURES, Source, source_of

Heads = Mapping[str, Tensor]
CHECKS = 20
"""How often the heads are looked at, with --guard or --best."""
TOLD = 10
"""Steps between two times that the loss is said."""


def tune_heads(
    request: Request, *, told: Told | None = None, progress: Progress | None = None
) -> Tuned:
    """Learn heads on a model's own vectors, write both as one model, and say what it cost.

    The model is asked once for everything that is learnt from; its vectors are kept in
    `training/features`, and taken from there as long as model and data are the same.

    Raises:
        InputError: something cannot be used; nothing is left half-written.
    """
    _refuse(request)
    require_place(request)
    device = find_device(request.device)
    model = require_whole(load_model(request.model, device=device, cut=True))
    source = source_of(request, model, device, progress)
    views = _Views(source, model, progress)
    before = views.before()
    guard = None
    settings = _settings(request, source)
    if request.guards or request.best:
        guard = Guard(views, None, before, request.guards, request.best)
    folder = request.out / TRAINING
    source.require()
    make_place(request, (FEATURES,) if source.kept(folder) else ())
    learnt = source.features(folder, progress)
    trained, heads, notes = _learnt(learnt, settings, request, views, guard, device, told)
    joining = source.joining
    write_model(request.out, lambda place: _save(place, joining, heads))
    after = views.after(str(request.out), device)
    found = bill(
        before, after, model=request.model, objective="heads", source=source.said,
        notes=(*notes, *source.notes),
    )  # fmt: skip
    write_bill(request.out, found)
    return Tuned(request.out, trained, found)


def _refuse(request: Request) -> None:
    """Options that mean nothing where the model stays as it is."""
    asked, plain = request.settings, Settings()
    options = {
        "--lora": asked.lora != plain.lora,
        "--freeze": asked.freeze != plain.freeze,
        "--accumulate": asked.pieces != plain.pieces,
        "--ema": asked.ema != plain.ema,
        "--dtype": asked.dtype != plain.dtype,
        "--save-every": asked.save_every != plain.save_every,
        "--teacher": request.teacher is not None,
    }
    wrong = [name for name, given in options.items() if given]
    if wrong:
        raise InputError(
            f"{' and '.join(wrong)} cannot go with --with heads, which leaves the model as it is "
            "and learns from its vectors."
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("heads are learnt in one process: run --with heads without torchrun.")


def _settings(request: Request, source: Source) -> HeadSettings:
    """As asked, in the model's own width."""
    asked = request.heads or HeadSettings(seed=request.settings.seed)
    return replace(asked, width=source.width, start=asked.start or "own")


def _learnt(
    features: Features,
    settings: HeadSettings,
    request: Request,
    views: _Views,
    guard: Guard | None,
    device: str,
    told: Told | None,
) -> tuple[Trained, Heads, tuple[str, ...]]:
    """How training ended, the heads that are kept, and what is to be said of them."""
    training = Training(features, settings, torch.device(device))
    journal = Journal(request.out / TRAINING / "log.jsonl")
    every = max(1, training.total // CHECKS)
    good: tuple[int, Heads] | None = None
    best: tuple[int, Heads] | None = None
    trained = Trained(0)
    for loss in training.steps():
        trained.step = training.done
        last = training.done == training.total
        if training.done % TOLD == 0 or last:
            trained.losses = {"contrast": float(loss)}
            journal.say({"step": training.done, **trained.losses})
            if told is not None:
                told(training.done, training.total, trained.losses)
        if guard is None or not (training.done % every == 0 or last):
            continue
        views.heads = fold(training.heads, training.start)
        trained.stopped, found_best = guard(training.done)
        if trained.stopped:
            break
        good = training.done, views.heads
        best = good if found_best else best
    heads = training.trained().heads  # refuses a loss that is no number
    kept = best or (good if trained.stopped else None)
    notes = [f"stopped early: {trained.stopped}"] if trained.stopped else []
    if trained.stopped and kept is None:
        raise InputError(f"{trained.stopped}, and no heads were within it: lower --lr.")
    if kept is not None:
        heads = dict(kept[1])
        if kept[0] != trained.step:
            notes.append(f"the heads are those of step {kept[0]}")
    return trained, heads, tuple(notes)


def _save(place: Path, joining: Joining, heads: Heads) -> None:
    """The two files of a joined model, in a folder that is there."""
    save_joined(place / "joined", joining, heads)
    for file in (place / "joined").iterdir():
        file.replace(place / file.name)
    (place / "joined").rmdir()


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """Tests and the model's own vectors of what they show.

    Attributes:
        tests: what is asked.
        images: (n, d) the model's vectors.
        texts: (m, d) those of captions.
        measurer: asks a model the same; None where there are vectors alone.
    """

    tests: list[Trial]
    images: Tensor
    texts: Tensor
    measurer: Measurer | None

    def through(self, heads: Heads) -> dict[str, Line]:
        cpu = {name: head.detach().cpu().float() for name, head in heads.items()}
        return lines_of_vectors(
            self.tests,
            mapped(self.images, cpu, "image", "these vectors"),
            mapped(self.texts, cpu, "text", "these vectors"),
        )


class _Views:
    """Everything that is measured; heads that are being learnt need no model for it.

    Attributes:
        heads: those of the moment.
    """

    def __init__(self, source: Source, model: Any, progress: Progress | None):
        self.heads: Heads = {}
        self.all: list[_View] = []
        if source.held is not None:
            self.all.append(_View(*source.held, None))
        if source.panel is not None:
            measurer = Measurer(source.panel, told=progress)
            self.all.append(_View(source.panel.tests, *measurer.vectors(model), measurer))

    def before(self) -> dict[str, Line]:
        """By the model itself."""
        found: dict[str, Line] = {}
        for view in self.all:
            found |= lines_of_vectors(view.tests, view.images, view.texts)
        return found

    def measure(self, model: Any) -> dict[str, Line]:
        """By the heads of the moment."""
        found: dict[str, Line] = {}
        for view in self.all:
            found |= view.through(self.heads)
        return found

    def after(self, out: str, device: str) -> dict[str, Line]:
        """By the model as it was written."""
        saved = load_model(out, device=device, cut=True)
        heads = read_joined(Path(out))[1]
        found: dict[str, Line] = {}
        for view in self.all:
            found |= view.through(heads) if view.measurer is None else view.measurer.measure(saved)
        return found
