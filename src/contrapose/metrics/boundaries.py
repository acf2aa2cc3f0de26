"""Boundary grounding: predict the time at which a video turns from one caption to the next.

For adjacent frames I_t, I_{t+1} and the captions T₁ before and T₂ after the boundary, the grounding
score is s_bg(t) = s(I_t, T₁) + s(I_{t+1}, T₂). The boundary is predicted between the two frames
where it is highest, and is right when within a threshold of the true time (Wang et al., Equivariant
Similarity, 2023, appendix A.6 and table 12; frames at 5 a second).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.types import (
    BoolArray,
    FloatArray,
    IntArray,
    Outcome,
    binary_outcome,
    require_finite,
)

THRESHOLDS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Seconds, as in the paper's table 12."""

SLACK = 1e-9
"""Seconds forgiven: a frame at 0.3 s is within 0.1 s of 0.2 s, whatever binary fractions say."""


def boundary_scores(before: ArrayLike, after: ArrayLike) -> FloatArray:
    """Grounding score s_bg of each pair of adjacent frames, one fewer than there are frames.

    Args:
        before: (F,) each frame's score with the caption before the boundary.
        after: (F,) each frame's score with the caption after it.
    """
    first, second = require_finite(before, "scores"), require_finite(after, "scores")
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(f"frames scored {first.shape} and {second.shape}: not the same.")
    return np.asarray(first[:-1] + second[1:])


def predict_boundary(before: ArrayLike, after: ArrayLike, times: ArrayLike) -> float:
    """Predict the time halfway between the adjacent frames of highest s_bg; first of equals.

    Args:
        before: (F,) scores with the caption before.
        after: (F,) scores with the caption after.
        times: (F,) the frames' times in seconds.
    """
    best = int(boundary_scores(before, after).argmax())
    when = require_finite(times, "times")
    return float((when[best] + when[best + 1]) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class BoundaryPredictions:
    """Predicted boundaries of k queries, and their distances from the true ones.

    Attributes:
        times: (k,) predicted times in seconds, the first of equals.
        errors: (k,) seconds from the true time; the largest of equals, since ties are never wins.
        ties: (k,) whether several pairs of frames share the highest s_bg.
        distances: (pairs,) seconds of every pair of adjacent frames from the true time.
        starts: (k,) where each query's pairs begin.
    """

    times: FloatArray
    errors: FloatArray
    ties: BoolArray
    distances: FloatArray
    starts: IntArray

    def within(self, threshold: float) -> BoolArray:
        """(k,) whether the prediction is within a threshold, in seconds."""
        return self.errors <= threshold + SLACK

    def chance_within(self, threshold: float) -> FloatArray:
        """(k,) chance level: the share of the query's pairs that are within the threshold."""
        near = (self.distances <= threshold + SLACK).astype(np.float64)
        counts = np.diff(np.append(self.starts, len(near)))
        return np.asarray(np.add.reduceat(near, self.starts) / counts)


def predict_boundaries(
    before: ArrayLike, after: ArrayLike, times: ArrayLike, offsets: ArrayLike, truth: ArrayLike
) -> BoundaryPredictions:
    """Predict the boundary of many queries; see `boundary_grounding` for the arguments.

    Raises:
        InputError: shapes do not fit, a query has fewer than two frames, or a number is not finite.
    """
    when, bounds, true = (
        require_finite(times, "times"),
        np.asarray(offsets),
        require_finite(truth, "true times"),
    )
    score = boundary_scores(before, after)
    if when.shape != (len(score) + 1,):
        raise InputError(f"{len(score) + 1} frames are scored but {when.shape} have a time.")
    query, starts = _pairs_by_query(bounds, len(when), len(true))
    within_video = query >= 0
    query, score = query[within_video], score[within_video]
    middle = (when[:-1] + when[1:])[within_video] / 2
    distances = np.abs(middle - true[query])
    best = score == np.maximum.reduceat(score, starts)[query]
    first = np.flatnonzero(best)[np.unique(query[best], return_index=True)[1]]
    return BoundaryPredictions(
        times=middle[first],
        errors=np.maximum.reduceat(np.where(best, distances, -np.inf), starts),
        ties=np.add.reduceat(best.astype(np.int64), starts) > 1,
        distances=distances,
        starts=starts,
    )


def boundary_grounding(
    before: ArrayLike,
    after: ArrayLike,
    times: ArrayLike,
    offsets: ArrayLike,
    truth: ArrayLike,
    thresholds: Sequence[float] = THRESHOLDS,
) -> dict[str, Outcome]:
    """Accuracy of predicted boundaries within each threshold, and the mean over thresholds.

    Several pairs of frames may share the highest s_bg; since ties are never wins, all of them must
    then lie within the threshold. The chance level is that of a pair taken at random, the share of
    pairs within the threshold.

    Args:
        before: (ΣF,) scores with the caption before, all queries' frames one after the other.
        after: (ΣF,) scores with the caption after.
        times: (ΣF,) the frames' times in seconds.
        offsets: (k + 1,) where each query's frames begin, and the end.
        truth: (k,) true times in seconds.
        thresholds: in seconds.

    Returns:
        `within_0.1s` … `within_3s`, and `average`.

    Raises:
        InputError: shapes do not fit, a query has fewer than two frames, or a number is not finite.
    """
    predicted = predict_boundaries(before, after, times, offsets, truth)
    named = {
        f"within_{threshold:g}s": binary_outcome(
            predicted.within(threshold),
            predicted.ties,
            float(predicted.chance_within(threshold).mean()),
        )
        for threshold in thresholds
    }
    named["average"] = Outcome(
        np.mean([outcome.values for outcome in named.values()], axis=0),
        predicted.ties,
        float(
            np.mean([outcome.chance for outcome in named.values() if outcome.chance is not None])
        ),
    )
    return named


def _pairs_by_query(bounds: IntArray, frames: int, queries: int) -> tuple[IntArray, IntArray]:
    """Query of each pair of adjacent frames (−1 across two), and where each query begins."""
    lengths = np.diff(bounds)
    if bounds.shape != (queries + 1,) or not queries or bounds[0] != 0 or bounds[-1] != frames:
        raise InputError(f"offsets must be {queries + 1} positions from 0 to {frames}.")
    if (lengths < 2).any():
        raise InputError(f"query {int((lengths < 2).argmax())} has fewer than two frames.")
    query = np.repeat(np.arange(queries), lengths)[:-1]
    query[bounds[1:-1] - 1] = -1
    return query, bounds[:-1] - np.arange(queries)
