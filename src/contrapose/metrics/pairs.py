"""Text, image and group score of m images × n captions, for any match matrix.

Winoground's scores (m = n = 2, matching along the diagonal) are the best known case: text asks for
`s(I0,T0) > s(I0,T1)` and `s(I1,T1) > s(I1,T0)`, image for the same down the columns, group for
both. One image with n captions of which one is right has a text score only, its accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.chance import group_chance, image_chance, text_chance
from contrapose.metrics.outcome import Outcome, decided
from contrapose.metrics.types import BoolArray, FloatArray, of_shape, wide

Ties = Literal["wrong", "right"]
"""What a tie is: wrong everywhere by default, right in the argmax protocols of some harnesses."""

Choices = Literal["captions", "images"]


def text_score(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """In every image's row each right caption scores above each wrong one.

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
    cells = _checked(scores, match, present)
    wins, tied = _won(cells, "captions", ties)
    return decided(wins, tied, text_chance(*cells.patterns()))


def image_score(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """In every caption's column each right image scores above each wrong one.

    Arguments and errors are those of `text_score`.
    """
    cells = _checked(scores, match, present)
    wins, tied = _won(cells, "images", ties)
    return decided(wins, tied, image_chance(*cells.patterns()))


def group_score(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """Text and image score both hold.

    Arguments and errors are those of `text_score`.
    """
    cells = _checked(scores, match, present)
    text, text_tied = _won(cells, "captions", ties)
    image, image_tied = _won(cells, "images", ties)
    return decided(text & image, text_tied | image_tied, group_chance(*cells.patterns()))


def accuracy(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, *, ties: Ties = "wrong"
) -> Outcome:
    """The right captions of one image score above its wrong ones: the text score of 1 × n.

    Arguments and errors are those of `text_score`, with m = 1.
    """
    of_shape(np.asarray(scores), (None, 1, None), "scores for the accuracy")
    return text_score(scores, match, present, ties=ties)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Scores (k, m, n) with their right and wrong cells, broadcast where examples share them."""

    scores: FloatArray
    right: BoolArray
    wrong: BoolArray
    present: BoolArray | None

    def patterns(self) -> tuple[BoolArray, BoolArray | None]:
        """Right and present cells for the chance level: of one example where all are alike."""
        alike = self.right.strides[0] == 0 and self.present is None
        return (self.right[:1] if alike else self.right), self.present


def _checked(scores: ArrayLike, match: ArrayLike, present: ArrayLike | None) -> _Cells:
    shape = of_shape(np.asarray(scores), (None, None, None), "scores").shape
    match_ = np.asarray(match, dtype=np.bool_)
    right, wrong = _for_each(match_, shape, "match"), _for_each(~match_, shape, "match")
    if present is None:
        return _Cells(wide(scores), right, wrong, None)
    standing = _for_each(present, shape, "present")
    return _Cells(wide(scores, present=standing), right & standing, wrong & standing, standing)


def _for_each(cells: ArrayLike, shape: tuple[int, ...], what: str) -> BoolArray:
    array = np.asarray(cells, dtype=np.bool_)
    if array.shape not in (shape, shape[1:]):
        raise InputError(f"{what} must be of shape {shape} or {shape[1:]}, not {array.shape}.")
    return np.broadcast_to(array, shape)


def _won(cells: _Cells, choices: Choices, ties: Ties) -> tuple[BoolArray, BoolArray]:
    """Whether an example's right choices beat the wrong ones, and whether one that decides ties.

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
