"""Evaluation of models × benchmarks × scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contrapose.data import Benchmark
from contrapose.engine import (
    LIKELIHOOD_SCORES,
    AnswerStore,
    FolderImages,
    ImageCache,
    LocalExecutor,
    NoiseImages,
    Progress,
    ScoringContext,
    ShardSurvey,
    default_scores,
    load_prior_folder,
    require_known_score,
    require_score,
)
from contrapose.engine.pace import report_phase
from contrapose.errors import InputError, option
from contrapose.evaluation.jobs import JobClock, find_fitting_parts, list_scores, report_plan
from contrapose.evaluation.parts import (
    EvalRequest,
    ask_own_question,
)
from contrapose.evaluation.runs import run_selection
from contrapose.evaluation.selection import PartData, Selection, select_with_images, with_frames
from contrapose.evaluation.skips import (
    count_units,
    without_units,
)
from contrapose.files import gc_paused
from contrapose.models import Model, PromptedCaptioner, load_model
from contrapose.models.capabilities import UNSTORED
from contrapose.results.tables import RunRecord

if TYPE_CHECKING:
    from contrapose.engine.ray_executor import RayExecutor


def evaluate_models(
    models: Sequence[str | Model], request: EvalRequest, *, progress: Progress | None = None
) -> list[RunRecord]:
    """Evaluate models on benchmarks; scores that the cache holds are not computed again.

    Args:
        models: names, or models that are loaded already.
        request: benchmarks, scores and options.
        progress: called after each batch.

    Returns:
        A run for every model, benchmark and score, in this order; none of a shard, whose tally
        is filled in.

    Raises:
        InputError: an unknown name, a score that a model cannot give, or nothing to ask.
    """
    if not request.benchmarks:
        raise InputError(f"{option('on')} names no benchmark; see contrapose list benchmarks.")
    for score in request.scores:
        require_known_score(score)
    shard = request.shard
    store = AnswerStore(
        request.cache,
        shard=f"{shard.index}/{shard.count}" if shard else "",
        read_only=request.cache_use == "only",
    )
    with gc_paused(), report_phase(progress, "reading benchmarks"):
        selections = select_with_images(request.benchmarks, request, progress)
    if request.frames is not None:
        count, alone = request.frames
        selections = [with_frames(selection, count, alone=alone) for selection in selections]
    request = replace(request, benchmarks=tuple(selection.name for selection in selections))
    loaded = _load_models(models, request, progress)
    local = LocalExecutor(request.workers)
    executors = [
        _build_executor(*pair, request) or local for pair in zip(models, loaded, strict=True)
    ]
    images = ImageCache()
    contexts = [
        ScoringContext(
            model,
            store,
            batch_size=request.batch_size,
            prior=request.prior or NoiseImages(),
            question=request.question,
            progress=progress,
            images=images,
            cache_use=request.cache_use,
            executor=executor,
            shard=request.shard,
            requests={},
        )
        for model, executor in zip(loaded, executors, strict=True)
    ]
    try:
        return _evaluate_contexts(contexts, selections, request)
    finally:
        for executor in reversed(executors):  # the first one may have started what all use
            executor.close()


def _evaluate_contexts(
    contexts: Sequence[ScoringContext], selections: Sequence[Selection], request: EvalRequest
) -> list[RunRecord]:
    """Evaluate all models on all benchmarks, or score the share of a shard."""
    if request.shard is not None:
        _score_share(contexts, selections, request)
        return []
    if request.merge:
        survey = ShardSurvey()
        surveyed = [replace(context, shard=survey, requests={}) for context in contexts]
        _score_share(surveyed, selections, request)
        survey.require_complete()
    if request.oracle is not None:
        from contrapose.evaluation.oracle import ORACLE_SUFFIX, add_oracle

        judge = request.oracle
        if isinstance(judge, str) and not judge.endswith(ORACLE_SUFFIX):
            judge = load_for_request(judge, request)
        selections = [add_oracle(selection, judge, contexts[0]) for selection in selections]
    if request.merge:
        contexts = [replace(context, cache_use="only") for context in contexts]
    runs = _evaluate_selections(contexts, selections, request)
    if not request.common:
        return runs
    common = [_without_skipped(selection, runs) for selection in selections]
    if common == selections:
        return runs
    notes = {
        before.name: _note_left_out(before, after)
        for before, after in zip(selections, common, strict=True)
    }
    return [
        _add_notes(run, notes[run.results.benchmark])
        for run in _evaluate_selections(contexts, common, request)
    ]


def _score_share(
    contexts: Sequence[ScoringContext], selections: Sequence[Selection], request: EvalRequest
) -> None:
    """Score the share of the contexts' shard of all that an evaluation asks."""
    from contrapose.evaluation.shards import score_selection_share

    for context, selection, score in _list_requests(contexts, selections, request):
        _give_room(context, contexts, request)
        names, _ = find_fitting_parts(context, selection, score)
        score_selection_share(context, selection, score, names, request)


