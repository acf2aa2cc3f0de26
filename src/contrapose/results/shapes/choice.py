"""Choice: one image with n captions of which one is right; accuracy (SugarCrepe, ARO, CREPE).

Where the card names the kinds of the captions (NegBench), the kinds of wrong choices are counted
too: by the tag `template`, the matrix of what was right and what was chosen.
"""

from __future__ import annotations

import numpy as np

from contrapose.results.measures import Measure
from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins


def _measure(question: MeasureInput) -> ShapeMeasures:
    accuracy = measure_wins(question, question.by_caption, "text")
    return ShapeMeasures({"accuracy": accuracy, **_measure_kinds(question, accuracy)})


def _measure_kinds(question: MeasureInput, accuracy: Measure) -> dict[str, Measure]:
    """Share of examples whose choice is wrong and of a kind; none where kinds are not known.

    The choice of a wrong example is the highest-scoring of its wrong captions.
    """
    kinds, frame = question.card.option_kinds, question.answers.frame
    templates = frame.tags.get("template", ("",) * len(frame))
    if len(kinds) != frame.match.shape[2] or ("" in kinds and not all(templates)):
        return {}
    scores = np.where(frame.match[:, 0], -np.inf, question.by_caption[:, 0])
    chosen = scores.argmax(axis=1)
    names = [kinds[i] or str(kind) for i, kind in zip(chosen.tolist(), templates, strict=True)]
    wrong = accuracy.values == 0
    return {
        f"wrong_{kind}": Measure(
            (wrong & np.array([name == kind for name in names])).astype(np.float64),
            accuracy.where,
            accuracy.ties,
            better=None,
        )
        for kind in dict.fromkeys(filter(None, kinds))
    }


SHAPE = Shape(
    family="choice",
    measure=_measure,
    main="accuracy",
    debiasing=caption_debiasing("accuracy"),
    blind=("accuracy",),
    chat=ChatMeasures({"sugarcrepe": "accuracy"}),
)
