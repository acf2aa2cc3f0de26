"""Evaluation of models × benchmarks × scores, with the provenance of every run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from contrapose import __version__
from contrapose.engine import (
    LIKELIHOOD_SCORES,
    SCORES,
    AnswerStore,
    FolderImages,
    ImageCache,
    LocalExecutor,
    NoiseImages,
    Progress,
    ScoringContext,
    default_scores,
    describe_prior,
    load_prior_folder,
    require_score,
)
from contrapose.engine.score_types import store_key
from contrapose.errors import InputError
from contrapose.evaluation.chat import stack_replies, sum_usage, usage_note
from contrapose.evaluation.parts import (
    DEBIASED,
    EvalRequest,
    PartRun,
    find_misfit,
    run_part,
    score_parts_ahead,
)
from contrapose.evaluation.selection import Selection, select
from contrapose.evaluation.skips import (
    NothingLeftError,
    require_no_skips,
    skip_note,
    summarize_skips,
)
from contrapose.files.records import gc_paused
from contrapose.files.suggest import did_you_mean
from contrapose.models import Model, load_model
from contrapose.results.measures import Measurements, describe_aggregation
from contrapose.results.schema import AlphaReport, MetricValue, Results
from contrapose.results.score_files import Run, aggregate_metrics
from contrapose.results.summary import average_parts, merge_parts
from contrapose.results.tables import stack_tables
from contrapose.scores.skips import Skip


def provenance(asking: ScoringContext, score: str, alphas: Iterable[AlphaReport]) -> dict[str, Any]:
    """Provenance of a score: its name in the store, and the images of its prior."""
    base = DEBIASED.get(score, "lm" if score == "prior" else score)
    found: dict[str, Any] = {}
    if base in SCORES:
        found["stored_as"] = store_key(asking.model, base, asking.question)
    prior = _describe_prior(asking, score, alphas)
    return {**found, "prior": prior} if prior else found


def provenance_notes(
    asking: ScoringContext, score: str, alphas: Iterable[AlphaReport]
) -> tuple[str, ...]:
    """Notes on the provenance of a score: the question of `vqa`, the images of the prior."""
    found = []
    if DEBIASED.get(score, score) == "vqa":
        asked = asking.question
        found.append(f"vqa is log P({asked.answer!r}) after the question {asked.text!r}")
    prior = _describe_prior(asking, score, alphas)
    return (*found, f"the prior is under {prior}") if prior else tuple(found)


def _describe_prior(asking: ScoringContext, score: str, alphas: Iterable[AlphaReport]) -> str:
    """Describe the images of the prior, of each part; empty where there is none."""
    if score == "prior":
        return describe_prior(asking.prior, asking.model)
    return "; ".join(dict.fromkeys(alpha.prior for alpha in alphas))


def evaluate_models(
    models: Sequence[str | Model], request: EvalRequest, *, progress: Progress | None = None
) -> list[Run]:
    """Evaluate models on benchmarks; scores that the cache holds are not computed again.

    Args:
        models: names, or models that are loaded already.
        request: what to ask.
        progress: told after each batch.

    Returns:
        A run for every model, benchmark and score, in this order.

    Raises:
        InputError: an unknown name, a score that a model cannot give, or nothing to ask.
    """
    if not request.benchmarks:
        raise InputError("--on names no benchmark; see contrapose list benchmarks.")
    for score in request.scores:
        if score not in SCORES:
            raise InputError(f"there is no score {score!r}: {did_you_mean(score, SCORES)}")
    store = AnswerStore(request.cache)
    with gc_paused():
        selections = [
            select(benchmark, root=request.root, subsets=request.subsets, limit=request.limit)
            for benchmark in request.benchmarks
        ]
    request = replace(request, benchmarks=tuple(selection.name for selection in selections))
    loaded = [load_for_request(each, request) if isinstance(each, str) else each for each in models]
    for model in loaded:
        for score in request.scores:
            require_score(model, score)
    if request.prior is not None and not any(
        score in (*LIKELIHOOD_SCORES, "prior")
        for model in loaded
        for score in request.scores or default_scores(model)
    ):
        raise InputError("--prior is taken out of lm or vqa, and neither is asked; see --score.")
    if isinstance(request.prior, FolderImages):
        load_prior_folder(request.prior)  # what is wrong with it is said before anything is asked
    pictures = ImageCache()
    runs: list[Run] = []
    for model in loaded:
        asking = ScoringContext(
            model,
            store,
            batch_size=request.batch_size,
            prior=request.prior or NoiseImages(),
            question=request.question,
            progress=progress,
            pictures=pictures,
            cache_use=request.cache_use,
            executor=LocalExecutor(request.workers),
        )
        for selection in selections:
            for score in _list_scores(model, request):
                runs.append(_evaluate_selection(asking, selection, score, request))
    return runs


def load_for_request(name: str, request: EvalRequest) -> Model:
    """Load a model by name with the options of the request."""
    return load_model(
        name,
        device=request.device,
        dtype=request.dtype,
        cut=request.long == "cut",
        trust_remote_code=request.trust_remote_code,
    )


def _list_scores(model: Model, request: EvalRequest) -> Iterator[str]:
    scores = request.scores or default_scores(model)
    if not scores:
        raise InputError(f"{model.name} gives no score.")
    for score in dict.fromkeys(scores):
        yield score
        if score in LIKELIHOOD_SCORES and request.prior is not None:
            yield f"{score}-alpha"


def _evaluate_selection(
    asking: ScoringContext, selection: Selection, score: str, request: EvalRequest
) -> Run:
    unfit = {
        name: find_misfit(benchmark, data, asking.model, score, named=name in selection.named)
        for name, (benchmark, data) in selection.parts.items()
    }
    left = [f"{name} is not asked with {score}: {why}" for name, why in unfit.items() if why]
    if len(left) == len(unfit):
        raise InputError(f"{selection.name} cannot be asked with {score}: {left[0]}.")
    score_parts_ahead(asking, selection, score, [name for name, why in unfit.items() if not why])
    found: dict[str, PartRun] = {}
    skipped: dict[str, Skip] = {}
    for name in (name for name, why in unfit.items() if not why):
        prefix = f"{name}/" if selection.suite else ""
        try:
            found[name] = run_part(asking, selection, name, score, request)
            lost = found[name].skipped
        except NothingLeftError as error:
            left.append(f"{name} is left out: {error.message.rstrip('.')}")
            lost = error.skipped
            if len(unfit) == len(left) and not request.strict:
                raise
        except InputError as error:
            if score not in DEBIASED or not selection.suite:
                raise
            left.append(f"{name} has no {score}: {error.message.rstrip('.')}")
            continue
        skipped |= {f"{prefix}{unit}": why for unit, why in lost.items()}
    if request.strict:
        require_no_skips(skipped, selection.name)
    if not found:
        raise InputError(f"{selection.name}: {left[0]}.")
    tables = [outcome.table for outcome in found.values() if outcome.table is not None]
    measured, results = (_summarize_suite if selection.suite else _summarize_single)(
        found, selection.name, request
    )
    alphas = [outcome.alpha for outcome in found.values() if outcome.alpha is not None]
    rerank = max(outcome.rerank for outcome in found.values())
    spoken = {name: outcome.said for name, outcome in found.items() if outcome.said is not None}
    usage = sum_usage(each.usage for each in spoken.values())
    results = results.model_copy(
        update={
            "model": asking.model.name,
            "score": f"{score}:rerank={rerank}" if rerank else score,
            "skipped": summarize_skips(skipped),
            "usage": usage,
            "notes": (
                *provenance_notes(asking, score, alphas),
                *results.notes,
                *usage_note(usage),
                *left,
                *skip_note(skipped, len(measured)),
            ),
        }
    )
    spec: dict[str, Any] = {
        "fingerprint": asking.model.fingerprint,
        **provenance(asking, score, alphas),
    }
    if skipped:
        spec["skipped"] = {unit: why.detail for unit, why in skipped.items()}
    if spoken:
        spec["prompts"] = {name or "all": asdict(each.template) for name, each in spoken.items()}
    scores = stack_tables(tables) if tables else None
    return Run(
        request, scores, measured, results, spec, stack_replies(spoken.values()), selection.cases()
    )


def _summarize_single(
    found: dict[str, PartRun], name: str, request: EvalRequest
) -> tuple[Measurements, Results]:
    (outcome,) = found.values()
    part = outcome.part
    metrics, subsets, notes = aggregate_metrics(
        part.measured, part.card, resamples=request.resamples, seed=request.seed
    )
    words = describe_aggregation(part.card.aggregation)
    results = _build_results(part.measured, name, words, metrics, subsets, request)
    return part.measured, results.model_copy(
        update={"alpha": outcome.alpha, "notes": (*results.notes, *notes)}
    )


def _summarize_suite(
    found: dict[str, PartRun], name: str, request: EvalRequest
) -> tuple[Measurements, Results]:
    parts = {part: outcome.part for part, outcome in found.items()}
    whole = merge_parts(parts)
    metrics = average_parts(parts, whole, resamples=request.resamples, seed=request.seed)
    subsets: dict[str, dict[str, MetricValue]] = {}
    for each, part in parts.items():
        own, inner, _ = aggregate_metrics(
            part.measured, part.card, resamples=request.resamples, seed=request.seed
        )
        subsets[each] = own
        if len(inner) > 1:
            subsets |= {f"{each}/{value}": values for value, values in inner.items()}
    words = "mean over parts of their main metric"
    results = _build_results(whole, name, words, metrics, subsets, request)
    alphas = {part: o.alpha for part, o in found.items() if o.alpha is not None}
    return whole, results.model_copy(update={"part_alphas": alphas})


def _build_results(
    measured: Measurements,
    name: str,
    aggregation: str,
    metrics: dict[str, MetricValue],
    subsets: dict[str, dict[str, MetricValue]],
    request: EvalRequest,
) -> Results:
    clusters = measured.clusters
    return Results(
        contrapose=__version__,
        benchmark=name,
        protocol="strict",
        aggregation=aggregation,
        examples=len(measured),
        clusters=None if clusters is None else len(set(clusters.tolist())),
        resamples=request.resamples,
        seed=request.seed,
        metrics=metrics,
        subsets=subsets,
        notes=measured.notes,
    )
