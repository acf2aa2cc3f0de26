"""Text, image and group score of m images × n captions, and the equivariance score.

Winoground's scores (m = n = 2, matching along the diagonal) are the best known case: text asks for
`s(I0,T0) > s(I0,T1)` and `s(I1,T1) > s(I1,T0)`, image for the same down the columns, group for
both. One image with n captions of which one is right has a text score only, its accuracy.

For a 2 × 2 example with scores S (images down, captions across) EqSim's second loss asks that
turning caption 0 into caption 1 costs image 0 as much as turning caption 1 into caption 0 costs
image 1, and the same with images and captions exchanged (Wang et al., Equivariant Similarity for
Vision-Language Foundation Models, 2023, section 3 and figure 6):

    e_text  = (S₀₀ − S₀₁) − (S₁₁ − S₁₀)
    e_image = (S₀₀ − S₁₀) − (S₁₁ − S₀₁)

Both are zero for a symmetric S with a constant diagonal. A tighter distribution around zero is more
equivariant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.chance import group_chance, image_chance, text_chance
from contrapose.metrics.statistics.statistic import (
    Statistic,
    divide,
    mean_of,
    standard_deviation,
)
from contrapose.metrics.types import (
    ROUNDING,
    BoolArray,
    FloatArray,
    Outcome,
    binary_outcome,
    require_finite,
    require_shape,
    widen,
)

Ties = Literal["wrong", "right"]
"""What a tie is: wrong everywhere by default, right in the argmax protocols of some harnesses."""

ChoiceSide = Literal["captions", "images"]


def text_score(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """Text score: in every image's row each right caption scores above each wrong one.

    A row without a right caption or without a wrong one asks nothing and is passed over.

    Args:
        scores: (k, m, n) scores of k examples with m images and n captions.
        match: which image and caption belong together, (k, m, n) or one (m, n) for all.
        present: which cells stand for a real pair, shaped as `match`; None means all. Examples of
            several shapes are padded to one.
        ties: "right" counts a tie between a right and a wrong caption as won.

    Raises:
        InputError: a shape does not fit, a score is NaN, or an example has no row to decide.
    """
    cells = _check_cells(scores, match, present)
    wins, tied = _decide(cells, "captions", ties)
    return binary_outcome(wins, tied, text_chance(*cells.patterns()))


def image_score(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """Image score: in every caption's column each right image scores above each wrong one.

    Arguments and errors are those of `text_score`.
    """
    cells = _check_cells(scores, match, present)
    wins, tied = _decide(cells, "images", ties)
    return binary_outcome(wins, tied, image_chance(*cells.patterns()))


def group_score(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """Group score: text and image score both hold.

    Arguments and errors are those of `text_score`.
    """
    cells = _check_cells(scores, match, present)
    text, text_tied = _decide(cells, "captions", ties)
    image, image_tied = _decide(cells, "images", ties)
    return binary_outcome(text & image, text_tied | image_tied, group_chance(*cells.patterns()))


LARGEST_GROUP = 6
"""Most images of an example whose matchings are listed, all 720 of them."""


def group_match(scores: ArrayLike, match: ArrayLike) -> Outcome:
    """GroupMatch: the true matching of m images and m captions has the highest sum of scores.

    Sums that differ by rounding alone are tied, and a tie is wrong. Chance is 1/m!. (Test-Time
    Matching, arXiv:2510.07632.)

    Args:
        scores: (k, m, m) scores of k examples.
        match: (k, m, m) or (m, m), one caption for each image.

    Raises:
        InputError: another shape, a match that is no matching, or m above `LARGEST_GROUP`.
    """
    cells = _check_cells(scores, match, None)
    m, n = cells.scores.shape[1:]
    lines = [cells.right.sum(axis=axis) for axis in (1, 2)]
    if m != n or not 1 <= m <= LARGEST_GROUP or any((line != 1).any() for line in lines):
        raise InputError(
            f"a matching needs as many captions as images, at most {LARGEST_GROUP}, one for each."
        )
    orders = np.array(list(permutations(range(m))))
    wide = cells.scores.astype(np.float64)
    sums = wide[:, np.arange(m), orders].sum(axis=2)
    true = (cells.right.argmax(axis=2)[:, None, :] == orders).all(axis=2)
    right = sums[true]
    best = np.where(true, -np.inf, sums).max(axis=1)
    tied = np.abs(right - best) <= ROUNDING * np.abs(wide).sum(axis=(1, 2))
    return binary_outcome((right > best) & ~tied, tied, 1 / math.factorial(m))


def pair_wins(
    scores: ArrayLike,
    match: ArrayLike,
    present: ArrayLike | None,
    score: Literal["text", "image"],
    *,
    ties: Ties = "wrong",
) -> tuple[BoolArray, BoolArray]:
    """Wins and ties of the text or the image score, without a chance level.

    Arguments and errors are those of `text_score`.
    """
    cells = _check_cells(scores, match, present)
    return _decide(cells, "captions" if score == "text" else "images", ties)


def accuracy(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """Accuracy: the right captions of one image score above its wrong ones (1 × n text score).

    Arguments and errors are those of `text_score`, with m = 1.
    """
    require_shape(np.asarray(scores), (None, 1, None), "scores for the accuracy")
    return text_score(scores, match, present, ties=ties)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Scores (k, m, n) with their right and wrong cells, broadcast where examples share them."""

    scores: FloatArray
    right: BoolArray
    wrong: BoolArray
    present: BoolArray | None

    def patterns(self) -> tuple[BoolArray, BoolArray | None]:
        """Right and present cells for the chance level; one example's where all are equal."""
        alike = self.right.strides[0] == 0 and self.present is None
        return (self.right[:1] if alike else self.right), self.present


