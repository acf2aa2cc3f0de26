"""Blocks of games: scores of all coalitions, an index by image and caption, and the worst cases.

A coalition is a bit mask: along an axis of length 2**n, bit i of index s says that player i is
present. Parts that belong to no player (other words, the rest of an image) are always present.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contrapose.data import Example
from contrapose.data.examples import diagonal_match
from contrapose.diagnose.players import Exchange
from contrapose.errors import InputError
from contrapose.metrics import (
    BoolArray,
    FloatArray,
)
from contrapose.metrics.dividends import (
    dividends,
    moebius,
    pattern_mask,
    pattern_name,
    shapley_values,
)


@dataclass(frozen=True, slots=True)
class UnplayedExample:
    """Example that was not played, with the reason in one sentence."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class GameBlock:
    """Games of k examples with the same players; other players form another block.

    Attributes:
        ids: (k,) the examples' ids.
        images: (k, m) names of the examples' images, such as their content ids: examples that share
            an image are drawn together in a resample.
        match: (k, m, n) true where image and caption belong together.
        values: (k, m, n, 2**a, 2**b) float64, the score of image i with caption j when only the
            image players of coalition s and the text players of coalition t are present. NaN where
            it was not scored.
        image_players: (a,) names along the image axis, bit 0 first: "O1", "O2".
        text_players: (b,) names along the text axis, bit 0 first: "O", "R", "A".
        has_regions: (k, m, a) whether the image has the player; None where all have. The dividends
            of a player that an image or caption lacks are 0 in its games.
        has_words: (k, n, b) whether the caption has the player; None where all have.
        encodings: images and captions encoded for this block and for none before it.
        pairs: pairs scored one by one, for this block and for none before it.
        naive: encodings (or pairs) that scoring every cell anew would have taken.
        left_out: examples without a game; any block may carry them, even one without examples.
    """

    ids: tuple[str, ...]
    images: tuple[tuple[str, ...], ...]
    match: BoolArray
    values: FloatArray
    image_players: tuple[str, ...]
    text_players: tuple[str, ...]
    has_regions: BoolArray | None = None
    has_words: BoolArray | None = None
    encodings: int = 0
    pairs: int = 0
    naive: int = 0
    left_out: tuple[UnplayedExample, ...] = ()

    def __post_init__(self) -> None:
        shape = self.values.shape
        players = (2 ** len(self.image_players), 2 ** len(self.text_players))
        if len(shape) != 5 or shape[0] != len(self.ids) or shape[3:] != players:
            raise InputError(
                f"the games of {len(self.ids)} examples with {len(self.image_players)} image and "
                f"{len(self.text_players)} text players must be of shape "
                f"({len(self.ids)}, m, n, {players[0]}, {players[1]}), not {shape}."
            )
        if self.values.dtype != np.float64:
            raise InputError(f"a game's values must be float64, not {self.values.dtype}.")
        if self.match.shape != shape[:3]:
            raise InputError(f"match must be of shape {shape[:3]}, not {self.match.shape}.")
        if len(self.images) != shape[0] or any(len(row) != shape[1] for row in self.images):
            raise InputError(f"images must name {shape[1]} images for each of {shape[0]} examples.")

    def only(self, ids: Collection[str]) -> GameBlock:
        """Block restricted to some examples; counts and left-out examples stay unchanged."""
        wanted = set(ids)
        keep = [row for row, id_ in enumerate(self.ids) if id_ in wanted]
        return replace(
            self,
            ids=tuple(self.ids[row] for row in keep),
            images=tuple(self.images[row] for row in keep),
            match=self.match[keep],
            values=self.values[keep],
            has_regions=None if self.has_regions is None else self.has_regions[keep],
            has_words=None if self.has_words is None else self.has_words[keep],
        )

    def has_pattern(self, image: str | None, text: str | None) -> BoolArray:
        """(k, m, n) whether image and caption have all players of a pattern.

        Args:
            image: the pattern of regions; None when no region is hidden.
            text: the pattern of words; None when no word is hidden.
        """
        regions = _has_all(self.image_players, self.has_regions, image)
        words = _has_all(self.text_players, self.has_words, text)
        has = np.ones(self.values.shape[:3], dtype=np.bool_)
        return np.asarray(has & regions[..., :, None] & words[..., None, :])


