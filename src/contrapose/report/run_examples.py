"""Scores of a run by example: failures by margin, and equivariance by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.data import Example
from contrapose.errors import InputError
from contrapose.evaluation.parts import DEBIASED
from contrapose.evaluation.selection import select
from contrapose.metrics import BoolArray, Equivariance, FloatArray, IntArray, equivariance
from contrapose.results import Results, RunRecord
from contrapose.results.measures import MARGIN, tag_values
from contrapose.results.shapes import MistakeRule, shapes

ALL = "all"
"""Name of a benchmark without parts."""


@dataclass(frozen=True, slots=True, eq=False)
class ExampleScores:
    """Scores of a run's examples, a row per image-caption pair; galleries and edits have none.

    Attributes:
        ids: of the k examples.
        parts: of the k examples, one or several each; `all` where the benchmark has none.
        example: (rows,) position among the ids; rows of an example are adjacent.
        image: (rows,) position of the image in the example.
        text: (rows,) position of the caption in the example.
        value: (rows,) score.
        match: (rows,) whether image and caption belong together.
    """

    ids: Sequence[str]
    parts: Sequence[tuple[str, ...]]
    example: IntArray
    image: IntArray
    text: IntArray
    value: FloatArray
    match: BoolArray

    def matrix(self, position: int) -> tuple[FloatArray, BoolArray]:
        """Scores and match of an example, images × captions; NaN where there is no score."""
        rows = slice(*np.searchsorted(self.example, (position, position + 1)))
        image, text = self.image[rows], self.text[rows]
        scores = np.full((int(image.max()) + 1, int(text.max()) + 1), np.nan)
        match = np.zeros(scores.shape, dtype=np.bool_)
        scores[image, text], match[image, text] = self.value[rows], self.match[rows]
        return scores, match

    def shapes(self) -> IntArray:
        """Number of images and of captions of each example; (k, 2)."""
        shapes = np.zeros((len(self.ids), 2), dtype=np.int64)
        np.maximum.at(shapes[:, 0], self.example, self.image + 1)
        np.maximum.at(shapes[:, 1], self.example, self.text + 1)
        return shapes

    def margins(self) -> FloatArray:
        """How far the best wrong choice is ahead of the worst right one; (k,), negative for wins.

        Captions of each image are compared, and the image with the largest margin counts. Where no
        image has both right and wrong captions, the images of each caption are compared; −∞ where
        there is no choice either way.
        """
        by_caption, by_image = (self._margins(side) for side in (self.image, self.text))
        return np.where(np.isneginf(by_caption), by_image, by_caption)

    def worst_margins(self) -> FloatArray:
        """Margins as `margins` has them, of captions and of images: the larger counts; (k,)."""
        by_caption, by_image = (self._margins(side) for side in (self.image, self.text))
        return np.maximum(by_caption, by_image)

    def margins_by(self, rule: MistakeRule) -> FloatArray:
        """Margin of each example by the rule of its shape; (k,), negative for wins."""
        return np.array([rule(*self.matrix(i))[0] for i in range(len(self.ids))])

    def _margins(self, fixed: IntArray) -> FloatArray:
        """Largest margin of each example, among choices that share their image (or caption)."""
        width = int(fixed.max(initial=0)) + 1
        group = self.example * width + fixed
        size = len(self.ids) * width
        best_wrong, worst_right = np.full(size, -np.inf), np.full(size, np.inf)
        np.maximum.at(best_wrong, group[~self.match], self.value[~self.match])
        np.minimum.at(worst_right, group[self.match], self.value[self.match])
        return np.asarray((best_wrong - worst_right).reshape(-1, width).max(axis=1))

    def equivariance(self) -> dict[str, Equivariance]:
        """Equivariance scores of the 2 × 2 examples, each part standardized by its own scores."""
        square = np.bincount(self.example, minlength=len(self.ids)) == 4
        inside = (self.image < 2) & (self.text < 2) & (self.match == (self.image == self.text))
        np.logical_and.at(square, self.example, inside)
        chosen = np.flatnonzero(square)
        if not len(chosen):
            return {}
        rows = square[self.example]
        scores = np.full((len(self.ids), 2, 2), np.nan)
        scores[self.example[rows], self.image[rows], self.text[rows]] = self.value[rows]
        members: dict[str, list[int]] = {}
        for position, i in enumerate(chosen.tolist()):
            for part in self.parts[i]:
                members.setdefault(part, []).append(position)
        return {part: equivariance(scores[chosen[inner]]) for part, inner in members.items()}


def find_mistake_rule(run: RunRecord) -> MistakeRule | None:
    """Rule by which examples of a run are wrong; None for the comparison of captions or images."""
    known = (shape for shape in shapes().values() if shape.main in run.measured.measures)
    return next((shape.mistake for shape in known if shape.mistake is not None), None)


def measured_margins(run: RunRecord, ids: Sequence[str]) -> FloatArray | None:
    """Margins of examples that the shape itself measured; None where it did not."""
    measure = run.measured.measures.get(MARGIN)
    if measure is None:
        return None
    if equal_ids(ids, run.measured.ids):
        return measure.values
    of = dict(zip(run.measured.ids, measure.values.tolist(), strict=True))
    return np.array([of.get(name, -np.inf) for name in ids])


def equal_ids(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two sequences hold the same ids in the same order."""
    return some is others or (len(some) == len(others) and list(some) == list(others))


