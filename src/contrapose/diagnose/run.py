"""From models and a benchmark to a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from contrapose import __version__
from contrapose.data import Example
from contrapose.diagnose.changes import examples_by_kind
from contrapose.diagnose.choosing import chosen_examples, chosen_parts, chosen_regions
from contrapose.diagnose.differences import difference
from contrapose.diagnose.fourteen import FAMILIES
from contrapose.diagnose.games import PLAYED, Side, play
from contrapose.diagnose.measuring import Diagnosed, measured
from contrapose.diagnose.players import Regions, Words
from contrapose.diagnose.remembered import RememberedWords
from contrapose.diagnose.request import DiagnoseRequest
from contrapose.diagnose.schema import (
    DiagnosisReport,
    DifferenceValue,
    ModelDiagnosis,
)
from contrapose.diagnose.told import difference_value
from contrapose.diagnose.words import UsualWords, words_for
from contrapose.errors import InputError
from contrapose.files.paused import collection_paused
from contrapose.models import Model, load_model
from contrapose.scoring import Asking, LocalExecutor, Pictures, Progress, Store, scores_of


@dataclass(frozen=True, slots=True, eq=False)
class DiagnosisRun:
    """A finished diagnosis, with what is needed to look at single examples.

    Attributes:
        report: what was found.
        models: the games of each.
        examples: by id; those of a suite have their part's name before it.
        words: where word groups come from; None where words do not play.
        regions: where regions come from; None where they do not play.
    """

    report: DiagnosisReport
    models: tuple[Diagnosed, ...]
    examples: Mapping[str, Example]
    words: Words | None
    regions: Regions | None


def diagnose_models(
    models: Sequence[str | Model], request: DiagnoseRequest, *, progress: Progress | None = None
) -> DiagnosisRun:
    """Play games with models, and measure what they react to.

    Args:
        models: names, or models that are loaded already.
        request: what to do.
        progress: told after each batch.

    Raises:
        InputError: an unknown name, a file that cannot be used, a score or a baseline that a model
            has not, or no example with players.
    """
    with collection_paused():
        selection = chosen_parts(request)
    examples, notes = chosen_examples(selection)
    words = RememberedWords(
        words_for(
            request.players, spans=request.groups, tagger=request.tagger, preset=request.preset
        )
    )
    regions, side, more = chosen_regions(request, examples)
    if side != "image":
        words.find(examples)
    if regions is not None:
        regions.find(examples)
    played: list[tuple[Diagnosed, ModelDiagnosis]] = []
    loaded = [_loaded(each, request) if isinstance(each, str) else each for each in models]
    scores = [_score(model, request.score) for model in loaded]
    known = side != "image" and request.players != "words"
    kinds = examples_by_kind(examples, words if known else UsualWords(request.tagger))
    store, pictures = Store(request.cache), Pictures()
    for model, score in zip(loaded, scores, strict=True):
        asking = Asking(
            model,
            store,
            batch_size=request.batch_size,
            progress=progress,
            pictures=pictures,
            policy=request.ask,
            executor=LocalExecutor(request.workers),
        )
        games = play(asking, score, examples, words, regions, side=side, baseline=request.baseline)
        played.append(measured(model, score, games, side, selection, kinds, request))
    report = DiagnosisReport(
        contrapose=__version__,
        benchmark=selection.name,
        parts=tuple(selection.parts) if selection.suite else (),
        examples=len(examples),
        side=side,
        players=request.players,
        words=None if side == "image" else _source(words.source, examples),
        regions=None if regions is None else regions.name,
        baseline={"text": request.baseline.text, "image": request.baseline.image},
        baseline_words=request.baseline.in_words(side),
        preset=request.preset,
        resamples=request.resamples,
        seed=request.seed,
        models=tuple(value for _, value in played),
        differences=_differences([each for each, _ in played], side, request),
        notes=(*notes, *more),
    )
    return DiagnosisRun(
        report,
        tuple(each for each, _ in played),
        {example.id: example for example in examples},
        None if side == "image" else words,
        regions,
    )


def _loaded(name: str, request: DiagnoseRequest) -> Model:
    return load_model(
        name,
        device=request.device,
        dtype=request.dtype,
        trust_remote_code=request.trust_remote_code,
    )


def _score(model: Model, wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    able = [score for score in scores_of(model) if score in PLAYED]
    if not able:
        raise InputError(f"{model.name} gives no score of an image with a caption.")
    return able[0]


def _differences(
    models: Sequence[Diagnosed], side: Side, request: DiagnoseRequest
) -> tuple[DifferenceValue, ...]:
    return tuple(
        difference_value(
            difference(
                first.diagnosis,
                second.diagnosis,
                (first.label, second.label),
                families=[family for family in FAMILIES if side in (family.side, "all")],
                resamples=request.resamples,
                seed=request.seed,
            )
        )
        for first, second in combinations(models, 2)
    )


def _source(words: Words, examples: Sequence[Example]) -> str:
    return "; ".join(words.ways(examples)) if isinstance(words, UsualWords) else words.name