def _check_cells(scores: ArrayLike, match: ArrayLike, present: ArrayLike | None) -> _Cells:
    shape = require_shape(np.asarray(scores), (None, None, None), "scores").shape
    match_ = np.asarray(match, dtype=np.bool_)
    right, wrong = (
        _broadcast_cells(match_, shape, "match"),
        _broadcast_cells(~match_, shape, "match"),
    )
    if present is None:
        return _Cells(widen(scores), right, wrong, None)
    standing = _broadcast_cells(present, shape, "present")
    return _Cells(widen(scores, present=standing), right & standing, wrong & standing, standing)


def _broadcast_cells(cells: ArrayLike, shape: tuple[int, ...], what: str) -> BoolArray:
    array = np.asarray(cells, dtype=np.bool_)
    if array.shape not in (shape, shape[1:]):
        raise InputError(f"{what} must be of shape {shape} or {shape[1:]}, not {array.shape}.")
    return np.broadcast_to(array, shape)


def _decide(cells: _Cells, choices: ChoiceSide, ties: Ties) -> tuple[BoolArray, BoolArray]:
    """Whether each example's right choices beat the wrong ones, and whether a deciding one ties.

    The choices are the captions of each image, or the images of each caption. Their axis is put
    first: reducing over a short last axis is many times slower.
    """
    if ties not in ("wrong", "right"):
        raise InputError(f"ties must be 'wrong' or 'right', not {ties!r}.")
    axis = 2 if choices == "captions" else 1
    scores = np.ascontiguousarray(np.moveaxis(cells.scores, axis, 0))
    right, wrong = np.moveaxis(cells.right, axis, 0), np.moveaxis(cells.wrong, axis, 0)
    decides = np.asarray(right.any(axis=0) & wrong.any(axis=0))
    idle = ~np.asarray(decides.any(axis=1))
    if idle.any():
        raise InputError(
            f"example {int(idle.argmax())} has no right and wrong {choices} to tell apart, so it "
            f"has no {'text' if axis == 2 else 'image'} score."
        )
    least_right = np.where(right, scores, np.inf).min(axis=0)
    most_wrong = np.where(wrong, scores, -np.inf).max(axis=0)
    tied = decides & (least_right == most_wrong)
    won = (least_right > most_wrong) | ~decides
    if ties == "right":
        won |= tied
    return won.all(axis=1), tied.any(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Equivariance:
    """The two equivariance scores of k examples.

    Attributes:
        text: (k,) e_text.
        image: (k,) e_image.
    """

    text: FloatArray
    image: FloatArray

    def statistics(self) -> dict[str, Statistic]:
        """Statistics of each side: `text_mean`, `text_std`, `text_mean_abs`, `image_…`."""
        named: dict[str, Statistic] = {}
        for side, values in (("text", self.text), ("image", self.image)):
            named[f"{side}_mean"] = mean_of(values)
            named[f"{side}_std"] = standard_deviation(values)
            named[f"{side}_mean_abs"] = mean_of(np.abs(values))
        return named

    def summary(self) -> dict[str, float]:
        """The values of `statistics`."""
        return {name: statistic.value() for name, statistic in self.statistics().items()}


def equivariance(scores: ArrayLike, *, standardize: bool = True) -> Equivariance:
    """Equivariance scores of 2 × 2 examples, in standard deviations of the scores given.

    The scores are standardized so that models with other scales can be compared. Give the scores
    of the subset that is reported and no others: a subset's value then does not depend on which
    other subsets there are.

    Args:
        scores: (k, 2, 2) scores[i, image, caption], matching along the diagonal.
        standardize: False leaves the scores as they are, for `standardized_spread`.

    Raises:
        InputError: another shape, or a score that is NaN or infinite.
    """
    raw = require_shape(require_finite(scores, "scores"), (None, 2, 2), "scores for equivariance")
    spread = float(raw.std()) if raw.size and standardize else 0.0
    # Scores that are all alike differ by nothing, whatever they are divided by.
    s = raw / spread if spread > 0 else raw
    text = (s[:, 0, 0] - s[:, 0, 1]) - (s[:, 1, 1] - s[:, 1, 0])
    image = (s[:, 0, 0] - s[:, 1, 0]) - (s[:, 1, 1] - s[:, 0, 1])
    return Equivariance(text, image)


def standardized_spread(
    values: ArrayLike,
    means: ArrayLike,
    variances: ArrayLike,
    of: Literal["std", "mean_abs"],
    weights: ArrayLike | None = None,
) -> Statistic:
    """Spread of the equivariance score over the standard deviation of the scores themselves.

    Both are functions of totals over the same examples, so that a resample is standardized by its
    own scores, and a subset by those of the subset.

    Args:
        values: (k,) equivariance scores of the raw scores.
        means: (k,) mean of each example's scores.
        variances: (k,) population variance of each example's scores about their mean.
        of: standard deviation, or mean absolute value.
        weights: (k,) how much an example counts; None: all alike.
    """
    e, mean, variance = (
        np.asarray(array, dtype=np.float64) for array in (values, means, variances)
    )
    w = np.ones(len(e)) if weights is None else np.asarray(weights, dtype=np.float64)
    counted = w > 0
    center = float(mean[counted].mean()) if counted.any() else 0.0
    mean = np.where(counted, mean - center, 0.0)
    powers = [e, e**2] if of == "std" else [np.abs(e)]
    columns = np.stack(
        [w * column for column in (np.ones_like(e), mean, mean**2 + variance, *powers)]
    ).T

    def formula(totals: FloatArray) -> FloatArray:
        mean, square, size, *more = divide(totals[:, 1:], totals[:, :1]).T
        scale = np.sqrt(np.maximum(square - mean**2, 0.0))
        if more:
            size = np.sqrt(np.maximum(more[0] - size**2, 0.0))
        # Scores that are all alike differ by nothing, whatever they are divided by.
        return np.asarray(np.divide(size, scale, out=np.array(size), where=scale > 0))

    return Statistic(columns, formula)
