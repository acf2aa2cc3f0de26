"""One part of a benchmark and one score: asked, measured, or the reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from contrapose.data import Benchmark, EditSet, Gallery
from contrapose.models import Model
from contrapose.results.debias import take_out_prior
from contrapose.results.evaluate import RESAMPLES
from contrapose.results.families import Question, measure
from contrapose.results.galleries import measure_edits, measure_gallery
from contrapose.results.measured import Measured
from contrapose.results.schema import AlphaReport
from contrapose.results.selection import Chosen, Selection
from contrapose.results.skipping import NothingLeftError, Skipping, seen_edits, seen_gallery
from contrapose.results.suites import Part
from contrapose.results.tables import ScoreTable, answers_table, grid_table
from contrapose.scoring import (
    Answers,
    Asking,
    Noise,
    Policy,
    Skip,
    ask_ahead,
    ask_edits,
    ask_examples,
    ask_gallery,
    ask_prior,
    pools,
)

DEBIASED = "lm-alpha"
"""The name of `lm` with the prior taken out of choices among captions."""

CHOICES = ("choice", "pairs", "triple", "foil")
"""Families in which captions are chosen among, so that a prior has something to decide."""


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What the user asked; the options of `contrapose eval` by the same names.

    Attributes:
        benchmarks: names as `find_benchmark` knows them.
        scores: none means all that a model can do.
        root: the benchmark's folder, or one that holds a folder of each benchmark's name.
        subsets: parts of a suite or values of the tag `subset`; none means all.
        limit: at most so many examples of each subset.
        device: where models compute; `auto` takes CUDA where there is some.
        dtype: what they compute in; None is as the model's name says.
        batch_size: None begins with each model's suggestion, and finds what memory allows.
        workers: threads that decode images; None takes one a core.
        cache: where answers are kept, a folder or a URL; None keeps them in memory alone.
        ask: what to do with what the cache knows.
        strict: refuse to skip anything.
        long: skip captions that are longer than a model reads, or cut them.
        rerank: how many of each query of a gallery `itm` and `lm` are asked, 0 for all; None
            decides by its size.
        trust_remote_code: run code that comes with a model's weights.
        prior: also report `lm` with this prior taken out, as `lm-alpha`.
        alpha: how much of it.
        resamples: of the bootstrap.
        seed: of everything random.
    """

    benchmarks: tuple[str, ...]
    scores: tuple[str, ...] = ()
    root: Path | None = None
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    device: str = "auto"
    dtype: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    cache: Path | str | None = None
    ask: Policy = "missing"
    strict: bool = False
    long: Literal["skip", "cut"] = "skip"
    rerank: int | None = None
    trust_remote_code: bool = False
    prior: Noise | None = None
    alpha: float | Literal["auto"] = "auto"
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One part's answers and what they say.

    Attributes:
        part: what was measured.
        table: the scores, pair by pair; None when they are too many.
        alpha: what the prior's share decides.
        skipped: what could not be asked, and is left out.
        rerank: how many of each query of a gallery were asked; 0 when it was all.
    """

    part: Part
    table: ScoreTable | None
    alpha: AlphaReport | None = None
    skipped: Skipping = field(default_factory=dict)
    rerank: int = 0


def answers_ahead(asking: Asking, selection: Selection, score: str, names: Sequence[str]) -> None:
    """Ask about the examples of all parts together; the parts then find their answers."""
    if len(names) < 2:
        return
    data = [selection.parts[name][1] for name in names]
    examples = [example for each in data if isinstance(each, list) for example in each]
    for asked in ("lm", "prior") if score == DEBIASED else (score,):
        ask_ahead(asking, asked, examples)


def unfit_for(benchmark: Benchmark, data: Chosen, model: Model, score: str, *, named: bool) -> str:
    """Why a part is not asked for a score; empty when it is."""
    if isinstance(data, EditSet) and score != "itc":
        return "edit queries need vectors, which only itc has"
    if isinstance(data, EditSet) and pools(model):
        return f"edit queries add one vector an image, and {model.name} gives several"
    blind = score in ("prior", DEBIASED)
    if blind and (isinstance(data, Gallery) or benchmark.card.family not in CHOICES):
        return "there is no choice among a few captions"
    if isinstance(data, Gallery) and score != "itc" and not named:
        return "a gallery needs every image with every caption; name the subset to ask all the same"
    return ""


def outcome_of(
    asking: Asking, selection: Selection, name: str, score: str, request: EvalRequest
) -> Outcome:
    """Ask about one part, and measure what could be asked.

    Raises:
        NothingLeftError: nothing could.
    """
    benchmark, data = selection.parts[name]
    card, prefix = benchmark.card, f"{name}/" if name else ""
    if isinstance(data, Gallery):
        grid = ask_gallery(asking, score, data, rerank=request.rerank)
        table = grid_table(grid, data, prefix)
        data, seen, skipped = seen_gallery(data, grid)
        measured = measure_gallery(seen.scores, data, card, from_text=seen.from_text)
        part = Part(card, _noted(measured, grid.notes))
        return Outcome(part, table, skipped=skipped, rerank=grid.rerank)
    if isinstance(data, EditSet):
        grid = ask_edits(asking, score, data)
        table = grid_table(grid, data, prefix)
        data, seen, skipped = seen_edits(data, grid)
        measured = measure_edits(seen.scores, data, selection.root)
        return Outcome(Part(card, _noted(measured, grid.notes)), table, skipped=skipped)
    answers = ask_examples(asking, "lm" if score == DEBIASED else score, data)
    kept = _left(answers, card.name)
    if score != DEBIASED:
        table = answers_table(kept, prefix)
        return Outcome(Part(card, measure(Question(kept, card))), table, skipped=answers.skipped)
    prior = ask_prior(asking, kept.frame)
    blank = np.isnan(prior) & kept.frame.present.any(axis=1)
    if blank.any():  # captions that the model reads under an image, and not under noise
        unread = Skip("the caption has no prior", "the model gives a caption no prior")
        more = {kept.frame.ids[k]: unread for k in np.flatnonzero(blank.any(axis=1)).tolist()}
        answers = replace(answers, skipped={**answers.skipped, **more})
        kept, prior = _left(answers, card.name), prior[~blank.any(axis=1)]
    measured, alpha = take_out_prior(
        Question(kept, card), prior, alpha=request.alpha, seed=request.seed
    )
    table = answers_table(kept, prefix)
    return Outcome(Part(card, measured), table, alpha, answers.skipped)


def _left(answers: Answers, name: str) -> Answers:
    """The answers to the examples that could be asked."""
    kept = answers.answered()
    if not len(kept.frame):
        raise NothingLeftError(name, answers.skipped)
    return kept


def _noted(measured: Measured, notes: tuple[str, ...]) -> Measured:
    return replace(measured, notes=(*measured.notes, *notes))