def _load_models(
    models: Sequence[str | Model], request: EvalRequest, progress: Progress | None
) -> list[Model]:
    """Load models, and refuse options that do not fit them.

    Raises:
        InputError: a score that a model cannot give, a prior of nothing, a shard without a store.
    """
    loaded = [_load(model, request, progress) for model in models]
    for model in loaded:
        for score in request.scores:
            require_score(model, score)
    if request.prompt is not None:
        loaded = [_set_prompt(model, request.prompt, request.scores) for model in loaded]
    if request.prior is not None and not any(
        score in (*LIKELIHOOD_SCORES, "prior")
        for model in loaded
        for score in request.scores or default_scores(model)
    ):
        raise InputError(
            f"{option('prior')} is taken out of lm or vqa, and neither is asked; "
            f"see {option('score')}."
        )
    if request.shard is not None and request.merge:
        raise InputError(
            f"{option('shard')} scores, and {option('merge')} measures what shards have scored: "
            "give one of them."
        )
    if request.shard is not None or request.merge:
        _require_shared_store(loaded, request, "a shard" if request.shard else "merging shards")
    if request.engine == "ray":
        _require_shared_store(loaded, request, "Ray")
    if isinstance(request.prior, FolderImages):
        load_prior_folder(request.prior)  # a bad folder is refused before anything is scored
    return loaded


def _require_shared_store(models: Sequence[Model], request: EvalRequest, purpose: str) -> None:
    """Require that scores are kept where other processes find them.

    Raises:
        InputError: there is no store, or a model's scores are never stored.
    """
    if request.cache is None:
        raise InputError(
            f"{purpose} needs a cache that all processes share; leave out {option('cache', False)}."
        )
    if isinstance(request.cache, str) and request.cache.rpartition("::")[2].startswith("memory:"):
        raise InputError(
            f"{purpose} needs a cache that all processes share, and {request.cache} ends with its "
            "process; give a folder or another URL."
        )
    if request.cache_use == "only" or (request.merge and request.cache_use == "refresh"):
        raise InputError(f"{purpose} does not go with {option('cache_use', request.cache_use)}.")
    for model in models:
        if model.fingerprint.startswith(UNSTORED):
            raise InputError(
                f"{purpose} needs scores that are stored, and those of {model.name} are not: it is "
                "a function without a fingerprint."
            )


def _build_executor(given: str | Model, model: Model, request: EvalRequest) -> RayExecutor | None:
    """Build the executor of a model's batches on Ray; None where this process scores.

    Args:
        given: the model or its name, as the user gave it.
        model: the loaded model.
        request: engine, workers, device and store.
    """
    if request.engine == "local" or request.cache is None:
        return None
    from contrapose.engine.ray_executor import RayExecutor
    from contrapose.engine.ray_workers import WorkerModel, list_included_files

    device = "cuda" if request.device.startswith("cuda") else request.device
    recipe = WorkerModel(
        model.fingerprint,
        name=given if isinstance(given, str) else "",
        options=_load_options(replace(request, device=device)),
        prompt=request.prompt,
        files=list_included_files(),
        model=None if isinstance(given, str) else model,
    )
    shard = f"{request.shard.index}/{request.shard.count}" if request.shard else ""
    return RayExecutor(model, recipe, request.cache, request.workers, request.device, shard)


def _set_prompt(model: Model, prompt: str, scores: Sequence[str]) -> Model:
    """Set the prompt before captions of `lm`.

    Raises:
        InputError: `lm` is not asked, or the model takes no prompt.
    """
    if not {"lm", "prior"} & set(scores or default_scores(model)):
        raise InputError(
            f"{option('prompt')} is of the score lm, which {model.name} is not asked for; see "
            f"{option('score')}."
        )
    if not isinstance(model, PromptedCaptioner):
        raise InputError(
            f"{model.name} takes no prompt before a caption, as chat models do; leave out "
            f"{option('prompt')}."
        )
    return model.with_prompt(prompt)


