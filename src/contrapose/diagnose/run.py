"""Diagnosis run: from models and a benchmark to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from contrapose import __version__
from contrapose.data import Example
from contrapose.diagnose.findings import compare_diagnoses
from contrapose.diagnose.games import GAME_SCORES, GameSide, play_games
from contrapose.diagnose.metrics import FAMILIES
from contrapose.diagnose.model_diagnosis import ModelGames, diagnose_games, examples_by_kind
from contrapose.diagnose.players import RegionFinder, WordCache, WordFinder
from contrapose.diagnose.request import (
    DiagnoseRequest,
    select_examples,
    select_parts,
    select_regions,
)
from contrapose.diagnose.schema import (
    DiagnosisReport,
    DifferenceValue,
    ModelDiagnosis,
    difference_value,
)
from contrapose.diagnose.words import DefaultWords, choose_words
from contrapose.engine import (
    AnswerStore,
    ImageCache,
    LocalExecutor,
    Progress,
    ScoringContext,
    default_scores,
)
from contrapose.errors import InputError
from contrapose.files.records import gc_paused
from contrapose.models import Model, load_model


@dataclass(frozen=True, slots=True, eq=False)
class DiagnosisRun:
    """Finished diagnosis, with the data needed to show single examples.

    Attributes:
        report: what was found.
        models: the games of each.
        examples: by id; those of a suite have their part's name before it.
        words: where word groups come from; None where words do not play.
        regions: where regions come from; None where they do not play.
    """

    report: DiagnosisReport
    models: tuple[ModelGames, ...]
    examples: Mapping[str, Example]
    words: WordFinder | None
    regions: RegionFinder | None


def diagnose_models(
    models: Sequence[str | Model], request: DiagnoseRequest, *, progress: Progress | None = None
) -> DiagnosisRun:
    """Play games with models and diagnose them.

    Args:
        models: names, or models that are loaded already.
        request: what to do.
        progress: told after each batch.

    Raises:
        InputError: an unknown name, a file that cannot be used, a score or a baseline that a model
            has not, or no example with players.
    """
    with gc_paused():
        selection = select_parts(request)
    examples, notes = select_examples(selection)
    words = WordCache(
        choose_words(
            request.players, spans=request.groups, tagger=request.tagger, preset=request.preset
        )
    )
    regions, side, more = select_regions(request, examples)
    if side != "image":
        words.find(examples)
    if regions is not None:
        regions.find(examples)
    played: list[tuple[ModelGames, ModelDiagnosis]] = []
    loaded = [_load(each, request) if isinstance(each, str) else each for each in models]
    scores = [_choose_score(model, request.score) for model in loaded]
    known = side != "image" and request.players != "words"
    kinds = examples_by_kind(examples, words if known else DefaultWords(request.tagger))
    store, pictures = AnswerStore(request.cache), ImageCache()
    for model, score in zip(loaded, scores, strict=True):
        asking = ScoringContext(
            model,
            store,
            batch_size=request.batch_size,
            progress=progress,
            pictures=pictures,
            cache_use=request.cache_use,
            executor=LocalExecutor(request.workers),
        )
        games = play_games(
            asking, score, examples, words, regions, side=side, baseline=request.baseline
        )
        played.append(diagnose_games(model, score, games, side, selection, kinds, request))
    report = DiagnosisReport(
        contrapose=__version__,
        benchmark=selection.name,
        parts=tuple(selection.parts) if selection.suite else (),
        examples=len(examples),
        side=side,
        players=request.players,
        words=None if side == "image" else _word_source(words.source, examples),
        regions=None if regions is None else regions.name,
        baseline={"text": request.baseline.text, "image": request.baseline.image},
        baseline_words=request.baseline.in_words(side),
        preset=request.preset,
        resamples=request.resamples,
        seed=request.seed,
        models=tuple(value for _, value in played),
        differences=_compare_models([each for each, _ in played], side, request),
        notes=(*notes, *more),
    )
    return DiagnosisRun(
        report,
        tuple(each for each, _ in played),
        {example.id: example for example in examples},
        None if side == "image" else words,
        regions,
    )


def _load(name: str, request: DiagnoseRequest) -> Model:
    return load_model(
        name,
        device=request.device,
        dtype=request.dtype,
        trust_remote_code=request.trust_remote_code,
    )


def _choose_score(model: Model, wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    able = [score for score in default_scores(model) if score in GAME_SCORES]
    if not able:
        raise InputError(f"{model.name} gives no score of an image with a caption.")
    return able[0]


def _compare_models(
    models: Sequence[ModelGames], side: GameSide, request: DiagnoseRequest
) -> tuple[DifferenceValue, ...]:
    return tuple(
        difference_value(
            compare_diagnoses(
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


def _word_source(words: WordFinder, examples: Sequence[Example]) -> str:
    return "; ".join(words.ways(examples)) if isinstance(words, DefaultWords) else words.name
