"""Run records of examples alone: outcomes and scores that a page shows, without a summary.

`tune`, `audit` and `diagnose` have results of their own; these records let the explorer show their
examples as it shows those of an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from contrapose import __version__
from contrapose.data import Example, TagValue
from contrapose.metrics import BoolArray, FloatArray
from contrapose.results.measures import Measure, Measurements, place_measures
from contrapose.results.schema import Results
from contrapose.results.tables import RunRecord, ScoreTable, stack_tables


def build_record(
    benchmark: str,
    model: str | None,
    score: str,
    parts: Mapping[str, Measurements],
    tables: Sequence[ScoreTable] = (),
    *,
    cases: Mapping[str, Example] | None = None,
    captions: Mapping[str, tuple[str, ...]] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Record of the examples of some parts.

    Args:
        benchmark: its name.
        model: the model that can be asked again; None for none.
        score: name of the score.
        parts: measures of each part; the empty name for a benchmark without parts.
        tables: scores; their ids are `part/id`, as those of the record.
        cases: the examples by those ids, with their images.
        captions: captions by those ids, where no image shall be shown.
        spec: what else is known, such as the skipped examples.
    """
    measured = merge_measurements(parts)
    results = Results(
        contrapose=__version__,
        benchmark=benchmark,
        model=model,
        score=score,
        protocol="strict",
        aggregation="",
        examples=len(measured),
        clusters=None,
        resamples=0,
        seed=0,
        metrics={},
        subsets={},
    )
    scores = stack_tables(tables) if tables else None
    return RunRecord(None, scores, measured, results, spec or {}, None, cases or {}, captions or {})


def merge_measurements(parts: Mapping[str, Measurements]) -> Measurements:
    """Merge parts: units `part/id`, measures `part/metric`, the part as a tag beside the others."""
    if list(parts) == [""]:
        return parts[""]
    total = sum(map(len, parts.values()))
    ids = tuple(f"{name}/{unit}" for name, part in parts.items() for unit in part.ids)
    placed: list[tuple[slice, dict[str, Measure]]] = []
    start = 0
    for name, part in parts.items():
        measures = {f"{name}/{metric}": measure for metric, measure in part.measures.items()}
        placed.append((slice(start, start + len(part)), measures))
        start += len(part)
    names = dict.fromkeys(tag for part in parts.values() for tag in part.tags if tag != "part")
    tags: dict[str, tuple[TagValue, ...]] = {
        "part": tuple(name for name, part in parts.items() for _ in range(len(part)))
    }
    for tag in names:
        tags[tag] = tuple(
            value for part in parts.values() for value in part.tags.get(tag, ("",) * len(part))
        )
    return Measurements(ids, tags, None, place_measures(placed, total))


def measure_nothing(ids: Sequence[str], cases: Mapping[str, Example]) -> Measurements:
    """Measurements of examples without any metric, with the tags of the examples."""
    names = dict.fromkeys(tag for unit in ids if unit in cases for tag in cases[unit].tags)
    tags: dict[str, tuple[TagValue, ...]] = {
        tag: tuple(cases[unit].tags.get(tag, "") if unit in cases else "" for unit in ids)
        for tag in names
    }
    return Measurements(tuple(ids), tags, None, {})


def matrices_table(ids: Sequence[str], scores: FloatArray, match: BoolArray) -> ScoreTable:
    """Score table of k examples of one shape; scores and match are (k, m, n), NaN is left out."""
    example, image, text = np.nonzero(~np.isnan(scores))
    return {
        "example": np.array(ids, dtype=object)[example],
        "image": image,
        "text": text,
        "value": scores[example, image, text],
        "match": match[example, image, text],
    }
