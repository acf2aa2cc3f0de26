"""The captions that are audited, part by part, and scores laid beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data import Card
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.selection import Selection
from contrapose.scoring import Frame, frame_of
from contrapose.scoring.plan import distinct_texts


@dataclass(frozen=True, slots=True, eq=False)
class Captions:
    """What is audited.

    Attributes:
        cards: of the parts, by name; the empty name for a benchmark without parts.
        frames: their examples.
        distinct: every caption once.
        at: for every caption of every example, part after part, its place in `distinct`.
    """

    cards: Mapping[str, Card]
    frames: Mapping[str, Frame]
    distinct: tuple[str, ...]
    at: IntArray

    def lay(self, values: FloatArray) -> dict[str, FloatArray]:
        """One number a distinct caption → for each part (k, n), NaN where there is no caption."""
        found: dict[str, FloatArray] = {}
        start = 0
        for name, frame in self.frames.items():
            sizes = np.array([len(texts) for texts in frame.texts or ()])
            laid = np.full((len(frame), frame.match.shape[2]), np.nan)
            end = start + int(sizes.sum())
            laid[np.arange(laid.shape[1]) < sizes[:, None]] = values[self.at[start:end]]
            found[name], start = laid, end
        return found


def captions_of(selection: Selection) -> tuple[Captions, tuple[str, ...]]:
    """The captions of the parts that a blind score can solve, and the parts that none can.

    No image is looked at, and none need be there.

    Raises:
        InputError: there is no choice among captions at all.
    """
    cards: dict[str, Card] = {}
    frames: dict[str, Frame] = {}
    balanced: list[str] = []
    for name, (benchmark, data) in selection.parts.items():
        if not isinstance(data, list):
            continue
        frame = frame_of(data)
        if benchmark.card.family == "images" or not solvable(frame).any():
            balanced.append(name or selection.name)
        elif benchmark.card.family != "pairs" or not selection.suite:
            cards[name], frames[name] = benchmark.card, frame
    if not frames and not balanced:
        raise InputError(
            f"{selection.name} has no choice among a few captions: an audit is of sets that show "
            "an image with right and wrong captions."
        )
    texts = [text for frame in frames.values() for some in frame.texts or () for text in some]
    distinct, at = distinct_texts(texts)
    return Captions(cards, frames, tuple(distinct), at), tuple(balanced)


def solvable(frame: Frame) -> BoolArray:
    """For each example whether one order of its captions can be right for all its images.

    It can where the sets of right captions of any two images are one within the other. Two
    captions that change places between two images never are: the text score of a blind score is
    then 0, whatever it is.
    """
    right, wrong = frame.match & frame.present, ~frame.match & frame.present
    deciding = np.any(right, axis=2) & np.any(wrong, axis=2)
    found = np.asarray(np.any(deciding, axis=1))
    for i in range(right.shape[1]):
        for j in range(i):
            ahead = (right[:, i] & wrong[:, j]).any(axis=1)
            behind = (right[:, j] & wrong[:, i]).any(axis=1)
            found &= ~(ahead & behind)
    return found


def sizes_of(frames: Sequence[Frame]) -> tuple[int, int]:
    """How many examples there are, and how many clusters of them."""
    clusters = [len(set(f.clusters.tolist())) for f in frames if f.clusters is not None]
    return sum(map(len, frames)), sum(clusters)
