"""Tuning of a frozen model: one linear or MLP head per side, trained on its vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.joined.model import require_dual_encoder
from contrapose.models.joined.spec import JoinedSpec, read_joined, save_joined
from contrapose.models.options import find_device
from contrapose.results.measures import Measurements
from contrapose.tune.datasets import FEATURES_FOLDER, FeatureSource, load_feature_source
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.training import HeadTrainer, fold_whitening
from contrapose.tune.heads.vectors import Heads, VectorPanel
from contrapose.tune.output import (
    TRAINING_FOLDER,
    TuneResult,
    prepare_output,
    require_output,
    write_bill,
    write_model,
)
from contrapose.tune.report import Evaluator, Guard, make_bill
from contrapose.tune.settings import HeadSettings, ProgressCallback, Settings, TuneRequest
from contrapose.tune.trainer import LossCallback, TrainingLog, TrainingResult

GUARD_CHECKS = 20
"""How often the heads are looked at, with --guard or --best."""
LOG_EVERY = 10
"""Steps between two times that the loss is said."""


def tune_heads(
    request: TuneRequest,
    *,
    on_step: LossCallback | None = None,
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
    evaluator = HeadEvaluator(source.panels, progress)
    before = evaluator.measure()
    guard = None
    settings = _head_settings(request, source)
    if request.guards or request.best:
        guard = Guard(evaluator, None, before, request.guards, request.best)
    folder = request.out / TRAINING_FOLDER
    source.require()
    prepare_output(request, (FEATURES_FOLDER,) if source.kept(folder) else ())
    learnt = source.features(folder, progress)
    trained, heads, notes = _train_with_guard(
        learnt, settings, request, evaluator, guard, device, on_step
    )
    joining = source.joining
    write_model(request.out, lambda place: _save_joined_files(place, joining, heads))
    after = evaluator.measure_saved(request.out, device)
    bill = make_bill(
        before, after, model=request.model, objective="heads", source=source.source,
        notes=(*notes, *source.notes),
    )  # fmt: skip
    write_bill(request.out, bill)
    return TuneResult(request.out, trained, bill)


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
    evaluator: HeadEvaluator,
    guard: Guard | None,
    device: str,
    on_step: LossCallback | None,
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
        found: dict[str, Measurements] = {}
        for panel in self.panels:
            found |= panel.measure(self.heads)
        return found

    def measure_saved(self, folder: Path, device: str) -> dict[str, Measurements]:
        """Measure the saved model."""
        saved = load_model(str(folder), device=device, cut=True)
        heads = read_joined(folder)[1]
        found: dict[str, Measurements] = {}
        for panel in self.panels:
            if panel.panel is None:
                found |= panel.measure(heads)
            else:
                found |= Evaluator(panel.panel, progress=self.progress).measure(saved)
        return found