def _has_all(players: Sequence[str], has: BoolArray | None, pattern: str | None) -> BoolArray:
    """Whether each image (or caption) has all players of a pattern; (1, 1) where it is known."""
    mask = 0 if pattern is None else pattern_mask(players, pattern)
    if mask is None or has is None:
        return np.full((1, 1), mask is not None)
    return np.asarray(has[..., [bool(mask >> bit & 1) for bit in range(len(players))]].all(axis=-1))


def two_by_two_scores(blocks: Sequence[GameBlock]) -> FloatArray:
    """(k, 2, 2) plain scores of the 2 × 2 examples."""
    square = [
        block.values[..., -1, -1]
        for block in blocks
        if block.match.shape[1:] == (2, 2) and (block.match == diagonal_match(2)).all()
    ]
    return np.concatenate(square) if square else np.zeros((0, 2, 2))


GAME_SUFFIX = re.compile(r"(?:/image-(\d+))?(?:/text-(\d+))?$")
"""End of a game's id where each image, or each caption, has a game of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class PairGame:
    """Game of one image with one caption: scores, dividends and Shapley values.

    Attributes:
        score: the plain score: all players are present.
        nobody: the score with no player of either side.
        words: dividends by pattern of words, all regions present; without the empty pattern.
        regions: dividends by pattern of regions, all words present.
        word_shapley_values: the Shapley value of each word player.
        region_shapley_values: the Shapley value of each region.
    """

    score: float
    nobody: float
    words: Mapping[str, float]
    regions: Mapping[str, float]
    word_shapley_values: Mapping[str, float]
    region_shapley_values: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class _GameLocation:
    block: GameBlock
    row: int
    image: int | None
    text: int | None


class GameIndex:
    """Index of one model's games by example, image and caption."""

    def __init__(self, blocks: Sequence[GameBlock], examples: Mapping[str, Example]):
        """Index all blocks of a model; `examples` are by id."""
        self.examples = examples
        self._locations: dict[str, list[_GameLocation]] = {}
        for block in blocks:
            for row, name in enumerate(block.ids):
                id_, image, text = _parse_game_id(name, examples)
                location = _GameLocation(block, row, image, text)
                self._locations.setdefault(id_, []).append(location)

    @property
    def ids(self) -> list[str]:
        """Ids of the played examples."""
        return list(self._locations)

    def scores(self, id_: str) -> FloatArray:
        """(m, n) plain scores of an example; NaN where there is none."""
        scores = np.full(self.examples[id_].shape, np.nan)
        for at in self._locations[id_]:
            images = slice(None) if at.image is None else slice(at.image, at.image + 1)
            texts = slice(None) if at.text is None else slice(at.text, at.text + 1)
            scores[images, texts] = at.block.values[at.row, :, :, -1, -1]
        return scores

    def players(self, id_: str) -> tuple[bool, bool]:
        """Whether words play in an example, and whether regions play."""
        blocks = [at.block for at in self._locations[id_]]
        return any(b.text_players for b in blocks), any(b.image_players for b in blocks)

    def cell(self, id_: str, image: int, text: int) -> PairGame | None:
        """Game of one image with one caption; None if it was not played."""
        for at in self._locations.get(id_, ()):
            if at.image not in (None, image) or at.text not in (None, text):
                continue
            i = image if at.image is None else 0
            j = text if at.text is None else 0
            values = at.block.values[at.row, i, j]
            words, regions = moebius(values[-1, :]), moebius(values[:, -1])
            names = at.block.text_players, at.block.image_players
            return PairGame(
                float(values[-1, -1]),
                float(values[0, 0]),
                _dividends_by_pattern(names[0], words),
                _dividends_by_pattern(names[1], regions),
                _shapley_by_player(names[0], words),
                _shapley_by_player(names[1], regions),
            )
        return None


def _parse_game_id(
    name: str, examples: Mapping[str, Example]
) -> tuple[str, int | None, int | None]:
    if name in examples:
        return name, None, None
    match = GAME_SUFFIX.search(name)
    if match is None or name[: match.start()] not in examples:
        raise KeyError(name)
    image, text = (None if part is None else int(part) for part in match.groups())
    return name[: match.start()], image, text


def _dividends_by_pattern(players: Sequence[str], w: FloatArray) -> dict[str, float]:
    return {pattern_name(players, mask): float(w[mask]) for mask in range(1, len(w))}


