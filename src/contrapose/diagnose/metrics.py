"""The fourteen metrics of a diagnosis: sensitivities of patterns of players, with their statistics.

On the text side (Q) one image meets a right and a wrong caption, and no region is hidden; on the
image side (D) one caption meets a right and a wrong image, and no word is hidden. The mutual
metrics measure patterns over both: T:R&O->I:O1 is the dividend of the words R and O together with
the region O1, over both sets of players at once (equations 5 and 6 of the paper).

Every image of an example is compared with each of its right captions against each of its wrong
ones, every caption with each of its right images against each of its wrong ones. An example of
2 × 2 gives two comparisons per side, one of 1 × 2 one on the text side and none on the image side.
A pattern whose players only one of the two has counts, with dividend 0 in the other.

Means, ρ and accuracy are over comparisons. Intervals are percentile intervals of a bootstrap over
images, with all comparisons that share them. Nothing is ever NaN: an undefined value is None, with
a note that gives the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrapose.diagnose.game_blocks import GameBlock, largest_magnitude, pattern_dividends
from contrapose.diagnose.players import Exchange
from contrapose.metrics import (
    BoolArray,
    FloatArray,
    IntArray,
    Statistic,
    clusters_of,
    correlation_of,
    intervals,
    mean_of,
)
from contrapose.metrics.dividends import compute_sensitivities
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.metrics.statistics.shares import FEWEST_UNITS
from contrapose.results.schema import SchemaModel

MetricSide = Literal["text", "image", "mutual"]


@dataclass(frozen=True, slots=True)
class MetricPattern:
    """Pattern of players that one metric measures.

    Attributes:
        key: the metric's name.
        image: the pattern of regions; None when no region is hidden.
        text: the pattern of words; None when no word is hidden.
    """

    key: str
    image: str | None
    text: str | None

    @property
    def players(self) -> str:
        """Players in words: "R and O with O1 and O2"."""
        parts = (self.text, self.image)
        return " with ".join(part.replace("&", " and ") for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Family of metrics measured on the same comparisons and normalized together.

    Attributes:
        name: unique.
        side: the side it is reported under.
        exchanged: what differs between right and wrong; the other is the same.
        patterns: the reported patterns; the normalizer Z is a mean over them.
    """

    name: str
    side: MetricSide
    exchanged: Exchange
    patterns: tuple[MetricPattern, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the family's metrics."""
        return tuple(pattern.key for pattern in self.patterns)


FAMILIES = (
    MetricFamily(
        "text",
        "text",
        "captions",
        tuple(MetricPattern(f"Q_{words}", None, words) for words in ("O", "R", "A", "R&O", "A&O")),
    ),
    MetricFamily(
        "image",
        "image",
        "images",
        tuple(MetricPattern(f"D_{regions}", regions, None) for regions in ("O1", "O2", "O1&O2")),
    ),
    MetricFamily(
        "text to image",
        "mutual",
        "captions",
        tuple(
            MetricPattern(f"Q_T:R&O->I:{regions}", regions, "R&O")
            for regions in ("O1", "O2", "O1&O2")
        ),
    ),
    MetricFamily(
        "image to text",
        "mutual",
        "images",
        tuple(
            MetricPattern(f"D_I:O1&O2->T:{words}", "O1&O2", words) for words in ("R", "O", "R&O")
        ),
    ),
)

METRIC_KEYS = tuple(key for family in FAMILIES for key in family.keys)
"""Names of the fourteen metrics, in the order of reports."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Comparisons of right with wrong in one metric family: c comparisons, p patterns each.

    Attributes:
        family: the metric family.
        ids: (c,) the example of each comparison.
        kept: (c,) position of the image (or caption) that is compared with both.
        right: (c,) the right caption (or image).
        wrong: (c,) the wrong one.
        clusters: (c,) codes; comparisons that share an image, directly or through others, have one.
        rewards: (c, 2) the score of right and wrong with all players present.
        dividends: (c, 2, p) the patterns' dividends: 0 where one of the two lacks a player, NaN
            where both lack one.
        sensitivities: (c, p) |w(right) − w(wrong)|² / Z, Z the mean of w² over both and over the
            patterns present. NaN also where Z is 0: no pattern has any effect.
    """

    family: MetricFamily
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
        """(c,) score of right minus score of wrong."""
        return np.asarray(self.rewards[:, 0] - self.rewards[:, 1])

    @property
    def dividend_differences(self) -> FloatArray:
        """(c, p) dividend with right minus dividend with wrong."""
        return np.asarray(self.dividends[:, 0] - self.dividends[:, 1])

    @property
    def present(self) -> BoolArray:
        """(c, p) whether right or wrong has the pattern's players."""
        return np.asarray(~np.isnan(self.dividends).any(axis=1))

    @property
    def rows(self) -> list[tuple[str, int, int, int]]:
        """Key of each comparison: example, kept, right, wrong."""
        positions = np.stack([self.kept, self.right, self.wrong], axis=1).tolist()
        return [(id_, *row) for id_, row in zip(self.ids, positions, strict=True)]


def build_comparisons(blocks: Sequence[GameBlock], family: MetricFamily) -> Comparisons:
    """Build the comparisons of one family over all blocks; unscored ones are left out."""
    clusters = _cluster_codes(blocks)
    parts = [
        _compare_block(block, family, codes) for block, codes in zip(blocks, clusters, strict=True)
    ]
    return _concatenate(parts, family)


def _cluster_codes(blocks: Sequence[GameBlock]) -> list[IntArray]:
    codes = clusters_of([images for block in blocks for images in block.images])
    ends = np.cumsum([len(block.ids) for block in blocks])
    return np.split(codes, ends[:-1]) if blocks else []


def _compare_block(block: GameBlock, family: MetricFamily, clusters: IntArray) -> Comparisons:
    match = block.match if family.exchanged == "captions" else block.match.transpose(0, 2, 1)
    example, kept, right, wrong = np.nonzero(match[:, :, :, None] & ~match[:, :, None, :])
    scores = block.values[..., -1, -1]
    by_pattern = pattern_dividends(block, [(one.image, one.text) for one in family.patterns])
    cells = (
        [(example, kept, right), (example, kept, wrong)]
        if family.exchanged == "captions"
        else [(example, right, kept), (example, wrong, kept)]
    )
    rewards = np.stack([scores[cell] for cell in cells], axis=1)
    w = np.stack([by_pattern[cell] for cell in cells], axis=1)
    has = np.stack([block.has_pattern(one.image, one.text) for one in family.patterns], axis=-1)
    w[np.broadcast_to(~(has[cells[0]] | has[cells[1]])[:, None], w.shape)] = np.nan
    largest = np.maximum(*(largest_magnitude(block.values)[cell] for cell in cells))
    missing = np.isnan(w).any(axis=1)
    known = ~(np.isnan(rewards).any(axis=1) | np.all(missing, axis=1))
    return Comparisons(
        family,
        tuple(block.ids[row] for row in example[known]),
        kept[known],
        right[known],
        wrong[known],
        clusters[example[known]],
        rewards[known],
        w[known],
        compute_sensitivities(w[known], largest[known]),
    )


def _concatenate(parts: Sequence[Comparisons], family: MetricFamily) -> Comparisons:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        p = len(family.patterns)
        empty = np.zeros((0, 2, p))
        return Comparisons(
            family, (), none, none, none, none, np.zeros((0, 2)), empty, np.zeros((0, p))
        )
    arrays = ("kept", "right", "wrong", "clusters", "rewards", "dividends", "sensitivities")
    return Comparisons(
        family,
        tuple(id_ for part in parts for id_ in part.ids),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in arrays),
    )


