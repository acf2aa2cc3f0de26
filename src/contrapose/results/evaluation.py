"""Models × benchmarks × scores: ask, measure, add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from contrapose import __version__
from contrapose.data import did_you_mean
from contrapose.errors import InputError
from contrapose.files.paused import collection_paused
from contrapose.models import Model, load_model
from contrapose.results.chat import added_up, under_each_other, usage_note
from contrapose.results.groups import aggregation_words
from contrapose.results.identity import identity, remarks
from contrapose.results.measured import Measured
from contrapose.results.outcomes import (
    DEBIASED,
    EvalRequest,
    Outcome,
    answers_ahead,
    outcome_of,
    unfit_for,
)
from contrapose.results.pipeline import Run, add_up
from contrapose.results.schema import MetricValue, Results
from contrapose.results.selection import Selection, select
from contrapose.results.skipping import NothingLeftError, note, require_none, summary
from contrapose.results.suites import average, merged
from contrapose.results.tables import stacked
from contrapose.scoring import (
    LIKELIHOODS,
    SCORES,
    Asking,
    FolderImages,
    LocalExecutor,
    Noise,
    Pictures,
    Progress,
    Skip,
    Store,
    folder_images,
    require_score,
    scores_of,
)


def evaluate_models(
    models: Sequence[str | Model], request: EvalRequest, *, progress: Progress | None = None
) -> list[Run]:
    """Ask models about benchmarks; what the cache knows is not asked again.

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
    store = Store(request.cache)
    with collection_paused():
        selections = [
            select(name, root=request.root, subsets=request.subsets, limit=request.limit)
            for name in request.benchmarks
        ]
    loaded = [loaded_model(each, request) if isinstance(each, str) else each for each in models]
    for model in loaded:
        for score in request.scores:
            require_score(model, score)
    if request.prior is not None and not any(
        score in (*LIKELIHOODS, "prior")
        for model in loaded
        for score in request.scores or scores_of(model)
    ):
        raise InputError("--prior is taken out of lm or vqa, and neither is asked; see --score.")
    if isinstance(request.prior, FolderImages):
        folder_images(request.prior)  # what is wrong with it is said before anything is asked
    pictures = Pictures()
    runs: list[Run] = []
    for model in loaded:
        asking = Asking(
            model,
            store,
            batch_size=request.batch_size,
            prior=request.prior or Noise(),
            question=request.question,
            progress=progress,
            pictures=pictures,
            policy=request.ask,
            executor=LocalExecutor(request.workers),
        )
        for selection in selections:
            for score in _asked(model, request):
                runs.append(_run(asking, selection, score, request))
    return runs


def loaded_model(name: str, request: EvalRequest) -> Model:
    """A model by name, loaded as the request says."""
    return load_model(
        name,
        device=request.device,
        dtype=request.dtype,
        cut=request.long == "cut",
        trust_remote_code=request.trust_remote_code,
    )


def _asked(model: Model, request: EvalRequest) -> Iterator[str]:
    scores = request.scores or scores_of(model)
    if not scores:
        raise InputError(f"{model.name} gives no score.")
    for score in dict.fromkeys(scores):
        yield score
        if score in LIKELIHOODS and request.prior is not None:
            yield f"{score}-alpha"


def _run(asking: Asking, selection: Selection, score: str, request: EvalRequest) -> Run:
    unfit = {
        name: unfit_for(benchmark, data, asking.model, score, named=name in selection.named)
        for name, (benchmark, data) in selection.parts.items()
    }
    left = [f"{name} is not asked with {score}: {why}" for name, why in unfit.items() if why]
    if len(left) == len(unfit):
        raise InputError(f"{selection.name} cannot be asked with {score}: {left[0]}.")
    answers_ahead(asking, selection, score, [name for name, why in unfit.items() if not why])
    found: dict[str, Outcome] = {}
    skipped: dict[str, Skip] = {}
    for name in (name for name, why in unfit.items() if not why):
        prefix = f"{name}/" if selection.suite else ""
        try:
            found[name] = outcome_of(asking, selection, name, score, request)
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
        require_none(skipped, selection.name)
    if not found:
        raise InputError(f"{selection.name}: {left[0]}.")
    tables = [outcome.table for outcome in found.values() if outcome.table is not None]
    measured, results = (_suite if selection.suite else _single)(found, selection.name, request)
    alphas = [outcome.alpha for outcome in found.values() if outcome.alpha is not None]
    rerank = max(outcome.rerank for outcome in found.values())
    spoken = {name: outcome.said for name, outcome in found.items() if outcome.said is not None}
    usage = added_up(each.usage for each in spoken.values())
    results = results.model_copy(
        update={
            "model": asking.model.name,
            "score": f"{score}:rerank={rerank}" if rerank else score,
            "skipped": summary(skipped),
            "usage": usage,
            "notes": (
                *remarks(asking, score, alphas),
                *results.notes,
                *usage_note(usage),
                *left,
                *note(skipped, len(measured)),
            ),
        }
    )
    spec: dict[str, Any] = {
        "fingerprint": asking.model.fingerprint,
        **identity(asking, score, alphas),
    }
    if skipped:
        spec["skipped"] = {unit: why.detail for unit, why in skipped.items()}
    if spoken:
        spec["prompts"] = {name or "all": asdict(each.template) for name, each in spoken.items()}
    scores = stacked(tables) if tables else None
    return Run(request, scores, measured, results, spec, under_each_other(spoken.values()))


def _single(found: dict[str, Outcome], name: str, request: EvalRequest) -> tuple[Measured, Results]:
    (outcome,) = found.values()
    part = outcome.part
    metrics, subsets, notes = add_up(
        part.measured, part.card, resamples=request.resamples, seed=request.seed
    )
    words = aggregation_words(part.card.aggregation)
    results = _results(part.measured, name, words, metrics, subsets, request)
    return part.measured, results.model_copy(
        update={"alpha": outcome.alpha, "notes": (*results.notes, *notes)}
    )


def _suite(found: dict[str, Outcome], name: str, request: EvalRequest) -> tuple[Measured, Results]:
    parts = {part: outcome.part for part, outcome in found.items()}
    whole = merged(parts)
    metrics = average(parts, whole, resamples=request.resamples, seed=request.seed)
    subsets: dict[str, dict[str, MetricValue]] = {}
    for each, part in parts.items():
        own, inner, _ = add_up(
            part.measured, part.card, resamples=request.resamples, seed=request.seed
        )
        subsets[each] = own
        if len(inner) > 1:
            subsets |= {f"{each}/{value}": values for value, values in inner.items()}
    words = "mean over parts of their main metric"
    results = _results(whole, name, words, metrics, subsets, request)
    alphas = {part: o.alpha for part, o in found.items() if o.alpha is not None}
    return whole, results.model_copy(update={"part_alphas": alphas})


def _results(
    measured: Measured,
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
