"""Runs of score files: read the scores, join them with examples, measure and aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from contrapose import __version__
from contrapose.data import (
    Benchmark,
    Card,
    ComposedSet,
    EditSet,
    Example,
    Gallery,
    find_single_benchmark,
    is_user_file,
)
from contrapose.data.example_columns import ExampleColumns, ExampleMap
from contrapose.data.examples import query_examples
from contrapose.errors import InputError, option
from contrapose.files import StrictProblems
from contrapose.metrics import LikelihoodScale
from contrapose.results.debias import remove_prior
from contrapose.results.environment import capture_environment
from contrapose.results.log_measures import measure_log, read_benchmark_log
from contrapose.results.measures import Measurements
from contrapose.results.schema import AlphaReport, MetricValue, Results
from contrapose.results.shapes import MatrixScores, MeasureInput, Protocol, find_shape, measure
from contrapose.results.summary import (
    RESAMPLES,
    MeasuredPart,
    headline,
    official_notes,
    summarize_parts,
)
from contrapose.results.tables import RunRecord, answers_table
from contrapose.scores import (
    Answers,
    add_tags,
    build_frame,
    is_flat_array,
    read_matrix,
    read_prior,
    read_scores,
    read_submission,
)
from contrapose.scores.logs import read_group_answers
from contrapose.scores.memory import (
    describe_scores,
    read_memory_matrix,
    read_memory_prior,
    read_memory_scores,
)
from contrapose.scores.outcomes import ChoiceOutcomes, read_outcomes
from contrapose.scores.rankings import ComposedRankings, rank_matrix, read_rankings


@dataclass(frozen=True, slots=True)
class MetricsRequest:
    """Options of measuring given scores; see `contrapose.api.measure`."""

    benchmark: str
    scores: Path | Any
    root: Path | None = None
    prior: Path | Any = None
    alpha: float | Literal["auto"] = "auto"
    likelihood_as: LikelihoodScale = "log"
    prior_as: LikelihoodScale = "log"
    by: tuple[str, ...] = ()
    tags: tuple[tuple[str, Path], ...] = ()
    protocol: Protocol = "strict"
    threshold: float | None = None
    dev_scores: Path | Any = None
    partial: bool = False
    resamples: int = RESAMPLES
    seed: int = 0


def measure_score_file(request: MetricsRequest, benchmark: Benchmark | None = None) -> RunRecord:
    """Read a score file, or take scores in memory, measure them, and aggregate.

    Args:
        request: the options.
        benchmark: the benchmark itself; None finds it by the request's name.

    Raises:
        InputError: something in the files or the options cannot be used.
    """
    benchmark = benchmark or find_single_benchmark(request.benchmark)
    card = benchmark.card
    data = read_annotations(request, benchmark)
    answers, measured, alpha = measure_outcomes(request, benchmark, data)
    strict: dict[str, MetricValue] = {}
    if request.protocol == "official":
        _, other, _ = measure_outcomes(replace(request, protocol="strict"), benchmark, data)
        strict = headline(
            {"": MeasuredPart(card, other)}, resamples=request.resamples, seed=request.seed
        )
    request = replace(
        request,
        scores=_source(request.scores),
        prior=_source(request.prior),
        dev_scores=_source(request.dev_scores),
    )
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
            f"intervals take examples as independent; {option('root', 'DIR')} clusters them by "
            "image",
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
        strict=strict,
        subsets=summary.subsets,
        alpha=alpha,
        notes=(*official_notes(request.protocol, [card]), *measured.notes, *notes),
    )
    table = None if answers is None else answers_table(answers)
    cases: Mapping[str, Example] = {}
    if isinstance(data, ExampleColumns):
        cases = ExampleMap(data)
    elif isinstance(data, list):
        cases = {example.id: example for example in data}
    if isinstance(data, Gallery | EditSet | ComposedSet):
        cases = query_examples(data)
    spec = {"made": capture_environment()}
    return RunRecord(request, table, measured, results, spec, cases=cases)


def _source(given: Any) -> Any:
    """Scores as results name them: the file, or what was given in words."""
    return given if given is None or isinstance(given, Path) else describe_scores(given)


def measure_outcomes(
    request: MetricsRequest,
    benchmark: Benchmark,
    data: Sequence[Example] | Gallery | EditSet | ComposedSet | None,
) -> tuple[Answers | None, Measurements, AlphaReport | None]:
    """Measure every example of a score file, before aggregation."""
    card, scores = benchmark.card, request.scores
    if request.dev_scores is not None and card.family != "judgement":
        raise InputError(f"{card.name} takes no {option('dev_scores')}: it needs no threshold.")
    if isinstance(data, Gallery | EditSet | ComposedSet):
        given = _read_galleries(request, benchmark, data)
        return None, measure(MeasureInput(given, card, request.protocol)), None
    if card.scores == "naturalbench" and isinstance(scores, Path):
        scores = read_group_answers(scores) or scores
    log = read_benchmark_log(scores, card, partial=request.partial)
    if log is not None and log.pairs is None:
        _refuse_options(request, "a log of outcomes", official=True)
        return None, measure_log(log), None
    if log is not None:
        scores = log.pairs
    outcomes = read_outcomes(scores, card, partial=request.partial)
    if outcomes is not None:
        return None, _measure_choices(outcomes, request, benchmark), None
    frame = None if data is None else build_frame(data)
    if not isinstance(scores, Path):
        answers = read_memory_scores(scores, card, frame, partial=request.partial)
    elif frame is not None and benchmark.submission is not None and is_flat_array(scores):
        pairs = benchmark.submission(request.root or Path(), StrictProblems())
        answers = read_submission(scores, pairs, frame, partial=request.partial)
    else:
        answers = read_scores(scores, card, frame, partial=request.partial)
    for name, path in request.tags:
        answers = add_tags(answers, path, name)
    dev = None if request.dev_scores is None else _read_dev_scores(request, card, answers)
    question = MeasureInput(answers, card, request.protocol, request.threshold, dev=dev)
    if request.prior is None:
        return answers, measure(question), None
    prior = request.prior
    prior = (
        read_prior(prior, card, answers.frame)
        if isinstance(prior, Path)
        else read_memory_prior(prior, answers.frame)
    )
    measured, alpha = remove_prior(
        question,
        prior,
        alpha=request.alpha,
        scores_as=request.likelihood_as,
        prior_as=request.prior_as,
        seed=request.seed,
    )
    return answers, measured, alpha


def _read_galleries(
    request: MetricsRequest, benchmark: Benchmark, data: Gallery | EditSet | ComposedSet
) -> MatrixScores | ComposedRankings:
    """Read the matrix of a gallery or of edit queries, or the rankings of composed queries."""
    card, scores = benchmark.card, request.scores
    if request.prior is not None:
        raise InputError(f"{card.name} takes no {option('prior')}.")
    if isinstance(data, ComposedSet):
        return _read_rankings(request, data)
    if isinstance(data, EditSet) and request.root is None and not benchmark.generated:
        raise InputError(f"{card.name} needs {option('root', 'DIR')}.")
    if isinstance(data, Gallery):
        shape, axes = (len(data.images), len(data.texts)), "images, texts"
    else:
        shape, axes = (len(data.queries), len(data.images)), "queries, database images"
    matrix = (
        read_matrix(scores, shape, axes)
        if isinstance(scores, Path)
        else read_memory_matrix(scores, shape)
    )
    return MatrixScores(matrix, data)


def _read_dev_scores(request: MetricsRequest, card: Card, answers: Answers) -> Answers:
    """Read scores and labels of the pairs that the best threshold is chosen on.

    Raises:
        InputError: they are the scores that are measured, or of pairs without labels.
    """
    given = request.dev_scores
    dev = (
        read_scores(given, card, None, partial=True)
        if isinstance(given, Path)
        else read_memory_scores(given, card, None, partial=True)
    )
    if np.array_equal(dev.scores, answers.scores):
        raise InputError(
            f"{option('dev_scores')} are the scores to be measured: a threshold must be chosen on "
            "other pairs."
        )
    return dev


def _measure_choices(
    outcomes: ChoiceOutcomes, request: MetricsRequest, benchmark: Benchmark
) -> Measurements:
    """Measure outcomes, which have no scores to take a prior from and no ids to tag."""
    _refuse_options(request, "a table of outcomes")
    return measure(MeasureInput(outcomes, benchmark.card, request.protocol))


def _refuse_options(request: MetricsRequest, source: str, *, official: bool = False) -> None:
    """Refuse the options that need scores, of which there are only outcomes."""
    asked = {
        "prior": request.prior is not None,
        "tags": bool(request.tags),
        "protocol": official and request.protocol == "official",
    }
    for name, given in asked.items():
        if given:
            raise InputError(f"{source} takes no {option(name)}.")


def _read_rankings(request: MetricsRequest, data: ComposedSet) -> ComposedRankings:
    """Rankings of a submission file or folder, or by a matrix of queries × images."""
    scores, shape = request.scores, (len(data.queries), len(data.images))
    if not isinstance(scores, Path):
        return rank_matrix(read_memory_matrix(scores, shape), data)
    if scores.suffix.lower() == ".npy":
        return rank_matrix(read_matrix(scores, shape, "queries, images"), data)
    return read_rankings(scores, data, partial=request.partial)


def read_annotations(
    request: MetricsRequest, benchmark: Benchmark
) -> list[Example] | ExampleColumns | Gallery | EditSet | ComposedSet | None:
    """Read the benchmark's annotations; None without a folder to read them from."""
    card = benchmark.card
    beside = Path(request.benchmark).parent if is_user_file(request.benchmark) else None
    root = request.root or beside
    if root is None and not benchmark.generated:
        if find_shape(card).of != "matrix":
            return None
        root = _find_fetched(card.name, benchmark)
    data = benchmark.read(root or Path(), StrictProblems())
    if isinstance(data, Gallery | EditSet | ComposedSet | ExampleColumns):
        return data
    return list(data)


def _find_fetched(name: str, benchmark: Benchmark) -> Path:
    """Folder of the annotations in the cache.

    Raises:
        InputError: they are not there.
    """
    from contrapose.data.cached_data import data_source
    from contrapose.data.fetch import find_fetched

    source = data_source(name, benchmark)
    folder = find_fetched(source)
    if folder is None:
        fetch = f"run contrapose data fetch {name}, or " if source.download is not None else ""
        raise InputError(f"{name} needs its annotation files: {fetch}pass {option('root', 'DIR')}.")
    return folder
