"""Tuning of a frozen model: one linear or MLP head per side, trained on its vectors."""

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
from contrapose.models.joined.model import project_vectors, require_dual_encoder
from contrapose.models.joined.spec import JoinedSpec, read_joined, save_joined
from contrapose.models.options import find_device
from contrapose.tune.datasets import FEATURES_FOLDER, FeatureSource, load_feature_source
from contrapose.tune.guard import Guard
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.training import HeadTrainer, fold_whitening
from contrapose.tune.output import (
    TRAINING_FOLDER,
    prepare_output,
    require_output,
    write_bill,
    write_model,
)
from contrapose.tune.report import Line, Measurer, make_bill
from contrapose.tune.report.measurement import measure_vectors
from contrapose.tune.report.panels import Trial
from contrapose.tune.request import ProgressCallback, TuneRequest, TuneResult
from contrapose.tune.settings import HeadSettings, Settings
from contrapose.tune.trainer import LossCallback, TrainingLog, TrainingResult

Heads = Mapping[str, Tensor]
GUARD_CHECKS = 20
"""How often the heads are looked at, with --guard or --best."""
LOG_EVERY = 10
"""Steps between two times that the loss is said."""


def tune_heads(
    request: TuneRequest,
    *,
    told: LossCallback | None = None,
    progress: ProgressCallback | None = None,
) -> TuneResult:
    """Train heads on a model's own features, save both as one model, and compare.

    The model is asked once for everything that is learnt from; its vectors are kept in
    `training/features`, and taken from there as long as model and data are the same.

    Raises:
        InputError: something cannot be used; nothing is left half-written.
    """
    _refuse_options(request)
    require_output(request)
    device = find_device(request.device)
    model = require_dual_encoder(load_model(request.model, device=device, cut=True))
    source = load_feature_source(request, model, device, progress)
    views = _HeadEvaluator(source, model, progress)
    before = views.before()
    guard = None
    settings = _head_settings(request, source)
    if request.guards or request.best:
        guard = Guard(views, None, before, request.guards, request.best)
    folder = request.out / TRAINING_FOLDER
    source.require()
    prepare_output(request, (FEATURES_FOLDER,) if source.kept(folder) else ())
    learnt = source.features(folder, progress)
    trained, heads, notes = _train_with_guard(learnt, settings, request, views, guard, device, told)
    joining = source.joining
    write_model(request.out, lambda place: _save_joined_files(place, joining, heads))
    after = views.after(str(request.out), device)
    found = make_bill(
        before, after, model=request.model, objective="heads", source=source.said,
        notes=(*notes, *source.notes),
    )  # fmt: skip
    write_bill(request.out, found)
    return TuneResult(request.out, trained, found)


def _refuse_options(request: TuneRequest) -> None:
    """Raise `InputError` for options that have no meaning with a frozen model."""
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


def _head_settings(request: TuneRequest, source: FeatureSource) -> HeadSettings:
    """Head settings of the request, in the model's own width."""
    asked = request.heads or HeadSettings(seed=request.settings.seed)
    return replace(asked, width=source.width, start=asked.start or "own")


def _train_with_guard(
    features: Features,
    settings: HeadSettings,
    request: TuneRequest,
    views: _HeadEvaluator,
    guard: Guard | None,
    device: str,
    told: LossCallback | None,
) -> tuple[TrainingResult, Heads, tuple[str, ...]]:
    """Train heads under the guard; returns the result, the chosen heads and notes."""
    training = HeadTrainer(features, settings, torch.device(device))
    journal = TrainingLog(request.out / TRAINING_FOLDER / "log.jsonl")
    every = max(1, training.total // GUARD_CHECKS)
    good: tuple[int, Heads] | None = None
    best: tuple[int, Heads] | None = None
    trained = TrainingResult(0)
    for loss in training.steps():
        trained.step = training.done
        last = training.done == training.total
        if training.done % LOG_EVERY == 0 or last:
            trained.losses = {"contrast": float(loss)}
            journal.say({"step": training.done, **trained.losses})
            if told is not None:
                told(training.done, training.total, trained.losses)
        if guard is None or not (training.done % every == 0 or last):
            continue
        views.heads = fold_whitening(training.heads, training.start)
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


def _save_joined_files(place: Path, joining: JoinedSpec, heads: Heads) -> None:
    """Write the two files of a joined model into an existing folder."""
    save_joined(place / "joined", joining, heads)
    for file in (place / "joined").iterdir():
        file.replace(place / file.name)
    (place / "joined").rmdir()


@dataclass(frozen=True, slots=True, eq=False)
class _TrialVectors:
    """Trials with the model's own vectors of their images and captions.

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
        return measure_vectors(
            self.tests,
            project_vectors(self.images, cpu, "image", "these vectors"),
            project_vectors(self.texts, cpu, "text", "these vectors"),
        )


class _HeadEvaluator:
    """Evaluator of heads during training, from cached vectors.

    Attributes:
        heads: those of the moment.
    """

    def __init__(self, source: FeatureSource, model: Any, progress: ProgressCallback | None):
        self.heads: Heads = {}
        self.all: list[_TrialVectors] = []
        if source.held is not None:
            self.all.append(_TrialVectors(*source.held, None))
        if source.panel is not None:
            measurer = Measurer(source.panel, told=progress)
            self.all.append(_TrialVectors(source.panel.tests, *measurer.vectors(model), measurer))

    def before(self) -> dict[str, Line]:
        """Metrics of the model itself."""
        found: dict[str, Line] = {}
        for view in self.all:
            found |= measure_vectors(view.tests, view.images, view.texts)
        return found

    def measure(self, model: Any) -> dict[str, Line]:
        """Metrics of the current heads."""
        found: dict[str, Line] = {}
        for view in self.all:
            found |= view.through(self.heads)
        return found

    def after(self, out: str, device: str) -> dict[str, Line]:
        """Metrics of the saved model."""
        saved = load_model(out, device=device, cut=True)
        heads = read_joined(Path(out))[1]
        found: dict[str, Line] = {}
        for view in self.all:
            found |= view.through(heads) if view.measurer is None else view.measurer.measure(saved)
        return found
