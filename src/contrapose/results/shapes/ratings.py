"""Ratings: one image with one caption, and how well people say they fit (TIFA160, GenAI-Bench).

The tag `rating` is the mean of the people's ratings, `raters` their number. Scores are compared
with ratings by correlations and by the order of pairs of examples. Examples of one prompt are drawn
together: the tag `prompt` names it, and without one the caption does.
"""

from __future__ import annotations

import math

import numpy as np

from contrapose import metrics
from contrapose.arrays import find_distinct
from contrapose.data.examples import RATING
from contrapose.errors import InputError, option
from contrapose.files import parse_count
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.measures import MARGIN, DerivedMetric, Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import prompt_clusters
from contrapose.scores import Frame

MAIN = "kendall"
"""Kendall's τ-b: defined for scores and ratings of any scale, with ties in both."""

SOURCES = ("score", RATING)


def _measure(question: MeasureInput) -> ShapeMeasures:
    answers = question.answers
    frame = answers.frame
    if frame.match.shape[1:] != (1, 1):
        raise InputError(f"{question.card.name} needs 1 image and 1 caption an example.")
    scores = answers.scores[:, 0, 0].astype(np.float64)
    ratings = _read_ratings(frame, question.card.name)
    everywhere = np.ones(len(frame), dtype=np.bool_)
    clusters = prompt_clusters(frame)
    official = question.protocol == "official"
    derived = {
        "pearson": DerivedMetric("pearson", SOURCES),
        "spearman": DerivedMetric("spearman", SOURCES),
        MAIN: DerivedMetric("kendall", SOURCES),
        "pairwise_accuracy": DerivedMetric("pairwise_same" if official else "pairwise", SOURCES),
    }
    measures = {
        "score": Measure(scores, everywhere, shown=False),
        RATING: Measure(ratings, everywhere, better=None, shown=False),
        MARGIN: Measure(_disagreement(scores, ratings), everywhere, better=None, shown=False),
    }
    levels = np.unique(ratings)
    if len(levels) == 2:
        high: BoolArray = ratings == levels[1]
        measures["true_score"] = Measure(scores, high, better="higher", shown=False)
        measures["false_score"] = Measure(scores, ~high, better="lower", shown=False)
        derived["auroc"] = DerivedMetric("auroc", ("true_score", "false_score"), chance=0.5)
    notes = [*answers.notes, *_note_raters(frame)]
    constant = [name for name, values in (("score", scores), (RATING, ratings)) if _alike(values)]
    if constant:
        notes.append(f"every {constant[0]} is the same, so that correlations are not defined")
    else:
        notes += _note_ties(scores, ratings, clusters, official=official)
    units = (frame.ids, frame.tags, clusters)
    return ShapeMeasures(measures, derived, tuple(notes), units)


def _read_ratings(frame: Frame, benchmark: str) -> FloatArray:
    """Rating of each example.

    Raises:
        InputError: one has none, or it is not a finite number.
    """
    values = frame.tags.get(RATING)
    if values is None:
        raise InputError(
            f"{benchmark} needs the ratings: pass {option('root', 'DIR')}, or a score file that "
            "has them."
        )
    distinct, index = find_distinct(values)
    numbers = np.array([_parse_rating(str(value)) for value in distinct])
    bad = ~np.isfinite(numbers)[index]
    if bad.any():
        i = int(bad.argmax())
        raise InputError(f"example {frame.ids[i]}: the rating {str(values[i])!r} is not a number.")
    return np.asarray(numbers[index])


def _parse_rating(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _alike(values: FloatArray) -> bool:
    return bool((values == values[0]).all())


def _disagreement(scores: FloatArray, ratings: FloatArray) -> FloatArray:
    """Distance between the ranks of score and rating, as a share, less that of random ranks, ⅓."""
    ranks = []
    for values in (scores, ratings):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - counts / 2
        ranks.append(middle[inverse] / len(values))
    return np.asarray(np.abs(ranks[0] - ranks[1]) - 1 / 3)


def _note_raters(frame: Frame) -> list[str]:
    counts = [str(value) for value in frame.tags.get("raters", ()) if value]
    known = {parse_count(count) for count in counts}
    numbers = sorted(number for number in known if number is not None)
    if not numbers or numbers[-1] < 2:
        return []
    span = str(numbers[-1]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return [f"a rating is the mean of {span} people"]


def _note_ties(
    scores: FloatArray, ratings: FloatArray, clusters: IntArray, *, official: bool
) -> list[str]:
    """Note on where the threshold of ties comes from, and what it is."""
    if len(scores) < 2:
        return []
    words = "pairwise accuracy: scores that differ by at most ε are tied; "
    exact = metrics.is_threshold_exact(scores)
    calibration = None if official else metrics.calibrate_ties(scores, ratings, clusters)
    same, accuracy = "", 0.0
    if exact or calibration is None:
        threshold, accuracy = metrics.tie_threshold(scores, ratings)
        pairs = "these same pairs" if exact else "a sample of these pairs"
        same = f"ε = {threshold:.4g}, chosen on {pairs}"
    if calibration is None:
        return [words + same]
    low, high = calibration.bounds
    span = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    if not exact:  # of so many pairs the threshold of the same ones is no better
        return [f"{words}ε = {span}, chosen on a sample of pairs of other prompts"]
    return [
        f"{words}ε = {span}, chosen on other prompts ({same}, as the official script has it, gives "
        f"{100 * accuracy:.2f})"
    ]


SHAPE = Shape(
    family="ratings",
    measure=_measure,
    main=MAIN,
    in_average=False,
    contains=("pairwise_accuracy", "auroc"),
)
