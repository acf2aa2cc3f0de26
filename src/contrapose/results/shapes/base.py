"""Declaration of a shape of benchmarks: its metrics, and all that is done differently for it.

Everything that depends on a benchmark's family is a property of its `Shape`: metrics, main metric,
debiasing, blind audit and chat. A shape is one module of this package, named by its family, with a
value `SHAPE`; it is imported when a benchmark of that family is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from contrapose.data import Card, EditSet, Gallery, TagValue
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.metrics.likelihood import subtract_prior
from contrapose.results.measures import DerivedMetric, Measure
from contrapose.scores import Answers, Frame

if TYPE_CHECKING:
    from contrapose.metrics import AlphaIntervals
    from contrapose.scores.outcomes import ChoiceOutcomes
    from contrapose.scores.rankings import ComposedRankings

Protocol = Literal["strict", "official"]

AVERAGE = "average"
"""The mean of several metrics: of a suite's parts, or of a benchmark's headline metrics."""


@dataclass(frozen=True, slots=True, eq=False)
class MatrixScores:
    """Scores of a gallery (images × texts) or of edit queries (queries × database images).

    Attributes:
        scores: the matrix, without NaN.
        data: the gallery or the edit set.
        from_text: images × texts by which the images of a text are ranked; None takes `scores`.
    """

    scores: FloatArray
    data: Gallery | EditSet
    from_text: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MeasureInput:
    """Input of measuring: scores, card, protocol and threshold.

    Attributes:
        scores: of examples, the matrix of a gallery or edit set, rankings, or outcomes.
        card: the benchmark's card; its family names the shape.
        protocol: "strict", where ties are never wins, or the rules of the official script.
        threshold: above it a caption counts as fitting (VALSE's p_c and p_f); None takes ½ for
            scores that are all probabilities and leaves those metrics out otherwise.
        caption_scores: scores that decide between captions, if others than the answers': with the
            language prior removed. They never touch the choice between images.
        dev: scores of other examples, on which a threshold is chosen; None has none.
        cosines: whether the scores are cosines, which are no probabilities between 0 and 1 either.
    """

    scores: Answers | MatrixScores | ComposedRankings | ChoiceOutcomes
    card: Card
    protocol: Protocol = "strict"
    threshold: float | None = None
    caption_scores: FloatArray | None = None
    dev: Answers | None = None
    cosines: bool = False

    @property
    def answers(self) -> Answers:
        """Scores of examples."""
        if not isinstance(self.scores, Answers):
            raise InputError(f"{self.card.name} needs scores of examples, not a matrix.")
        return self.scores

    @property
    def matrix(self) -> MatrixScores:
        """Score matrix of a gallery or an edit set."""
        if not isinstance(self.scores, MatrixScores):
            raise InputError(f"{self.card.name} needs a matrix, not scores of examples.")
        return self.scores

    @property
    def ties(self) -> Literal["wrong", "right"]:
        """Outcome of a tie: wrong, or right under some official protocols."""
        return self.card.official_ties if self.protocol == "official" else "wrong"

    @property
    def by_caption(self) -> FloatArray:
        """Scores that decide between captions."""
        return self.answers.scores if self.caption_scores is None else self.caption_scores

    def choose_threshold(self, scores: FloatArray) -> float | None:
        """Threshold of the request; ½ for scores that may be probabilities (no cosines)."""
        probable = not self.cosines and scores.min() >= 0 and scores.max() <= 1
        return 0.5 if self.threshold is None and probable else self.threshold

    def without_prior(self, alpha: float, log_prior: FloatArray) -> MeasureInput:
        """Input with α of the captions' log prior removed where captions are compared.

        Captions that tie on paper tie exactly.
        """
        if isinstance(self.scores, MatrixScores):
            scores = self.scores.scores
            debiased = subtract_prior(scores, alpha, log_prior, grid=True)
            return replace(self, scores=replace(self.scores, scores=debiased, from_text=scores))
        captions = subtract_prior(self.answers.scores, alpha, log_prior[:, None, :])
        return replace(self, caption_scores=captions)

    def one_image_scores(self, captions: int) -> FloatArray:
        """Scores of the captions of one image, examples × captions.

        Raises:
            InputError: the examples have another shape.
        """
        shape = self.answers.frame.match.shape[1:]
        if shape != (1, captions):
            raise InputError(
                f"{self.card.name} needs 1 image and {captions} captions an example, found "
                f"{shape[0]} × {shape[1]}."
            )
        return self.by_caption[:, 0, :]


@dataclass(frozen=True, slots=True, eq=False)
class ShapeMeasures:
    """Measures of one shape.

    Attributes:
        measures: by name, in the order of the report.
        derived: metrics made of several measures.
        notes: for the reader of the results.
        units: ids, tags and clusters of the units; None where they are the examples.
    """

    measures: Mapping[str, Measure]
    derived: Mapping[str, DerivedMetric] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    units: tuple[tuple[str, ...], Mapping[str, tuple[TagValue, ...]], IntArray] | None = None


@dataclass(frozen=True, slots=True)
class Debiasing:
    """Removal of a language prior from a shape (VisualGPTScore, equation 7).

    Attributes:
        metric: the metric that α is chosen by: one that an order of captions decides.
        intervals: from the input with log-likelihoods and the captions' log prior to the α at
            which each unit is right, and the weight of each unit; None weighs as the headline does.
    """

    metric: str
    intervals: Callable[[MeasureInput, FloatArray], tuple[AlphaIntervals, FloatArray | None]]


@dataclass(frozen=True, slots=True)
class ChatMeasures:
    """Measuring of chat replies.

    Attributes:
        metrics: the name of the mean over all orders of the options, by prompt template; the first
            template is the default.
        options: right and wrong caption of each question, by position; empty asks about every
            image with all its captions.
        more: adds metrics to those of all shapes, from the answers (examples × questions × orders)
            and the right options (examples × questions).
        join: adds metrics of examples that count together, and gives the clusters of all.
    """

    metrics: Mapping[str, str] = field(default_factory=dict)
    options: tuple[tuple[int, int], ...] = ()
    more: Callable[[dict[str, Measure], IntArray, IntArray], dict[str, Measure]] | None = None
    join: Callable[[Frame, dict[str, Measure]], tuple[dict[str, Measure], IntArray]] | None = None


MistakeRule = Callable[[FloatArray, BoolArray], tuple[float, IntArray]]
"""From scores and match of an example, m × n, to a margin and the images that show it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a benchmark: its metrics, and all that is done differently for it.

    Attributes:
        family: its name on a benchmark's card.
        measure: from scores to measures.
        main: the metric that stands for a benchmark or a part of this shape.
        of: whether scores are of examples, or a matrix of a gallery or edit set.
        in_average: whether a suite's average counts it; recall and edit queries are no choice
            among a few, and stand beside it.
        debiasing: how a prior is removed; None where no captions are compared.
        blind: metrics that an order of captions alone decides, the main one first; a score that
            sees no image is measured by them.
        chat: how chat replies are measured; no templates where there is no such question.
        official_mask: examples that the official script counts; None counts all.
        contains: main metrics of other shapes that are metrics here too.
        mistake: margin by which an example is wrong; None compares captions, or images.
    """

    family: str
    measure: Callable[[MeasureInput], ShapeMeasures]
    main: str
    of: Literal["examples", "matrix"] = "examples"
    in_average: bool = True
    debiasing: Debiasing | None = None
    blind: tuple[str, ...] = ()
    chat: ChatMeasures = field(default_factory=ChatMeasures)
    official_mask: Callable[[MeasureInput], BoolArray] | None = None
    contains: tuple[str, ...] = ()
    mistake: MistakeRule | None = None
