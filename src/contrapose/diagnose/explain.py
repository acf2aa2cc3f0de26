"""Explanation of one image with a caption, and optionally a second one: dividends per pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from contrapose import __version__
from contrapose.data import Example, ImageRef
from contrapose.data.images import open_image
from contrapose.data.tagging import Tagger
from contrapose.diagnose.game_blocks import GameIndex, PairGame
from contrapose.diagnose.games import GAME_SCORES, GameSide, play_games
from contrapose.diagnose.planning import Baseline, choose_fill
from contrapose.diagnose.players import (
    MissingPlayers,
    RegionCache,
    RegionFinder,
    RegionMasks,
    WordCache,
    WordFinder,
    WordGroups,
)
from contrapose.diagnose.regions import DEFAULT_SUPERPIXELS, choose_regions
from contrapose.diagnose.typed_players import TypedWords, parse_typed_regions
from contrapose.diagnose.words import DefaultWords, PlayerKind, UserWords, choose_words
from contrapose.engine import AnswerStore, Progress, ScoringContext, default_scores
from contrapose.errors import InputError
from contrapose.models import Model, load_model
from contrapose.results.schema import SchemaModel as Value


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Options of `contrapose explain`, by the same names.

    Attributes:
        image: a file.
        text: a caption.
        against: another, to compare with.
        players: word groups, single words, or superpixels.
        superpixels: how many.
        groups: word groups, as a file or as they are typed.
        regions: regions likewise.
        tagger: of captions that follow no template.
        baseline: what stands in place of hidden words and regions.
        score: None takes the first that the model gives.
        device: where the model computes.
        dtype: what it computes in.
        cache: where answers are kept; None keeps them in memory alone.
        trust_remote_code: run code that comes with the model's weights.
    """

    image: Path
    text: str
    against: str | None = None
    players: PlayerKind = "groups"
    superpixels: int = DEFAULT_SUPERPIXELS
    groups: str | None = None
    regions: str | None = None
    tagger: Tagger = "textblob"
    baseline: Baseline = field(default_factory=Baseline)
    score: str | None = None
    device: str = "auto"
    dtype: str | None = None
    cache: Path | str | None = None
    trust_remote_code: bool = False


class PairValue(Value):
    """Game of one image with one caption.

    Attributes:
        text: the caption.
        score: with everybody present.
        nobody: with no player present.
        words: dividends by pattern of words, all of the image present.
        regions: dividends by pattern of regions, all of the caption present.
        word_shapley: Shapley values of the words.
        region_shapley: Shapley values of the regions.
    """

    text: str
    score: float
    nobody: float
    words: dict[str, float]
    regions: dict[str, float]
    word_shapley: dict[str, float]
    region_shapley: dict[str, float]


class Explanation(Value):
    """Output of `contrapose explain`.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        model: its name.
        score: what it was asked for.
        image: the file.
        words: where word groups come from; null where words do not play.
        regions: where regions come from; null where they do not play.
        baseline: how words and regions are hidden, in words.
        pairs: the caption, and the one against it.
        notes: what a reader should know.
    """

    schema_version: Literal[1] = 1
    contrapose: str
    model: str
    score: str
    image: str
    words: str | None
    regions: str | None
    baseline: str
    pairs: tuple[PairValue, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ExplanationRun:
    """Explanation with the data needed to draw it.

    Attributes:
        value: what was found.
        example: the image and its captions.
        cells: a game each.
        groups: of each caption.
        masks: of the image.
    """

    value: Explanation
    example: Example
    cells: tuple[PairGame, ...]
    groups: Sequence[WordGroups]
    masks: RegionMasks


def explain_pair(
    model: str | Model, request: ExplainRequest, *, progress: Progress | None = None
) -> ExplanationRun:
    """Play the game of one image with one caption, or two.

    Raises:
        InputError: the image cannot be opened, players cannot be found or used, or the model
            cannot be asked so.
    """
    example = _build_example(request)
    words, regions, side = _choose_players(request, example)
    loaded = (
        load_model(
            model,
            device=request.device,
            dtype=request.dtype,
            trust_remote_code=request.trust_remote_code,
        )
        if isinstance(model, str)
        else model
    )
    score = request.score or next((s for s in default_scores(loaded) if s in GAME_SCORES), "")
    if not score:
        raise InputError(f"{loaded.name} gives no score of an image with a caption.")
    asking = ScoringContext(loaded, AnswerStore(request.cache), progress=progress)
    played = play_games(
        asking, score, [example], words, regions, side=side, baseline=request.baseline
    )
    games = GameIndex(played, {example.id: example})
    found = [games.cell(example.id, 0, place) for place in range(len(example.texts))]
    cells = tuple(cell for cell in found if cell is not None)
    notes = () if side == "text" else choose_fill(loaded, request.baseline)[1]
    left = [each.reason for block in played for each in block.left_out]
    source = words.source
    value = Explanation(
        contrapose=__version__,
        model=loaded.name,
        score=score,
        image=str(request.image),
        words="; ".join(source.ways([example])) if isinstance(source, DefaultWords) else words.name,
        regions=None if regions is None else regions.name,
        baseline=request.baseline.in_words(side),
        pairs=tuple(
            PairValue(
                text=text,
                score=cell.score,
                nobody=cell.nobody,
                words=dict(cell.words),
                regions=dict(cell.regions),
                word_shapley=dict(cell.word_shapley_values),
                region_shapley=dict(cell.region_shapley_values),
            )
            for text, cell in zip(example.texts, cells, strict=True)
        ),
        notes=(*notes, *left),
    )
    groups = words.find([example])[0]
    masks = regions.find([example])[0] if regions is not None else MissingPlayers("")
    return ExplanationRun(
        value,
        example,
        cells,
        [{}] * len(example.texts) if isinstance(groups, MissingPlayers) else groups,
        {} if isinstance(masks, MissingPlayers) else masks[0],
    )


def _build_example(request: ExplainRequest) -> Example:
    texts = [request.text] if request.against is None else [request.text, request.against]
    if not all(text.strip() for text in texts):
        raise InputError("a caption is empty.")
    if request.against == request.text:
        raise InputError("--against is the same caption as --text.")
    ref = ImageRef(request.image.name, request.image)
    open_image(ref)  # what is wrong with it is said before the model is loaded
    match = tuple(place == 0 for place in range(len(texts)))
    return Example(request.image.name, (ref,), tuple(texts), (match,))


def _choose_players(
    request: ExplainRequest, example: Example
) -> tuple[WordCache, RegionCache | None, GameSide]:
    words: WordFinder
    if request.groups is None:
        words = choose_words(request.players, tagger=request.tagger)
    elif request.players == "words":
        raise InputError("--groups and --players words do not go together.")
    elif Path(request.groups).is_file():
        words = UserWords.read(Path(request.groups))
    else:
        words = TypedWords.read(request.groups)
    regions: RegionFinder | None
    if request.regions is not None and request.players == "superpixels":
        raise InputError("--regions and --players superpixels do not go together.")
    if request.regions is not None and not Path(request.regions).exists():
        regions = parse_typed_regions(request.regions, example.id)
    else:
        file = None if request.regions is None else Path(request.regions)
        regions = choose_regions([example], request.players, file=file, count=request.superpixels)
    found = WordCache(words), None if regions is None else RegionCache(regions)
    for each in found:
        missing = each.find([example])[0] if each is not None else None
        if isinstance(missing, MissingPlayers):
            raise InputError(f"{missing.reason.rstrip('.')}.")
    return *found, "text" if regions is None else "all"
