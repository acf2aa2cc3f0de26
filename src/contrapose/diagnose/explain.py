"""Explanation of one image with a caption, and optionally a second one: dividends per pattern.

Players may be typed: words as `O=cat,mat;R=on`, regions as `O1=10,20,60,90;O2=mask.png`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from contrapose import __version__
from contrapose.data import Example, ImageRef
from contrapose.data.images import open_image
from contrapose.data.tagging import Tagger
from contrapose.diagnose.game_blocks import GameBlock, GameIndex, PairGame
from contrapose.diagnose.games import choose_score, play_games
from contrapose.diagnose.planning import Baseline, choose_fill
from contrapose.diagnose.players import (
    GameSide,
    MissingPlayers,
    RegionCache,
    RegionFinder,
    RegionMasks,
    WordCache,
    WordFinder,
    WordGroups,
    require_few_players,
)
from contrapose.diagnose.regions import (
    DEFAULT_SUPERPIXELS,
    Superpixels,
    UserRegions,
    choose_regions,
    superpixel_notes,
)
from contrapose.diagnose.run import resolve_model
from contrapose.diagnose.words import PlayerKind, UserWords, choose_words, describe_source
from contrapose.engine import AnswerStore, Progress, ScoringContext
from contrapose.errors import InputError, option
from contrapose.files import local_path, require_text
from contrapose.models import Model
from contrapose.models.masking.text import Span
from contrapose.results.schema import SchemaModel


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Options of `contrapose explain`, by the same names.

    Attributes:
        image: an image file.
        text: a caption.
        against: a second caption to compare with.
        players: word groups, single words, or superpixels.
        superpixels: number of superpixels; 0 leaves an image without other regions in one piece.
        groups: word groups: a file, or typed.
        regions: regions: a file or folder, or typed.
        tagger: part-of-speech tagger for captions that follow no template.
        baseline: replacement for hidden words and regions.
        score: None takes the model's first score of an image with a caption.
        device: device of the model.
        dtype: its number format.
        cache: folder or URL of the score store; None keeps scores in memory only.
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


class PairValue(SchemaModel):
    """Game of one image with one caption.

    Attributes:
        text: the caption.
        score: score with all players present.
        nobody: score with no player of the words (and of named regions) present.
        words: dividends by pattern of words, with the complete image.
        regions: dividends by pattern of regions, with the complete caption.
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


class Explanation(SchemaModel):
    """Output of `contrapose explain`.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        model: the model's name.
        score: the score that is explained.
        image: the image file.
        words: source of the word groups; null where words do not play.
        regions: source of the regions; null where they do not play.
        baseline: how words and regions are hidden, in words.
        pairs: the game of the caption, and of the second one.
        notes: notes for the reader.
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
        value: the explanation as it is printed.
        example: the image and its captions.
        games: the game of each caption.
        groups: the word groups of each caption.
        masks: the regions of the image.
    """

    value: Explanation
    example: Example
    games: tuple[PairGame, ...]
    groups: Sequence[WordGroups]
    masks: RegionMasks


def explain_pair(
    model: str | Model, request: ExplainRequest, *, progress: Progress | None = None
) -> ExplanationRun:
    """Play the game of one image with one caption, or two.

    Raises:
        InputError: the image cannot be opened, players cannot be found or used, or the model
            does not have the score or the baseline.
    """
    example = _build_example(request)
    words, regions, side = _choose_players(request, example)
    patches = None
    if regions is None and request.superpixels:
        patches = RegionCache(Superpixels(request.superpixels))
    loaded = resolve_model(model, request.device, request.dtype, request.trust_remote_code)
    score = choose_score(loaded, request.score)
    context = ScoringContext(loaded, AnswerStore(request.cache), progress=progress)
    blocks = play_games(
        context, score, [example], words, regions, side=side, baseline=request.baseline
    )
    games = _index_games(blocks, example)
    if patches is not None:
        # A second game, so that words and patches do not multiply.
        regions, side = patches, "all"
        more = play_games(
            context, score, [example], None, patches, side="image", baseline=request.baseline
        )
        blocks = [*blocks, *more]
        games = tuple(map(_join_games, games, _index_games(more, example)))
    notes = [] if side == "text" else [*choose_fill(loaded, request.baseline)[1]]
    if regions is not None and isinstance(regions.source, Superpixels):
        notes += superpixel_notes(regions, request.superpixels, [example])
    reasons = [unplayed.reason for block in blocks for unplayed in block.left_out]
    value = Explanation(
        contrapose=__version__,
        model=loaded.name,
        score=score,
        image=str(request.image),
        words=describe_source(words.source, [example]),
        regions=None if regions is None else regions.name,
        baseline=request.baseline.in_words(side),
        pairs=tuple(
            PairValue(
                text=text,
                score=game.score,
                nobody=game.nobody,
                words=dict(game.words),
                regions=dict(game.regions),
                word_shapley=dict(game.word_shapley_values),
                region_shapley=dict(game.region_shapley_values),
            )
            for text, game in zip(example.texts, games, strict=True)
        ),
        notes=(*notes, *reasons),
    )
    groups = words.find([example])[0]
    masks = regions.find([example])[0] if regions is not None else MissingPlayers("")
    return ExplanationRun(
        value,
        example,
        games,
        [{}] * len(example.texts) if isinstance(groups, MissingPlayers) else groups,
        {} if isinstance(masks, MissingPlayers) else masks[0],
    )


def _index_games(blocks: Sequence[GameBlock], example: Example) -> tuple[PairGame, ...]:
    """Game of each caption."""
    index = GameIndex(blocks, {example.id: example})
    cells = [index.cell(example.id, 0, text) for text in range(len(example.texts))]
    return tuple(game for game in cells if game is not None)


