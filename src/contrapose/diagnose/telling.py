"""The examples that tell most: where a model is surest of the wrong one, and of the right one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.cells import Games
from contrapose.diagnose.fourteen import Exchanged
from contrapose.metrics import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Telling:
    """One comparison that is shown.

    Attributes:
        id: of the example.
        exchanged: what differs: captions or images.
        kept: the image (or caption) that meets both.
        right: position of the right one.
        wrong: position of the wrong one.
        margin: the score of right less that of wrong.
    """

    id: str
    exchanged: Exchanged
    kept: int
    right: int
    wrong: int
    margin: float

    @property
    def cells(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Image and caption of the right pair, and of the wrong one."""
        if self.exchanged == "captions":
            return (self.kept, self.right), (self.kept, self.wrong)
        return (self.right, self.kept), (self.wrong, self.kept)


def telling(games: Games, *, worst: int = 2, best: int = 1) -> list[Telling]:
    """The largest margins of either sign, captions first; no example comes twice.

    Args:
        games: of one model.
        worst: comparisons in which wrong is furthest ahead, for captions and for images.
        best: comparisons in which right is.
    """
    chosen: list[Telling] = []
    for exchanged in ("captions", "images"):
        found = sorted(_all(games, exchanged), key=lambda each: each.margin)
        wrong = [each for each in found if each.margin <= 0]
        right = [each for each in reversed(found) if each.margin > 0]
        for some, count in ((wrong, worst), (right, best)):
            taken = {each.id for each in chosen}
            new = {each.id: each for each in reversed(some) if each.id not in taken}
            chosen += sorted(new.values(), key=some.index)[:count]
    return chosen


def _all(games: Games, exchanged: Exchanged) -> list[Telling]:
    found = []
    for id_ in games.ids:
        words, regions = games.players(id_)
        if not (words if exchanged == "captions" else regions):
            continue
        scores = games.scores(id_)
        match = np.array(games.examples[id_].match, dtype=np.bool_)
        if exchanged == "images":
            scores, match = scores.T, match.T
        found += [
            Telling(id_, exchanged, kept, right, wrong, margin)
            for kept, right, wrong, margin in _margins(scores, match)
        ]
    return found


def _margins(scores: FloatArray, fits: BoolArray) -> list[tuple[int, int, int, float]]:
    return [
        (kept, right, wrong, float(scores[kept, right] - scores[kept, wrong]))
        for kept in range(len(scores))
        for right in np.flatnonzero(fits[kept]).tolist()
        for wrong in np.flatnonzero(~fits[kept]).tolist()
        if np.isfinite(scores[kept, right] - scores[kept, wrong])
    ]
