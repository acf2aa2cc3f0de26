"""Options of a diagnosis, and the selection of its examples and regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contrapose.data import Example
from contrapose.data.tagging import Tagger
from contrapose.diagnose.games import GameSide
from contrapose.diagnose.planning import Baseline, parse_baseline
from contrapose.diagnose.players import RegionCache
from contrapose.diagnose.regions import DEFAULT_SUPERPIXELS, choose_regions
from contrapose.diagnose.words import PlayerKind
from contrapose.engine import CachePolicy
from contrapose.errors import InputError
from contrapose.evaluation.selection import Selection, select
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.models.masking.text import TOKEN_0

RELEASED = "released"

SCENES_PARTS = ("location", "attribute", "swap-attribute", "swap-relation")
"""The parts of `scenes` whose captions speak of two things, changed in place or exchanged."""

DEFAULT_PARTS: Mapping[str, tuple[str, ...]] = {
    "scenes": SCENES_PARTS,
    "scenes-skewed": SCENES_PARTS,
}
"""The parts of a suite that are diagnosed when the user names none; of others all."""


@dataclass(frozen=True, slots=True)
class DiagnoseRequest:
    """Options of `contrapose diagnose`, by the same names.

    Attributes:
        benchmark: a name as `find_benchmark` knows it.
        side: None takes all where there are regions, and the text side where there are none.
        players: word groups and objects, single words, or superpixels.
        superpixels: how many, of each image.
        baseline: what stands in place of hidden words and regions.
        score: None takes the first that the model gives.
        root: the benchmark's folder.
        subsets: parts of a suite or values of the tag `subset`; none means the usual ones.
        limit: at most so many examples of each subset.
        groups: a file of word groups.
        regions: a file of regions, or a folder of masks.
        tagger: of captions that follow no template.
        preset: `released` does as the authors' script.
        device: where models compute.
        dtype: what they compute in; None is as the model's name says.
        batch_size: None takes each model's suggestion.
        workers: threads that decode images; None is one a core.
        cache: where answers are kept; None keeps them in memory alone.
        cache_use: `reuse` scores of the cache, `refresh` them, or use `only` them.
        trust_remote_code: run code that comes with a model's weights.
        resamples: of the bootstrap.
        seed: of everything random.
    """

    benchmark: str
    side: GameSide | None = None
    players: PlayerKind = "groups"
    superpixels: int = DEFAULT_SUPERPIXELS
    baseline: Baseline = field(default_factory=Baseline)
    score: str | None = None
    root: Path | None = None
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    groups: Path | None = None
    regions: Path | None = None
    tagger: Tagger = "textblob"
    preset: str | None = None
    device: str = "auto"
    dtype: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    cache: Path | str | None = None
    cache_use: CachePolicy = "reuse"
    trust_remote_code: bool = False
    resamples: int = RESAMPLES
    seed: int = 0


def choose_baseline(text: str | None, preset: str | None, seed: int) -> Baseline:
    """Choose the baseline: as typed, or that of a preset.

    Raises:
        InputError: there is no such baseline, or both say one.
    """
    if preset != RELEASED:
        return Baseline(seed=seed) if text is None else parse_baseline(text, seed)
    if text is not None:
        raise InputError("--preset released has a baseline of its own; leave out --baseline.")
    return Baseline(text=TOKEN_0, seed=seed)


def select_parts(request: DiagnoseRequest) -> Selection:
    """Select the parts that the user named, or the default ones."""
    usual = DEFAULT_PARTS.get(request.benchmark, ())
    return select(
        request.benchmark,
        root=request.root,
        subsets=request.subsets or usual,
        limit=request.limit,
    )


def select_examples(selection: Selection) -> tuple[list[Example], list[str]]:
    """Select the examples that have both right and wrong pairs, with notes on the rest."""
    found: list[Example] = []
    notes: list[str] = []
    for part, (_, data) in selection.parts.items():
        chosen = (
            [example for example in data if _has_choice(example)] if isinstance(data, list) else []
        )
        if not chosen:
            notes.append(f"{part or selection.name} has no right and wrong captions or images")
        for example in chosen:
            found.append(replace(example, id=f"{part}/{example.id}") if part else example)
    if not found:
        raise InputError(f"{selection.name} cannot be diagnosed: {notes[0]}.")
    return found, notes


def _has_choice(example: Example) -> bool:
    rows, columns = example.match, list(zip(*example.match, strict=True))
    return any(True in each and False in each for each in (*rows, *columns))


def select_regions(
    request: DiagnoseRequest, examples: Sequence[Example]
) -> tuple[RegionCache | None, GameSide, list[str]]:
    """Select the source of regions and the side to play, with notes for the reader.

    Raises:
        InputError: a file of regions cannot be used, or the preset has no such side.
    """
    if request.preset == RELEASED and request.side not in (None, "text"):
        raise InputError("--preset released is of the text side: the others were never released.")
    if request.side == "text" or request.preset == RELEASED:
        return None, "text", []
    found = choose_regions(
        examples, request.players, file=request.regions, count=request.superpixels
    )
    if found is not None:
        return RegionCache(found), request.side or "all", []
    if request.side is not None:
        return None, request.side, []  # `play` says what is missing
    return None, "text", ["there are no regions for these images, so only the text side is asked"]
