"""Filter of minimal pairs by an image-text score: each image prefers its own caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.build.minimal_pairs import ChosenPairs
from contrapose.data import Example, ImageRef
from contrapose.data.examples import diagonal_match
from contrapose.engine import (
    SCORES,
    TEXT_ONLY_SCORES,
    ScoringContext,
    default_scores,
    require_score,
    score_examples,
)
from contrapose.errors import InputError, option
from contrapose.files import safe_join
from contrapose.metrics import FloatArray
from contrapose.models import Model

PREFERRED, STRONG = "own caption preferred", "score high enough"
"""Names of the filters in the manifest."""


@dataclass(frozen=True, slots=True)
class ScoreFilter:
    """Filter that keeps pairs whose own caption beats the other one, for both images.

    Attributes:
        context: the model, and where its scores are stored.
        score: name of the score.
        margin: by how much the own caption must score more, strictly.
        minimum: least score of each image with its own caption; None for any.
    """

    context: ScoringContext
    score: str
    margin: float = 0.0
    minimum: float | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Settings, as the manifest has them."""
        return {
            "model": self.context.model.name,
            "score": self.score,
            "margin": self.margin,
            "min_score": self.minimum,
        }

    def choose(self, rows: Sequence[Mapping[str, Any]], folder: Path) -> ChosenPairs:
        """Score the pairs of a set and choose those that pass; both values become tags.

        Args:
            rows: pairs with `id`, `images` relative to the folder, and `captions`.
            folder: the set.
        """
        if not rows:
            return ChosenPairs({}, {PREFERRED: 0})
        scores = score_rows(self.context, self.score, rows, folder)
        right = np.diagonal(scores, axis1=1, axis2=2).min(axis=1)
        margins = compute_margins(scores)
        preferred = margins > self.margin  # NaN, of a pair that was skipped, is not
        kept = preferred if self.minimum is None else preferred & (right >= self.minimum)
        counts = {PREFERRED: int(preferred.sum())}
        if self.minimum is not None:
            counts[STRONG] = int(kept.sum())
        tags = {
            str(rows[i]["id"]): {"margin": f"{margins[i]:.6g}", "score": f"{right[i]:.6g}"}
            for i in np.flatnonzero(kept).tolist()
        }
        return ChosenPairs(tags, counts)


def compute_margins(scores: FloatArray) -> FloatArray:
    """(n,) smaller lead of the own caption of (n, 2, 2) scores, images × captions."""
    first = scores[:, 0, 0] - scores[:, 0, 1]
    second = scores[:, 1, 1] - scores[:, 1, 0]
    return np.minimum(first, second)


def score_rows(
    context: ScoringContext, score: str, rows: Sequence[Mapping[str, Any]], folder: Path
) -> FloatArray:
    """(n, 2, 2) scores of pairs, images × captions; NaN where an image cannot be read."""
    examples = [
        Example(
            str(row["id"]),
            tuple(ImageRef(name, safe_join(folder, name)) for name in row["images"]),
            tuple(row["captions"]),
            diagonal_match(2),
        )
        for row in rows
    ]
    return np.asarray(score_examples(context, score, examples).scores, dtype=np.float64)


def split_filter(text: str) -> tuple[str, str | None]:
    """Split `MODEL:score` into the model string and the score; None where it names no score."""
    model, _, score = text.rpartition(":")
    return (model, score) if model and score in SCORES else (text, None)


def choose_score(model: Model, score: str | None) -> str:
    """Score to filter by: the one that is named, or the model's first that sees the image.

    Raises:
        InputError: the model cannot give it, or it sees no image.
    """
    chosen = score or default_scores(model)[0]
    if chosen in (*TEXT_ONLY_SCORES, "chat"):
        raise InputError(
            f"{option('filter_by')} compares an image with captions, which {chosen!r} of "
            f"{model.name} does not."
        )
    require_score(model, chosen)
    return chosen