def is_debiased(results: Results) -> bool:
    """Whether the language prior was taken out, so that the score table holds earlier scores."""
    return bool(results.alpha or results.part_alphas) or results.score in DEBIASED


def example_scores(run: RunRecord) -> ExampleScores | None:
    """Scores of a run by example; None if it has no choices among captions or images."""
    table = run.scores
    if table is None or not len(table["example"]):
        return None
    names = np.asarray(table["example"], dtype=object)
    starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
    counts = np.diff(np.append(starts, len(names)))
    first = names[starts].tolist()
    parts = list_parts(run)
    if equal_ids(first, run.measured.ids):
        chosen = np.ones(len(starts), dtype=np.bool_)
    else:
        part_of = dict(zip(run.measured.ids, parts, strict=True))
        chosen = np.fromiter(map(part_of.__contains__, first), np.bool_, len(starts))
        parts = [part_of.get(name, (ALL,)) for name in first]
    if table["text"].dtype == object:
        chosen &= np.array([text is not None for text in table["text"][starts]], dtype=np.bool_)
    if not chosen.any():
        return None
    rows = np.flatnonzero(np.repeat(chosen, counts))
    everything = bool(chosen.all())
    return ExampleScores(
        first if everything else names[starts[chosen]].tolist(),
        parts if everything else [parts[k] for k in np.flatnonzero(chosen).tolist()],
        np.repeat(np.arange(int(chosen.sum())), counts[chosen]),
        np.asarray(table["image"][rows], dtype=np.int64),
        np.asarray(table["text"][rows], dtype=np.int64),
        np.asarray(table["value"][rows], dtype=np.float64),
        np.asarray(table["match"][rows], dtype=np.bool_),
    )


def find_cases(runs: Sequence[RunRecord]) -> list[Mapping[str, Example]]:
    """Examples of each run, by their ids in its score table.

    Runs that were read back have none: their benchmark is read again where their request says, if
    it can be.
    """
    selected: dict[str, Mapping[str, Example]] = {}
    cases = []
    for run in runs:
        request = run.request
        if run.cases or not isinstance(request, Mapping):
            cases.append(run.cases)
            continue
        name = request.get("benchmark") or run.results.benchmark
        if name not in selected:
            root = request.get("root")
            try:
                selection = select(
                    name,
                    root=Path(root) if root else None,
                    subsets=request.get("subsets") or (),
                    limit=request.get("limit"),
                    offline=True,
                )
                selected[name] = selection.units()
            except InputError:
                selected[name] = {}
        cases.append(selected[name])
    return cases


def example_parts(run: RunRecord) -> dict[str, tuple[str, ...]]:
    """Parts of every example by its id, as `list_parts` has them."""
    return dict(zip(run.measured.ids, list_parts(run), strict=True))


def list_parts(run: RunRecord) -> list[tuple[str, ...]]:
    """Parts of every example: those of the suite, or the values of a tag that results have."""
    tags = run.measured.tags
    for tag in dict.fromkeys(("part", "subset", *tags)):
        distinct, index = find_distinct(tags.get(tag, ()))
        values = [tag_values(value) for value in distinct]
        names = {name for some in values for name in some}
        if names and (tag == "part" or names <= set(run.results.subsets)):
            return [values[k] or (ALL,) for k in index.tolist()]
    return [(ALL,)] * len(run.measured)
