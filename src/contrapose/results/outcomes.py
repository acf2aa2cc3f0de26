"""One part of a benchmark and one score: asked, measured, or the reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from contrapose.data import Benchmark, EditSet, Gallery
from contrapose.results.debias import take_out_prior
from contrapose.results.evaluate import RESAMPLES
from contrapose.results.families import Question, measure
from contrapose.results.galleries import measure_edits, measure_gallery
from contrapose.results.schema import AlphaReport
from contrapose.results.selection import Chosen, Selection
from contrapose.results.suites import Part
from contrapose.results.tables import ScoreTable, answers_table, matrix_table
from contrapose.scoring import (
    Asking,
    Noise,
    ask_ahead,
    ask_edits,
    ask_examples,
    ask_gallery,
    ask_prior,
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
        device: where built-in models compute.
        batch_size: None takes each model's suggestion.
        cache: where answers are kept; None keeps them in memory alone.
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
    device: str = "cpu"
    batch_size: int | None = None
    cache: Path | None = None
    prior: Noise | None = None
    alpha: float | Literal["auto"] = "auto"
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One part's answers and what they say."""

    part: Part
    table: ScoreTable | None
    alpha: AlphaReport | None = None


def answers_ahead(asking: Asking, selection: Selection, score: str, names: Sequence[str]) -> None:
    """Ask about the examples of all parts together; the parts then find their answers."""
    data = [selection.parts[name][1] for name in names]
    examples = [example for each in data if isinstance(each, list) for example in each]
    for asked in ("lm", "prior") if score == DEBIASED else (score,):
        ask_ahead(asking, asked, examples)


def unfit_for(benchmark: Benchmark, data: Chosen, score: str, *, named: bool) -> str:
    """Why a part is not asked for a score; empty when it is."""
    if isinstance(data, EditSet) and score != "itc":
        return "edit queries need vectors, which only itc has"
    blind = score in ("prior", DEBIASED)
    if blind and (isinstance(data, Gallery) or benchmark.card.family not in CHOICES):
        return "there is no choice among a few captions"
    if isinstance(data, Gallery) and score != "itc" and not named:
        return "a gallery needs every image with every caption; name the subset to ask all the same"
    return ""


def outcome_of(
    asking: Asking, selection: Selection, name: str, score: str, request: EvalRequest
) -> Outcome:
    """Ask about one part, and measure it."""
    benchmark, data = selection.parts[name]
    card, prefix = benchmark.card, f"{name}/" if name else ""
    if isinstance(data, Gallery):
        matrix = ask_gallery(asking, score, data)
        measured = measure_gallery(matrix, data, card)
        return Outcome(Part(card, measured), matrix_table(matrix, data, prefix))
    if isinstance(data, EditSet):
        matrix = ask_edits(asking, score, data)
        measured = measure_edits(matrix, data, selection.root)
        return Outcome(Part(card, measured), matrix_table(matrix, data, prefix))
    answers = ask_examples(asking, "lm" if score == DEBIASED else score, data)
    table = answers_table(answers, prefix)
    question = Question(answers, card)
    if score != DEBIASED:
        return Outcome(Part(card, measure(question)), table)
    prior = ask_prior(asking, answers.frame)
    measured, alpha = take_out_prior(question, prior, alpha=request.alpha, seed=request.seed)
    return Outcome(Part(card, measured), table, alpha)