Range = tuple[float, float]


class Sensitivity(SchemaModel):
    """One of the fourteen metrics of a model, with its statistics.

    Attributes:
        side: text, image or mutual.
        value: mean sensitivity; null when there is none.
        ci95: 95 % percentile bootstrap interval, drawn by image.
        rho: Pearson correlation of the score's difference with the dividend's.
        rho_ci95: its interval.
        n: comparisons of right with wrong that have the metric's players.
        examples: examples they come from.
        accuracy: share of the same comparisons in which right scores above wrong.
        accuracy_ci95: its interval.
        notes: reasons why a value is null or a comparison is left out.
    """

    side: MetricSide
    value: float | None
    ci95: Range | None
    rho: float | None
    rho_ci95: Range | None
    n: int
    examples: int
    accuracy: float | None
    accuracy_ci95: Range | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """All fourteen metrics of one model, with the comparisons they are computed from.

    Attributes:
        metrics: by key, always all fourteen; one without comparisons has the count 0 and a note.
        comparisons: by the name of the family.
    """

    metrics: Mapping[str, Sensitivity]
    comparisons: Mapping[str, Comparisons]


def diagnose_blocks(
    blocks: Sequence[GameBlock], *, resamples: int = RESAMPLES, seed: int = 0
) -> Diagnosis:
    """Compute all fourteen metrics from blocks of games.

    Args:
        blocks: games of one model; each example stands in one block.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        InputError: a score is infinite.
    """
    comparisons = {family.name: build_comparisons(blocks, family) for family in FAMILIES}
    metrics = {
        key: one
        for family in FAMILIES
        for key, one in zip(
            family.keys,
            _measure_family(comparisons[family.name], blocks, resamples, seed),
            strict=True,
        )
    }
    return Diagnosis(metrics, comparisons)


