"""Single games, looked up again: one image with one caption, and what each pattern adds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data import Example
from contrapose.diagnose.played import Played
from contrapose.metrics import FloatArray
from contrapose.metrics.dividends import moebius, pattern_name, shapley_values

OWN = re.compile(r"(?:/image-(\d+))?(?:/text-(\d+))?$")
"""How a game is named where each image, or each caption, has one of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One image with one caption.

    Attributes:
        score: the plain score: everybody is present.
        nobody: the score with no player of either side.
        words: dividends by pattern of words, all regions present; the empty one is left out.
        regions: dividends by pattern of regions, all words present.
        word_shares: the Shapley value of each word player.
        region_shares: the same of each region.
    """

    score: float
    nobody: float
    words: Mapping[str, float]
    regions: Mapping[str, float]
    word_shares: Mapping[str, float]
    region_shares: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    block: Played
    row: int
    image: int | None
    text: int | None


class Games:
    """The games of one model, by example, image and caption."""

    def __init__(self, played: Sequence[Played], examples: Mapping[str, Example]):
        """Index the games.

        Args:
            played: all blocks.
            examples: by id.
        """
        self.examples = examples
        self._places: dict[str, list[_Place]] = {}
        for block in played:
            for row, name in enumerate(block.ids):
                id_, image, text = _parsed(name, examples)
                self._places.setdefault(id_, []).append(_Place(block, row, image, text))

    @property
    def ids(self) -> list[str]:
        """The examples that were played."""
        return list(self._places)

    def scores(self, id_: str) -> FloatArray:
        """(m, n) the plain scores of an example; NaN where there is none."""
        found = np.full(self.examples[id_].shape, np.nan)
        for place in self._places[id_]:
            images = slice(None) if place.image is None else slice(place.image, place.image + 1)
            texts = slice(None) if place.text is None else slice(place.text, place.text + 1)
            found[images, texts] = place.block.values[place.row, :, :, -1, -1]
        return found

    def players(self, id_: str) -> tuple[bool, bool]:
        """Whether words play in an example, and whether regions do."""
        blocks = [place.block for place in self._places[id_]]
        return any(b.text_players for b in blocks), any(b.image_players for b in blocks)

    def cell(self, id_: str, image: int, text: int) -> Cell | None:
        """The game of one image with one caption; None when it was not played."""
        for place in self._places.get(id_, ()):
            if place.image not in (None, image) or place.text not in (None, text):
                continue
            i = image if place.image is None else 0
            j = text if place.text is None else 0
            values = place.block.values[place.row, i, j]
            words, regions = moebius(values[-1, :]), moebius(values[:, -1])
            names = place.block.text_players, place.block.image_players
            return Cell(
                float(values[-1, -1]),
                float(values[0, 0]),
                _named(names[0], words),
                _named(names[1], regions),
                _shared(names[0], words),
                _shared(names[1], regions),
            )
        return None


def _parsed(name: str, examples: Mapping[str, Example]) -> tuple[str, int | None, int | None]:
    if name in examples:
        return name, None, None
    match = OWN.search(name)
    if match is None or name[: match.start()] not in examples:
        raise KeyError(name)
    image, text = (None if part is None else int(part) for part in match.groups())
    return name[: match.start()], image, text


def _named(players: Sequence[str], w: FloatArray) -> dict[str, float]:
    return {pattern_name(players, mask): float(w[mask]) for mask in range(1, len(w))}


def _shared(players: Sequence[str], w: FloatArray) -> dict[str, float]:
    if not players:
        return {}
    return dict(zip(players, shapley_values(w).tolist(), strict=True))
