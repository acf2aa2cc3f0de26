"""Diagnosis of models on a benchmark: options, selection of examples and regions, and the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from contrapose import __version__
from contrapose.data import Example
from contrapose.data.example_columns import ExampleColumns
from contrapose.data.tagging import Tagger
from contrapose.data.video_clips import has_videos
from contrapose.diagnose.games import choose_score, play_games
from contrapose.diagnose.metrics import FAMILIES
from contrapose.diagnose.model_diagnosis import (
    DiagnosisRun,
    ModelGames,
    diagnose_games,
    examples_by_kind,
)
from contrapose.diagnose.planning import Baseline, parse_baseline
from contrapose.diagnose.players import GameSide, RegionCache, WordCache
from contrapose.diagnose.regions import DEFAULT_SUPERPIXELS, choose_regions, superpixel_notes
from contrapose.diagnose.schema import (
    DiagnosisReport,
    ModelDiagnosis,
    ModelDifference,
    compare_diagnoses,
)
from contrapose.diagnose.words import (
    DefaultWords,
    PlayerKind,
    ReleasedWords,
    choose_words,
    describe_source,
)
from contrapose.engine import (
    AnswerStore,
    ImageCache,
    LocalExecutor,
    Progress,
    ScoringContext,
)
from contrapose.engine.pace import PLAN, name_progress, report_phase, report_sentence
from contrapose.errors import InputError, option
from contrapose.evaluation.selection import (
    BenchmarkLike,
    ScoringOptions,
    Selection,
    resolve_benchmark,
    select,
)
from contrapose.files import gc_paused
from contrapose.models import Model, load_model
from contrapose.models.masking.text import TOKEN_0

RELEASED = "released"

SCENES_PARTS = ("location", "attribute", "swap-attribute", "swap-relation")
"""Parts of `scenes` whose captions mention two things that are changed or exchanged."""

DEFAULT_PARTS: Mapping[str, tuple[str, ...]] = {
    "scenes": SCENES_PARTS,
    "scenes-skewed": SCENES_PARTS,
}
"""Parts of a suite that are diagnosed when none is named; of other suites all are."""


@dataclass(frozen=True, slots=True)
class DiagnoseRequest(ScoringOptions):
    """Request of `contrapose diagnose`: options beside those of `ScoringOptions`.

    Attributes:
        benchmark: a name as `find_benchmark` knows it, a benchmark, or its examples.
        side: None takes all where there are regions, and the text side where there are none.
        players: word groups and objects, single words, or superpixels.
        superpixels: number of superpixels per image.
        baseline: replacement for hidden words and regions.
        score: None takes the model's first score of an image with a caption.
        groups: a file of word groups.
        regions: a file of regions, or a folder of masks.
        tagger: part-of-speech tagger for captions that follow no template.
        preset: `released` repeats the authors' script.
    """

    benchmark: BenchmarkLike
    side: GameSide | None = None
    players: PlayerKind = "groups"
    superpixels: int = DEFAULT_SUPERPIXELS
    baseline: Baseline = field(default_factory=Baseline)
    score: str | None = None
    groups: Path | None = None
    regions: Path | None = None
    tagger: Tagger = "textblob"
    preset: str | None = None


def choose_baseline(text: str | None, preset: str | None, seed: int) -> Baseline:
    """Choose the baseline: the one named, or that of a preset.

    Raises:
        InputError: there is no such baseline, or the preset has one already.
    """
    if preset != RELEASED:
        return Baseline(seed=seed) if text is None else parse_baseline(text, seed)
    if text is not None:
        raise InputError(
            f"{option('preset', RELEASED)} has a baseline of its own; leave out "
            f"{option('baseline')}."
        )
    return Baseline(text=TOKEN_0, seed=seed)


def select_parts(request: DiagnoseRequest, progress: Progress | None = None) -> Selection:
    """Select the parts that the user named, or the default ones.

    Raises:
        InputError: they hold videos.
    """
    selection = select(
        request.benchmark,
        root=request.root,
        subsets=request.subsets or DEFAULT_PARTS.get(resolve_benchmark(request.benchmark)[0], ()),
        limit=request.limit,
        images=True,
        offline=request.offline,
        progress=progress,
    )
    data = [data for _, data in selection.parts.values()]
    if any(has_videos(part) for part in data if isinstance(part, list | ExampleColumns)):
        raise InputError(f"{selection.name} holds videos, and only images can be diagnosed.")
    return selection


def select_examples(selection: Selection) -> tuple[list[Example], list[str]]:
    """Select the examples that have both right and wrong pairs, with notes on the rest."""
    examples: list[Example] = []
    notes: list[str] = []
    for part, (_, data) in selection.parts.items():
        chosen = (
            [example for example in data if _has_choice(example)]
            if isinstance(data, list | ExampleColumns)
            else []
        )
        if not chosen:
            notes.append(f"{part or selection.name} has no right and wrong captions or images")
        for example in chosen:
            examples.append(replace(example, id=f"{part}/{example.id}") if part else example)
    if not examples:
        raise InputError(f"{selection.name} cannot be diagnosed: {notes[0]}.")
    return examples, notes


def _has_choice(example: Example) -> bool:
    rows, columns = example.match, list(zip(*example.match, strict=True))
    return any(True in line and False in line for line in (*rows, *columns))


def select_regions(
    request: DiagnoseRequest, examples: Sequence[Example]
) -> tuple[RegionCache | None, GameSide, list[str]]:
    """Select the source of regions and the side to play, with notes for the reader.

    Raises:
        InputError: a file of regions cannot be used, or the preset has no such side.
    """
    if request.preset == RELEASED and request.side not in (None, "text"):
        raise InputError(
            f"{option('preset', RELEASED)} is of the text side: the others were never released."
        )
    if request.side == "text" or request.preset == RELEASED:
        return None, "text", []
    regions = choose_regions(
        examples, request.players, file=request.regions, count=request.superpixels
    )
    if regions is not None:
        cached, notes = RegionCache(regions), []
        if request.players == "superpixels":
            notes = superpixel_notes(cached, request.superpixels, examples)
        return cached, request.side or "all", notes
    if request.side is not None:
        return None, request.side, []  # `play_games` raises the error
    return None, "text", ["there are no regions for these images, so only the text side is asked"]


def diagnose_models(
    models: Sequence[str | Model], request: DiagnoseRequest, *, progress: Progress | None = None
) -> DiagnosisRun:
    """Play games with models and diagnose them.

    Args:
        models: names, or loaded models.
        request: options of the diagnosis.
        progress: called after each batch.

    Raises:
        InputError: an unknown name, a file that cannot be used, a score or a baseline that a model
            does not have, or no example with players.
    """
    with gc_paused(), report_phase(progress, "reading the benchmark"):
        selection = select_parts(request, progress)
    examples, notes = select_examples(selection)
    words = WordCache(
        choose_words(
            request.players, spans=request.groups, tagger=request.tagger, preset=request.preset
        )
    )
    regions, side, side_notes = select_regions(request, examples)
    if side != "image":
        words.find(examples)
    if regions is not None:
        regions.find(examples)
    with report_phase(progress, "loading models"):
        loaded = [
            resolve_model(model, request.device, request.dtype, request.trust_remote_code)
            for model in models
        ]
    scores = [choose_score(model, request.score) for model in loaded]
    has_groups = side != "image" and request.players != "words"
    kinds = examples_by_kind(examples, words if has_groups else DefaultWords(request.tagger))
    by_id = {example.id: example for example in examples}
    store = AnswerStore(request.cache, read_only=request.cache_use == "only")
    images = ImageCache()
    diagnosed: list[tuple[ModelGames, ModelDiagnosis]] = []
    names = ", ".join(f"{one.name} ({score})" for one, score in zip(loaded, scores, strict=True))
    report_sentence(
        progress, f"{PLAN}games of {names} on {selection.name} ({len(examples):,} examples)"
    )
    for number, (model, score) in enumerate(zip(loaded, scores, strict=True), start=1):
        count = f"{number} of {len(loaded)}: " if len(loaded) > 1 else ""
        named = name_progress(progress, f"{count}{model.name} on {selection.name}")
        context = ScoringContext(
            model,
            store,
            batch_size=request.batch_size,
            progress=named,
            images=images,
            cache_use=request.cache_use,
            executor=LocalExecutor(request.workers, processes=0),  # to mask what is decoded
        )
        played = words if request.preset is None else ReleasedWords(model)
        blocks = play_games(
            context, score, examples, played, regions, side=side, baseline=request.baseline
        )
        with report_phase(named, "intervals"):
            diagnosed.append(
                diagnose_games(
                    model,
                    score,
                    blocks,
                    by_id,
                    side,
                    selection,
                    kinds,
                    request.baseline,
                    resamples=request.resamples,
                    seed=request.seed,
                )
            )
    games = tuple(one for one, _ in diagnosed)
    report = DiagnosisReport(
        contrapose=__version__,
        benchmark=selection.name,
        parts=tuple(selection.parts) if selection.suite else (),
        examples=len(examples),
        side=side,
        players=request.players,
        words=None if side == "image" else describe_source(words.source, examples),
        regions=None if regions is None else regions.name,
        baseline={"text": request.baseline.text, "image": request.baseline.image},
        baseline_words=request.baseline.in_words(side),
        preset=request.preset,
        resamples=request.resamples,
        seed=request.seed,
        models=tuple(value for _, value in diagnosed),
        differences=_compare_models(games, side, request),
        notes=(*notes, *side_notes),
    )
    return DiagnosisRun(
        report,
        games,
        by_id,
        None if side == "image" else words,
        regions,
    )


def resolve_model(
    model: str | Model, device: str, dtype: str | None, trust_remote_code: bool
) -> Model:
    """Load a model by its name; a loaded model is returned as it is."""
    if not isinstance(model, str):
        return model
    return load_model(model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)


def _compare_models(
    models: Sequence[ModelGames], side: GameSide, request: DiagnoseRequest
) -> tuple[ModelDifference, ...]:
    return tuple(
        compare_diagnoses(
            first.diagnosis,
            second.diagnosis,
            (first.label, second.label),
            families=[family for family in FAMILIES if side in (family.side, "all")],
            resamples=request.resamples,
            seed=request.seed,
        )
        for first, second in combinations(models, 2)
    )