def _note_left_out(before: Selection, after: Selection) -> tuple[str, ...]:
    """Note on what is left out because a run skipped it, by kind of unit."""
    totals: dict[str, tuple[int, int]] = {}
    for name, (_, data) in before.parts.items():
        left = count_units(after.parts[name][1])
        for kind, count in count_units(data).items():
            out, total = totals.get(kind, (0, 0))
            totals[kind] = out + count - left[kind], total + count
    words = [f"{out:,} of {total:,} {kind}" for kind, (out, total) in totals.items() if out]
    if not words:
        return ()
    return (f"{' and '.join(words)} are left out, which not all models and scores have",)


def _add_notes(run: RunRecord, notes: tuple[str, ...]) -> RunRecord:
    everything = (*run.results.notes, *notes)
    return replace(run, results=run.results.model_copy(update={"notes": everything}))


def _evaluate_selections(
    contexts: Sequence[ScoringContext], selections: Sequence[Selection], request: EvalRequest
) -> list[RunRecord]:
    jobs = list(_list_requests(contexts, selections, request))
    report_plan(contexts[0].progress, jobs)
    clock = JobClock(jobs)
    runs = []
    for number, (context, selection, score) in enumerate(jobs):
        _give_room(context, contexts, request)
        named = replace(context, progress=clock.name_progress(number, context.progress))
        runs.append(run_selection(named, selection, score, request))
        clock.finish(number)
    return runs


def _give_room(
    context: ScoringContext, contexts: Sequence[ScoringContext], request: EvalRequest
) -> None:
    """End the workers of other models, which would keep those of this one waiting for room."""
    if request.engine == "local":
        return
    from contrapose.engine.ray_executor import RayExecutor

    for other in contexts:
        if isinstance(other.executor, RayExecutor) and other.executor is not context.executor:
            other.executor.release()


def _list_requests(
    contexts: Sequence[ScoringContext], selections: Sequence[Selection], request: EvalRequest
) -> Iterator[tuple[ScoringContext, Selection, str]]:
    """List every model, benchmark and score; `vqa` asks the benchmark's own question."""
    for context in contexts:
        for selection in selections:
            for score in list_scores(context.model, selection, request):
                yield ask_own_question(context, selection, score), selection, score


def _without_skipped(selection: Selection, runs: Sequence[RunRecord]) -> Selection:
    """Selection without what any run of it skipped: examples, queries and their candidates.

    Raises:
        InputError: no example of a part is left.
    """
    skipped = {
        unit
        for run in runs
        if run.results.benchmark == selection.name
        for unit in (*run.spec.get("skipped", ()), *run.spec.get("skipped_candidates", ()))
    }
    parts: dict[str, tuple[Benchmark, PartData]] = {}
    for name, (benchmark, data) in selection.parts.items():
        prefix = f"{name}/" if selection.suite else ""
        names = {unit.removeprefix(prefix) for unit in skipped if unit.startswith(prefix)}
        common = without_units(data, names)
        if not all(count_units(common).values()):
            raise InputError(
                f"no example of {name or selection.name} was scored by every model; "
                f"leave out {option('common')}."
            )
        parts[name] = (benchmark, common)
    return selection if parts == selection.parts else replace(selection, parts=parts)


def _load(model: str | Model, request: EvalRequest, progress: Progress | None) -> Model:
    if not isinstance(model, str):
        return model
    with report_phase(progress, f"loading {model}"):
        # Workers of Ray have GPUs; the process that plans needs none.
        device = "cpu" if request.engine == "ray" else request.device
        return load_for_request(model, replace(request, device=device))


def load_for_request(name: str, request: EvalRequest) -> Model:
    """Load a model by name with the options of the request."""
    return load_model(name, **_load_options(request))


def _load_options(request: EvalRequest) -> dict[str, Any]:
    """Options of `load_model`."""
    return {
        "device": request.device,
        "dtype": request.dtype,
        "cut": request.long == "cut",
        "trust_remote_code": request.trust_remote_code,
    }
