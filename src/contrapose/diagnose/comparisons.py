"""Right against wrong: what the metrics of one family are computed from.

On the text side every image of an example is compared with each of its right captions against each
of its wrong ones; on the image side every caption with each of its right images against each of its
wrong ones. An example of 2 × 2 therefore gives two comparisons a side, one of 1 × 2 gives one
comparison on the text side and none on the image side. The right one always comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.fourteen import Exchanged, Family, Pattern
from contrapose.diagnose.played import Played
from contrapose.metrics import BoolArray, FloatArray, IntArray, clusters_of
from contrapose.metrics.dividends import dividends, moebius, pattern_mask

NO_EFFECT = 1e-12
"""Dividends below this share of the largest value are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """The c comparisons of one family, p patterns each.

    Attributes:
        family: what is compared.
        ids: (c,) the example of each.
        kept: (c,) the image (or caption) that meets both.
        right: (c,) the right caption (or image).
        wrong: (c,) the wrong one.
        clusters: (c,) codes; comparisons that share an image, directly or through others, have one.
        rewards: (c, 2) the score of right and wrong with all players present.
        dividends: (c, 2, p) the patterns' dividends; NaN where the example has not their players.
        sensitivities: (c, p) |w(right) − w(wrong)|² / Z, Z the mean of w² over both and over the
            patterns there are. NaN also where Z is 0: no pattern has any effect.
    """

    family: Family
    ids: tuple[str, ...]
    kept: IntArray
    right: IntArray
    wrong: IntArray
    clusters: IntArray
    rewards: FloatArray
    dividends: FloatArray
    sensitivities: FloatArray

    @property
    def reward_differences(self) -> FloatArray:
        """(c,) score of right less that of wrong."""
        return np.asarray(self.rewards[:, 0] - self.rewards[:, 1])

    @property
    def dividend_differences(self) -> FloatArray:
        """(c, p) dividend with right less that with wrong."""
        return np.asarray(self.dividends[:, 0] - self.dividends[:, 1])

    @property
    def there(self) -> BoolArray:
        """(c, p) whether the example has the pattern's players."""
        return np.asarray(~np.isnan(self.dividends).any(axis=1))

    @property
    def rows(self) -> list[tuple[str, int, int, int]]:
        """What tells a comparison apart: example, kept, right, wrong."""
        places = np.stack([self.kept, self.right, self.wrong], axis=1).tolist()
        return [(id_, *place) for id_, place in zip(self.ids, places, strict=True)]

    def by_example(self, key: str) -> dict[str, float]:
        """The sensitivity of each example, the mean over its comparisons; those without are out."""
        values = self.sensitivities[:, self.family.keys.index(key)]
        found: dict[str, list[float]] = {}
        for id_, value in zip(self.ids, values.tolist(), strict=True):
            if not math.isnan(value):
                found.setdefault(id_, []).append(value)
        return {id_: sum(each) / len(each) for id_, each in found.items()}


def compare_played(played: Sequence[Played], family: Family) -> Comparisons:
    """Gather the comparisons of one family over all blocks of games.

    A comparison whose scores were not asked is not there.
    """
    clusters = _clusters(played)
    parts = [_of_block(block, family, codes) for block, codes in zip(played, clusters, strict=True)]
    return _joined(parts, family)


def _clusters(played: Sequence[Played]) -> list[IntArray]:
    codes = clusters_of([images for block in played for images in block.images])
    ends = np.cumsum([len(block.ids) for block in played])
    return np.split(codes, ends[:-1]) if played else []