def _join_games(words: PairGame, regions: PairGame) -> PairGame:
    """Game of words with the dividends of another one's regions."""
    return replace(
        words, regions=regions.regions, region_shapley_values=regions.region_shapley_values
    )


def _build_example(request: ExplainRequest) -> Example:
    texts = [request.text] if request.against is None else [request.text, request.against]
    for text in texts:
        require_text("text", text)
        if not text.strip():
            raise InputError("a caption is empty.")
    if request.against == request.text:
        raise InputError(f"{option('against')} is the same caption as {option('text')}.")
    ref = ImageRef(request.image.name, request.image)
    open_image(ref)  # an unreadable image is reported before the model is loaded
    match = tuple(index == 0 for index in range(len(texts)))
    return Example(request.image.name, (ref,), tuple(texts), (match,))


def _choose_players(
    request: ExplainRequest, example: Example
) -> tuple[WordCache, RegionCache | None, GameSide]:
    words: WordFinder
    if request.groups is None:
        words = choose_words(request.players, tagger=request.tagger)
    elif request.players == "words":
        raise InputError(f"{option('groups')} and {option('players', 'words')} do not go together.")
    elif _is_path(request.groups):
        words = UserWords.read(Path(request.groups))
    else:
        words = TypedWords.read(request.groups)
    regions: RegionFinder | None
    if request.regions is not None and request.players == "superpixels":
        raise InputError(
            f"{option('regions')} and {option('players', 'superpixels')} do not go together."
        )
    if request.regions is not None and not _is_path(request.regions):
        regions = parse_typed_regions(request.regions, example.id)
    else:
        file = None if request.regions is None else Path(request.regions)
        regions = choose_regions([example], request.players, file=file, count=request.superpixels)
    caches = WordCache(words), None if regions is None else RegionCache(regions)
    for cache in caches:
        missing = cache.find([example])[0] if cache is not None else None
        if isinstance(missing, MissingPlayers):
            raise InputError(f"{missing.reason.rstrip('.')}.")
    return *caches, "text" if regions is None else "all"


def _is_path(text: str) -> bool:
    """Whether a text names a file, and does not spell players itself."""
    return os.path.exists(text)  # noqa: PTH110 - also of one too long for a name


@dataclass(frozen=True, slots=True)
class TypedWords:
    """Word groups typed as words; every occurrence of a word belongs to its group.

    Attributes:
        words: the words of each group.
        name: description of the source.
    """

    words: Mapping[str, tuple[str, ...]]
    name: str
    joint: bool = True

    @classmethod
    def read(cls, text: str) -> TypedWords:
        """Parse `O=cat,mat;R=sits on`.

        Raises:
            InputError: it is written otherwise, or a group is empty.
        """
        words = {
            name: _split_group(name, value)
            for name, value in _parse_assignments(text, "groups").items()
        }
        require_few_players(len(words), "groups of words")
        return cls(words, option("groups"))

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption.

        Raises:
            InputError: no caption has a word of a group, or two groups share one.
        """
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> list[WordGroups]:
        groups_of = [self._in(text) for text in example.texts]
        for name in self.words:
            if not any(name in groups for groups in groups_of):
                texts = " and ".join(map(repr, example.texts))
                has = "has" if len(groups_of) == 1 else "have"
                raise InputError(f"{self.name}: {texts} {has} none of the words of {name}.")
        return groups_of

    def _in(self, text: str) -> WordGroups:
        groups: dict[str, tuple[Span, ...]] = {}
        taken: dict[Span, str] = {}
        for name, words in self.words.items():
            spans = [span for word in words for span in _find_word(word, text)]
            if not spans:
                continue
            for start, end in spans:
                for (begin, stop), other in taken.items():
                    if start < stop and begin < end and other != name:
                        raise InputError(
                            f"{self.name}: {other} and {name} share words of {text!r}."
                        )
                taken[start, end] = name
            groups[name] = tuple(sorted(spans))
        return groups


def _split_group(name: str, value: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in value.split(",") if word.strip())
    if not words:
        raise InputError(f"{option('groups')}: the group {name} is empty; leave it out.")
    return words


def _find_word(word: str, text: str) -> list[Span]:
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def parse_typed_regions(text: str, id_: str) -> UserRegions:
    """Parse regions from `O1=10,20,60,90;O2=mask.png`: boxes and mask files.

    Raises:
        InputError: it is written otherwise.
    """
    source = option("regions")
    regions: dict[str, Any] = {}
    for name, value in _parse_assignments(text, "regions").items():
        numbers = [part.strip() for part in value.split(",")]
        if all(re.fullmatch(r"-?\d+(\.\d+)?", part) for part in numbers):
            if len(numbers) != 4:
                raise InputError(f"{source}: the box of {name} must be x,y,width,height.")
            regions[name] = [float(part) for part in numbers]
        else:
            path = local_path(value).resolve()
            regions[name] = str(path.relative_to(path.anchor))
    require_few_players(len(regions), "regions")
    return UserRegions(Path(source), {(id_, 0): (regions, None)}, Path(Path.cwd().anchor))


def _parse_assignments(text: str, name: str) -> dict[str, str]:
    """Parse `NAME=VALUE;NAME=VALUE`, the value of the option `name`.

    Raises:
        InputError: it is written otherwise, or a player is named twice.
    """
    values: dict[str, str] = {}
    for part in filter(str.strip, text.split(";")):
        player, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not player or not value:
            raise InputError(
                f"{option(name)} must be a file, or NAME=…;NAME=…; found {part.strip()!r}, which "
                "names nothing."
            )
        if player in values:
            raise InputError(f"{option(name)} names {player} twice.")
        values[player] = value
    if not values:
        raise InputError(f"{option(name)} names no players.")
    return values
