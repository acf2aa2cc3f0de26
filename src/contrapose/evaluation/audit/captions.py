"""Audit request, and the captions of the audited parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.data import Card
from contrapose.data.example_columns import ExampleColumns
from contrapose.engine import NoiseImages, Prior
from contrapose.errors import InputError
from contrapose.evaluation.selection import BenchmarkLike, ScoringOptions, Selection, select
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.shapes import find_shape
from contrapose.scores import Frame, build_frame


@dataclass(frozen=True, slots=True)
class AuditRequest(ScoringOptions):
    """Request of `contrapose audit`: options beside those of `ScoringOptions`.

    Attributes:
        benchmark: a name as `find_benchmark` knows it, a benchmark, or its examples.
        models: captioners whose prior is computed.
        lm: the blind language model; None for none.
        lm_needed: whether a language model that cannot be loaded is an error, or only a note.
        sample: at most so many examples of each subset, drawn at random.
        prior: the images of the captioners' prior.
        ngram_corpus: captions to fit the n-gram model to, a line each; None takes all of the
            benchmark's own, cross-fitted, whatever examples are selected.
        likelihoods: a captioner's scores under the images, to compare with.
    """

    benchmark: BenchmarkLike
    models: tuple[str, ...] = ()
    lm: str | None = None
    lm_needed: bool = True
    sample: int | None = None
    prior: Prior = field(default_factory=NoiseImages)
    ngram_corpus: Path | None = None
    likelihoods: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AuditCaptions:
    """Captions under audit, part by part, and the distinct ones among them.

    Attributes:
        cards: of the parts, by name; the empty name for a benchmark without parts.
        frames: their examples.
        distinct: every caption once.
        at: for every caption of every example, part after part, its position in `distinct`.
    """

    cards: Mapping[str, Card]
    frames: Mapping[str, Frame]
    distinct: tuple[str, ...]
    at: IntArray

    def by_part(self, values: FloatArray) -> dict[str, FloatArray]:
        """Values of the distinct captions as (k, n) arrays by part, NaN without a caption."""
        parts: dict[str, FloatArray] = {}
        start = 0
        for name, frame in self.frames.items():
            sizes = np.array([len(texts) for texts in frame.texts or ()])
            laid = np.full((len(frame), frame.match.shape[2]), np.nan)
            end = start + int(sizes.sum())
            laid[np.arange(laid.shape[1]) < sizes[:, None]] = values[self.at[start:end]]
            parts[name], start = laid, end
        return parts


def collect_captions(selection: Selection) -> tuple[AuditCaptions, tuple[str, ...]]:
    """Collect the captions of the parts that a blind score can solve, and list the other parts.

    No image is opened, and none need exist.

    Raises:
        InputError: there is no choice among captions at all.
    """
    cards: dict[str, Card] = {}
    frames: dict[str, Frame] = {}
    balanced: list[str] = []
    for name, (benchmark, data) in selection.parts.items():
        if not isinstance(data, list | ExampleColumns):
            continue
        if all(len(example.texts) == 1 for example in data):
            continue  # judged one by one: there is no choice among captions
        frame, shape = build_frame(data), find_shape(benchmark.card)
        if not shape.blind or not is_solvable(frame).any():
            balanced.append(name or selection.name)
        elif shape.main in shape.blind or not selection.suite:
            cards[name], frames[name] = benchmark.card, frame
    if not frames and not balanced:
        raise InputError(
            f"{selection.name} has no choice among a few captions: an audit is of sets that show "
            "an image with right and wrong captions."
        )
    texts = [text for frame in frames.values() for some in frame.texts or () for text in some]
    distinct, at = find_distinct(texts)
    return AuditCaptions(cards, frames, tuple(distinct), at), tuple(balanced)


def read_unselected(request: AuditRequest, captions: AuditCaptions) -> Mapping[str, Frame]:
    """Read all examples of the audited parts, also those that the request does not select."""
    if request.limit is None and request.sample is None and not request.subsets:
        return captions.frames
    subsets = tuple(name for name in captions.frames if name)
    parts = select(request.benchmark, root=request.root, subsets=subsets, offline=True).parts
    return {
        name: build_frame(data)
        for name in captions.frames
        if isinstance(data := parts[name][1], list | ExampleColumns)
    }


def is_solvable(frame: Frame) -> BoolArray:
    """Mask of the examples for which one order of the captions can be right for all images.

    It can where the sets of right captions of any two images are one within the other. Two
    captions that change places between two images never are: the text score of a blind score is
    then 0, whatever it is.
    """
    right, wrong = frame.match & frame.present, ~frame.match & frame.present
    deciding = np.any(right, axis=2) & np.any(wrong, axis=2)
    solvable = np.asarray(np.any(deciding, axis=1))
    for i in range(right.shape[1]):
        for j in range(i):
            ahead = (right[:, i] & wrong[:, j]).any(axis=1)
            behind = (right[:, j] & wrong[:, i]).any(axis=1)
            solvable &= ~(ahead & behind)
    return solvable


def count_examples(frames: Sequence[Frame]) -> tuple[int, int]:
    """Number of examples, and of clusters of them."""
    clusters = [len(set(f.clusters.tolist())) for f in frames if f.clusters is not None]
    return sum(map(len, frames)), sum(clusters)