def _of_block(block: Played, family: Family, clusters: IntArray) -> Comparisons:
    example, kept, right, wrong = _pairs(block, family.exchanged)
    whole = block.values[..., -1, -1]
    found = _dividends(block, family.patterns)
    cells = (
        [(example, kept, right), (example, kept, wrong)]
        if family.exchanged == "captions"
        else [(example, right, kept), (example, wrong, kept)]
    )
    rewards = np.stack([whole[cell] for cell in cells], axis=1)
    w = np.stack([found[cell] for cell in cells], axis=1)
    largest = np.maximum(*(_largest(block.values)[cell] for cell in cells))
    missing = np.isnan(w).any(axis=1)
    asked = ~(np.isnan(rewards).any(axis=1) | np.all(missing, axis=1))
    return Comparisons(
        family,
        tuple(block.ids[place] for place in example[asked]),
        kept[asked],
        right[asked],
        wrong[asked],
        clusters[example[asked]],
        rewards[asked],
        w[asked],
        sensitivities_of(w[asked], largest[asked]),
    )


def _pairs(block: Played, exchanged: Exchanged) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Example, kept, right and wrong place of every comparison, in the order of the examples."""
    match = block.match if exchanged == "captions" else block.match.transpose(0, 2, 1)
    chosen = match[:, :, :, None] & ~match[:, :, None, :]
    example, kept, right, wrong = np.nonzero(chosen)
    return example, kept, right, wrong


def _dividends(block: Played, patterns: Iterable[Pattern]) -> FloatArray:
    """(k, m, n, p) the patterns' dividends in every cell; NaN for those without players."""
    tables: dict[tuple[bool, bool], FloatArray] = {}
    found: list[FloatArray] = []
    for pattern in patterns:
        image = _mask(block.image_players, pattern.image)
        text = _mask(block.text_players, pattern.text)
        if image is None or text is None:
            found.append(np.full(block.values.shape[:3], np.nan))
            continue
        kind = (pattern.image is None, pattern.text is None)
        if kind not in tables:
            tables[kind] = _table(block.values, *kind)
        found.append(tables[kind][..., image, text])
    return np.stack(found, axis=-1)


def _table(values: FloatArray, all_regions: bool, all_words: bool) -> FloatArray:
    """Dividends (k, m, n, ·, ·) with nothing hidden in an image, in a caption, or in neither."""
    if all_regions:
        return moebius(values[..., -1, :])[..., None, :]
    if all_words:
        return moebius(values[..., :, -1])[..., :, None]
    return dividends(values)


def _mask(players: tuple[str, ...], pattern: str | None) -> int | None:
    """A pattern's place in its table, where an axis with nothing hidden has the length 1."""
    return 0 if pattern is None else pattern_mask(players, pattern)


def _largest(values: FloatArray) -> FloatArray:
    """(k, m, n) the largest magnitude of each game."""
    known = np.where(np.isnan(values), 0.0, values)
    return np.asarray(np.abs(known).max(axis=(-2, -1)))


def sensitivities_of(w: FloatArray, largest: FloatArray) -> FloatArray:
    """(c, p) sensitivities from the dividends (c, 2, p) of right and wrong.

    Args:
        w: dividends; NaN for patterns that an example has not.
        largest: (c,) the largest magnitude among the games' values, against which dividends are
            nothing but rounding.
    """
    there = ~np.isnan(w).any(axis=1)
    squares = np.where(there, (np.nan_to_num(w) ** 2).sum(axis=1), 0.0)
    counted = 2 * there.sum(axis=1)
    z = np.divide(squares.sum(axis=1), counted, out=np.zeros(len(w)), where=counted > 0)
    effect = z > (NO_EFFECT * largest) ** 2
    change = (w[:, 0] - w[:, 1]) ** 2
    known = there & effect[:, None]
    result = np.full(change.shape, np.nan)
    np.divide(change, z[:, None], out=result, where=known)
    return result


def _joined(parts: Sequence[Comparisons], family: Family) -> Comparisons:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        p = len(family.patterns)
        empty = np.zeros((0, 2, p))
        return Comparisons(
            family, (), none, none, none, none, np.zeros((0, 2)), empty, np.zeros((0, p))
        )
    return Comparisons(
        family,
        tuple(id_ for part in parts for id_ in part.ids),
        np.concatenate([part.kept for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.wrong for part in parts]),
        np.concatenate([part.clusters for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.dividends for part in parts]),
        np.concatenate([part.sensitivities for part in parts]),
    )
