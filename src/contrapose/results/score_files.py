"""Runs of score files: read the scores, join them with examples, measure and aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from contrapose import __version__
from contrapose.data import (
    Benchmark,
    EditSet,
    Example,
    Gallery,
    find_single_benchmark,
    is_user_file,
)
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.results.debias import remove_prior
from contrapose.results.measures import Measurements
from contrapose.results.schema import AlphaReport, Results
from contrapose.results.shapes import MatrixScores, MeasureInput, Protocol, find_shape, measure
from contrapose.results.summary import RESAMPLES, MeasuredPart, summarize_parts
from contrapose.results.tables import ScoreTable, answers_table
from contrapose.scores.answers import Answers, build_frame
from contrapose.scores.arrays import is_flat_array, read_matrix, read_submission
from contrapose.scores.files import LikelihoodScale, add_tags, read_prior, read_scores


@dataclass(frozen=True, slots=True)
class MetricsRequest:
    """Request of `contrapose metrics`; its options by the same names."""

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
    """Run: request, score table, measures and results.

    Attributes:
        request: what was asked.
        scores: the scores, a row a pair; None for galleries, whose matrix is the user's own file.
        measured: the outcome of every example.
        results: what is reported.
        spec: what else should be known of how it was made.
        replies: what was asked in words and what came back, a row a question; None otherwise.
        cases: the examples by their ids in `scores`, for the images and captions of a report;
            empty where they are not known.
    """

    request: Any
    scores: ScoreTable | None
    measured: Measurements
    results: Results
    spec: Mapping[str, Any] = field(default_factory=dict)
    replies: ScoreTable | None = None
    cases: Mapping[str, Example] = field(default_factory=dict)


def measure_score_file(request: MetricsRequest) -> Run:
    """Read a score file, measure it, and aggregate.

    Raises:
        InputError: something in the files or the options cannot be used.
    """
    benchmark = find_single_benchmark(request.benchmark)
    card = benchmark.card
    data = read_annotations(request, benchmark)
    answers, measured, alpha = measure_outcomes(request, benchmark, data)
    summary = summarize_parts(
        {"": MeasuredPart(card, measured)},
        request.by,
        resamples=request.resamples,
        seed=request.seed,
    )
    notes = summary.notes
    if measured.clusters is None:
        notes = (
            *notes,
            "intervals take examples as independent; --root DIR clusters them by image",
        )
    results = Results(
        contrapose=__version__,
        benchmark=card.name,
        scores=str(request.scores),
        protocol=request.protocol,
        aggregation=summary.aggregation,
        examples=len(measured),
        clusters=measured.cluster_count,
        resamples=request.resamples,
        seed=request.seed,
        metrics=summary.metrics,
        subsets=summary.subsets,
        alpha=alpha,
        notes=(*measured.notes, *notes),
    )
    table = None if answers is None else answers_table(answers)
    cases = {example.id: example for example in data} if isinstance(data, list) else {}
    return Run(request, table, measured, results, cases=cases)


def measure_outcomes(
    request: MetricsRequest,
    benchmark: Benchmark,
    data: list[Example] | Gallery | EditSet | None,
) -> tuple[Answers | None, Measurements, AlphaReport | None]:
    """Measure every example of a score file, before aggregation."""
    card = benchmark.card
    if isinstance(data, Gallery | EditSet):
        if request.prior is not None:
            raise InputError(f"{card.name} takes no --prior.")
        if isinstance(data, EditSet) and request.root is None:
            raise InputError(f"{card.name} needs --root DIR.")
        if isinstance(data, Gallery):
            shape, axes = (len(data.images), len(data.texts)), "images, texts"
        else:
            shape, axes = (len(data.queries), len(data.images)), "queries, database images"
        scores = MatrixScores(read_matrix(request.scores, shape, axes), data, root=request.root)
        return None, measure(MeasureInput(scores, card, request.protocol)), None
    frame = None if data is None else build_frame(data)
    if frame is not None and benchmark.submission is not None and is_flat_array(request.scores):
        places = benchmark.submission(request.root or Path(), StrictProblems())
        answers = read_submission(request.scores, places, frame, partial=request.partial)
    else:
        answers = read_scores(request.scores, card, frame, partial=request.partial)
    for name, path in request.tags:
        answers = add_tags(answers, path, name)
    question = MeasureInput(answers, card, request.protocol, request.threshold)
    if request.prior is None:
        return answers, measure(question), None
    prior = read_prior(request.prior, card, answers.frame)
    measured, alpha = remove_prior(
        question,
        prior,
        alpha=request.alpha,
        scores_as=request.likelihood_as,
        prior_as=request.prior_as,
        seed=request.seed,
    )
    return answers, measured, alpha


def read_annotations(
    request: MetricsRequest, benchmark: Benchmark
) -> list[Example] | Gallery | EditSet | None:
    """Read the benchmark's annotations; None without a folder to read them from."""
    card = benchmark.card
    own = Path(request.benchmark).parent if is_user_file(request.benchmark) else None
    root = request.root or own
    if root is None:
        if find_shape(card).of == "matrix":
            raise InputError(f"{card.name} needs its annotation files: pass --root DIR.")
        return None
    data = benchmark.read(root, StrictProblems())
    return data if isinstance(data, Gallery | EditSet) else list(data)
