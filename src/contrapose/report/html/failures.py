"""Where a model was most sure of the wrong caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import Example, open_images
from contrapose.metrics import BoolArray, FloatArray
from contrapose.report.changes import run_label
from contrapose.results import Run
from contrapose.results.outcomes import DEBIASED

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Case:
    """An example and the part of the benchmark that it belongs to."""

    part: str
    example: Example


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An example that a model got wrong.

    Attributes:
        run: the model and score.
        part: of the benchmark.
        example: its id.
        images: m pictures.
        texts: n captions.
        scores: m × n.
        match: m × n, true where picture and caption belong together.
        margin: how far a wrong caption is ahead of a right one.
    """

    run: str
    part: str
    example: str
    images: tuple[Image, ...]
    texts: tuple[str, ...]
    scores: FloatArray
    match: BoolArray
    margin: float


def worst_failures(
    runs: Sequence[Run], cases: Mapping[str, Case], *, each: int = 2
) -> list[Failure]:
    """The examples with the largest wrong margin, a few for each run and part.

    The margin is the highest score of a wrong caption of a picture less the lowest of a right one;
    of several pictures the worst counts. Examples without a choice among captions have none. Runs
    with the prior taken out are passed over: their tables hold the scores before that.

    Args:
        runs: with their score tables.
        cases: by the example's id in those tables.
        each: how many of a run and part.
    """
    found = [
        (run, name, margin)
        for run in runs
        if run.scores is not None and run.results.score not in DEBIASED
        for name, margin in _worst(run, cases, each)
    ]
    refs = list(dict.fromkeys(ref for _, name, _ in found for ref in cases[name].example.images))
    pictures = dict(zip(refs, open_images(refs), strict=True))
    failures = []
    for run, name, margin in found:
        example = cases[name].example
        failures.append(
            Failure(
                run=run_label(run.results),
                part=cases[name].part,
                example=example.id,
                images=tuple(pictures[ref] for ref in example.images),
                texts=example.texts,
                scores=_matrix(run, name, example),
                match=np.array(example.match, dtype=np.bool_),
                margin=margin,
            )
        )
    return failures


def _worst(run: Run, cases: Mapping[str, Case], each: int) -> list[tuple[str, float]]:
    """Ids and margins, part by part, the worst first; equals in the order of the table."""
    by_part: dict[str, list[tuple[str, float]]] = {}
    for name, margin in _margins(run).items():
        if name in cases and margin >= 0:  # a tie is never a win
            by_part.setdefault(cases[name].part, []).append((name, margin))
    return [
        one
        for failed in by_part.values()
        for one in sorted(failed, key=lambda item: -item[1])[:each]
    ]


def _margins(run: Run) -> dict[str, float]:
    """For every example how far a wrong caption of one of its pictures is ahead of a right one."""
    table = run.scores or {}
    places: dict[str, int] = {}
    codes = np.array([places.setdefault(name, len(places)) for name in table["example"]])
    keys, pictures = np.unique(
        np.stack([codes, np.asarray(table["image"], dtype=np.int64)]), axis=1, return_inverse=True
    )
    value = np.asarray(table["value"], dtype=np.float64)
    right = np.array([match is not None and bool(match) for match in table["match"]])
    wrong = np.array([match is not None and not match for match in table["match"]])
    best_wrong = np.full(keys.shape[1], -np.inf)
    least_right = np.full(keys.shape[1], np.inf)
    pictures = pictures.reshape(-1)
    np.maximum.at(best_wrong, pictures[wrong], value[wrong])
    np.minimum.at(least_right, pictures[right], value[right])
    margins = np.full(len(places), -np.inf)
    np.maximum.at(margins, keys[0], best_wrong - least_right)
    return dict(zip(places, margins.tolist(), strict=True))


def _matrix(run: Run, name: str, example: Example) -> FloatArray:
    table = run.scores or {}
    rows = np.flatnonzero(np.asarray(table["example"]) == name)
    scores = np.full(example.shape, np.nan)
    images, texts = (np.asarray(table[each][rows], dtype=np.int64) for each in ("image", "text"))
    scores[images, texts] = table["value"][rows]
    return scores