def _shapley_by_player(players: Sequence[str], w: FloatArray) -> dict[str, float]:
    if not players:
        return {}
    return dict(zip(players, shapley_values(w).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class ComparisonCase:
    """Comparison of a right and a wrong pair of one example, with its margin.

    Attributes:
        id: the example's id.
        exchanged: captions or images: which of the two differs.
        kept: position of the image (or caption) that is compared with both.
        right: position of the right caption (or image).
        wrong: position of the wrong one.
        margin: the score of the right pair minus that of the wrong one.
    """

    id: str
    exchanged: Exchange
    kept: int
    right: int
    wrong: int
    margin: float

    @property
    def cells(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(image, caption) of the right pair and of the wrong pair."""
        if self.exchanged == "captions":
            return (self.kept, self.right), (self.kept, self.wrong)
        return (self.right, self.kept), (self.wrong, self.kept)


def worst_cases(games: GameIndex, *, worst: int = 2, best: int = 1) -> list[ComparisonCase]:
    """Comparisons with the largest margins of either sign, captions first; one per example.

    Args:
        games: games of one model.
        worst: comparisons per side in which wrong is furthest ahead.
        best: comparisons per side in which right is furthest ahead.
    """
    chosen: list[ComparisonCase] = []
    for exchanged in ("captions", "images"):
        cases = sorted(_all_cases(games, exchanged), key=lambda case: case.margin)
        wrong = [case for case in cases if case.margin <= 0]
        right = [case for case in reversed(cases) if case.margin > 0]
        for some, count in ((wrong, worst), (right, best)):
            taken = {case.id for case in chosen}
            new = {case.id: case for case in reversed(some) if case.id not in taken}
            chosen += sorted(new.values(), key=some.index)[:count]
    return chosen


def _all_cases(games: GameIndex, exchanged: Exchange) -> list[ComparisonCase]:
    cases = []
    for id_ in games.ids:
        words, regions = games.players(id_)
        if not (words if exchanged == "captions" else regions):
            continue
        scores = games.scores(id_)
        match = np.array(games.examples[id_].match, dtype=np.bool_)
        if exchanged == "images":
            scores, match = scores.T, match.T
        cases += [
            ComparisonCase(id_, exchanged, kept, right, wrong, margin)
            for kept, right, wrong, margin in _margins(scores, match)
        ]
    return cases


def _margins(scores: FloatArray, fits: BoolArray) -> list[tuple[int, int, int, float]]:
    return [
        (kept, right, wrong, float(scores[kept, right] - scores[kept, wrong]))
        for kept in range(len(scores))
        for right in np.flatnonzero(fits[kept]).tolist()
        for wrong in np.flatnonzero(~fits[kept]).tolist()
        if np.isfinite(scores[kept, right] - scores[kept, wrong])
    ]


def pattern_dividends(
    block: GameBlock, patterns: Iterable[tuple[str | None, str | None]]
) -> FloatArray:
    """(k, m, n, p) dividends of patterns in every cell; NaN where players are missing.

    Args:
        block: the games.
        patterns: of regions and of words; None where none is hidden.
    """
    tables: dict[tuple[bool, bool], FloatArray] = {}
    columns: list[FloatArray] = []
    for regions, words in patterns:
        image = _pattern_index(block.image_players, regions)
        text = _pattern_index(block.text_players, words)
        if image is None or text is None:
            columns.append(np.full(block.values.shape[:3], np.nan))
            continue
        kind = (regions is None, words is None)
        if kind not in tables:
            tables[kind] = _dividend_table(block.values, *kind)
        columns.append(tables[kind][..., image, text])
    return np.stack(columns, axis=-1)


def _dividend_table(values: FloatArray, all_regions: bool, all_words: bool) -> FloatArray:
    """Dividends (k, m, n, ·, ·) with all regions, all words, or neither held present."""
    if all_regions:
        return moebius(values[..., -1, :])[..., None, :]
    if all_words:
        return moebius(values[..., :, -1])[..., :, None]
    return dividends(values)


def _pattern_index(players: tuple[str, ...], pattern: str | None) -> int | None:
    """Index of a pattern in its table; an axis with nothing hidden has length 1."""
    return 0 if pattern is None else pattern_mask(players, pattern)


def largest_magnitude(values: FloatArray) -> FloatArray:
    """(k, m, n) largest magnitude of each game's values."""
    known = np.where(np.isnan(values), 0.0, values)
    return np.asarray(np.abs(known).max(axis=(-2, -1)))