def _measure_family(
    compared: Comparisons, blocks: Sequence[GameBlock], resamples: int, seed: int
) -> list[Sensitivity]:
    patterns = compared.family.patterns
    statistics = [
        one for column in range(len(patterns)) for one in _pattern_statistics(compared, column)
    ]
    values = [None if math.isnan(v := one.value()) else v for one in statistics]
    bounds: list[Range | None] = []
    if compared.ids:
        drawn = intervals(statistics, clusters=compared.clusters, resamples=resamples, seed=seed)
        bounds = [None if math.isnan(low) else (low, high) for low, high in drawn]
    measured = []
    for column in range(len(patterns)):
        present = compared.present[:, column]
        mean, rho, right = values[3 * column : 3 * column + 3]
        several = np.unique(compared.clusters[present]).size >= FEWEST_UNITS
        ci, rho_ci, right_ci = bounds[3 * column : 3 * column + 3] if several else [None] * 3
        measured.append(
            Sensitivity(
                side=compared.family.side,
                value=mean,
                ci95=None if mean is None else ci,
                rho=rho,
                rho_ci95=None if rho is None else rho_ci,
                n=int(present.sum()),
                examples=len({compared.ids[row] for row in np.flatnonzero(present)}),
                accuracy=right,
                accuracy_ci95=None if right is None else right_ci,
                notes=tuple(_pattern_notes(compared, column, rho, blocks)),
            )
        )
    return measured


def _pattern_statistics(
    compared: Comparisons, column: int
) -> tuple[Statistic, Statistic, Statistic]:
    """Mean sensitivity, ρ and accuracy of one pattern, over the comparisons that have it."""
    sensitivity = compared.sensitivities[:, column]
    defined = ~np.isnan(sensitivity)
    difference = compared.dividend_differences[:, column]
    present = (~np.isnan(difference)).astype(np.float64)
    reward = compared.reward_differences
    return (
        mean_of(np.where(defined, sensitivity, 0.0), defined.astype(np.float64), share=False),
        correlation_of(reward, np.nan_to_num(difference), present),
        mean_of((reward > 0).astype(np.float64), present),
    )


def _pattern_notes(
    compared: Comparisons, column: int, rho: float | None, blocks: Sequence[GameBlock]
) -> list[str]:
    pattern = compared.family.patterns[column]
    present = compared.present[:, column]
    if not present.any():
        return [_absence_reason(compared.family, pattern, blocks)]
    notes = []
    idle = int((present & np.isnan(compared.sensitivities[:, column])).sum())
    if idle:
        notes.append(
            f"{idle} of {int(present.sum())} comparisons are not in the mean: no pattern has any "
            "effect on their scores."
        )
    if rho is None:
        still = "dividend" if compared.reward_differences[present].std() > 0 else "score"
        notes.append(f"ρ is undefined: the differences of the {still} do not vary.")
    images = np.unique(compared.clusters[present]).size
    if images < FEWEST_UNITS:
        share = "all comparisons share one image" if images == 1 else f"there are {images} images"
        notes.append(f"no interval: {share}, fewer than {FEWEST_UNITS}.")
    return notes


def _absence_reason(
    family: MetricFamily, pattern: MetricPattern, blocks: Sequence[GameBlock]
) -> str:
    able = [block for block in blocks if block.has_pattern(pattern.image, pattern.text).any()]
    if not able:
        return f"no example has the players {pattern.players}."
    matches = [
        block.match if family.exchanged == "captions" else block.match.transpose(0, 2, 1)
        for block in able
    ]
    if not any((match.any(axis=2) & ~match.all(axis=2)).any() for match in matches):
        return f"no example has both right and wrong {family.exchanged}."
    return "its scores were not asked."
