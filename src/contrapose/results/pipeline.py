"""From what the user asked to a finished run: read, join, measure, add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from contrapose import __version__
from contrapose.data import Benchmark, Card, EditSet, Example, Gallery, is_own, one_benchmark
from contrapose.errors import InputError
from contrapose.files import Strict
from contrapose.results.debias import take_out_prior
from contrapose.results.evaluate import RESAMPLES, breakdown, headline
from contrapose.results.families import Protocol, Question, measure
from contrapose.results.galleries import measure_edits, measure_gallery
from contrapose.results.groups import aggregation_words
from contrapose.results.measured import Measured
from contrapose.results.schema import AlphaReport, MetricValue, Results
from contrapose.results.tables import ScoreTable, answers_table
from contrapose.scoring import (
    Answers,
    LikelihoodScale,
    frame_of,
    is_flat,
    read_prior,
    read_scores,
    read_submission,
    with_tags,
)


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked; the options of `contrapose metrics` by the same names."""

    benchmark: str
    scores: Path
    root: Path | None = None
    prior: Path | None = None
    alpha: float | Literal["auto"] = "auto"
    likelihood_as: LikelihoodScale = "log"
    prior_as: LikelihoodScale = "log"
    by: tuple[str, ...] = ()
    tags: tuple[tuple[str, Path], ...] = ()
    protocol: Protocol = "strict"
    threshold: float | None = None
    partial: bool = False
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished run: what was asked, what the scores are, what they say.

    Attributes:
        request: what was asked.
        scores: the scores, a row a pair; None for galleries, whose matrix is the user's own file.
        measured: the outcome of every example.
        results: what is reported.
        spec: what else should be known of how it was made.
        replies: what was asked in words and what came back, a row a question; None otherwise.
    """

    request: Any
    scores: ScoreTable | None
    measured: Measured
    results: Results
    spec: Mapping[str, Any] = field(default_factory=dict)
    replies: ScoreTable | None = None


def run(request: Request) -> Run:
    """Read the scores, measure, and add up.

    Raises:
        InputError: something in the files or the options cannot be used.
    """
    benchmark = one_benchmark(request.benchmark)
    card = benchmark.card
    answers, measured, alpha = measure_request(request, benchmark)
    metrics, subsets, notes = add_up(
        measured, card, request.by, resamples=request.resamples, seed=request.seed
    )
    clusters = measured.clusters
    if clusters is None:
        notes = (
            *notes,
            "intervals take examples as independent; --root DIR clusters them by image",
        )
    results = Results(
        contrapose=__version__,
        benchmark=card.name,
        scores=str(request.scores),
        protocol=request.protocol,
        aggregation=aggregation_words(card.aggregation),
        examples=len(measured),
        clusters=None if clusters is None else len(set(clusters.tolist())),
        resamples=request.resamples,
        seed=request.seed,
        metrics=metrics,
        subsets=subsets,
        alpha=alpha,
        notes=(*measured.notes, *notes),
    )
    table = None if answers is None else answers_table(answers)
    return Run(request, table, measured, results)


def add_up(
    measured: Measured, card: Card, by: Sequence[str] = (), *, resamples: int, seed: int
) -> tuple[dict[str, MetricValue], dict[str, dict[str, MetricValue]], tuple[str, ...]]:
    """The headline, the same of every part, and what a reader should know of them."""
    by = by or tuple(tag for tag in card.by if any(measured.tags.get(tag, ())))
    metrics, notes = headline(measured, card, resamples=resamples, seed=seed)
    subsets = breakdown(measured, card, by, resamples=resamples, seed=seed)
    return metrics, subsets, notes


def measure_request(
    request: Request, benchmark: Benchmark
) -> tuple[Answers | None, Measured, AlphaReport | None]:
    """The outcomes of every example, before anything is added up."""
    card = benchmark.card
    data = _data(request, benchmark)
    if isinstance(data, Gallery | EditSet):
        if request.prior is not None:
            raise InputError(f"{card.name} takes no --prior.")
        if isinstance(data, Gallery):
            return None, measure_gallery(request.scores, data, card), None
        if request.root is None:
            raise InputError(f"{card.name} needs --root DIR.")
        official = request.protocol == "official"
        return None, measure_edits(request.scores, data, request.root, official=official), None
    frame = None if data is None else frame_of(data)
    if frame is not None and benchmark.submission is not None and is_flat(request.scores):
        places = benchmark.submission(request.root or Path(), Strict())
        answers = read_submission(request.scores, places, frame, partial=request.partial)
    else:
        answers = read_scores(request.scores, card, frame, partial=request.partial)
    for name, path in request.tags:
        answers = with_tags(answers, path, name)
    question = Question(answers, card, request.protocol, request.threshold)
    if request.prior is None:
        return answers, measure(question), None
    prior = read_prior(request.prior, card, answers.frame)
    measured, alpha = take_out_prior(
        question,
        prior,
        alpha=request.alpha,
        scores_as=request.likelihood_as,
        prior_as=request.prior_as,
        seed=request.seed,
    )
    return answers, measured, alpha


def _data(request: Request, benchmark: Benchmark) -> list[Example] | Gallery | EditSet | None:
    """The benchmark's annotations, when there are any to read."""
    card = benchmark.card
    own = Path(request.benchmark).parent if is_own(request.benchmark) else None
    root = request.root or own
    if root is None:
        if card.family in ("retrieval", "classes", "edits"):
            raise InputError(f"{card.name} needs its annotation files: pass --root DIR.")
        return None
    data = benchmark.read(root, Strict())
    return data if isinstance(data, Gallery | EditSet) else list(data)
