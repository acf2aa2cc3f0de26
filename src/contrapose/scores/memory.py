"""Scores in memory: arrays, nested lists, rows or a data frame, checked against the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import Card
from contrapose.errors import InputError
from contrapose.files import Record
from contrapose.metrics import FloatArray
from contrapose.scores.answers import Answers, Frame, build_frame_from_card
from contrapose.scores.files import answers_from_rows, parse_rows
from contrapose.scores.rows import find_complete

SOURCE = Path("scores")
"""Name of scores in memory, where an error names a file."""


def describe_scores(scores: Any) -> str:
    """Scores in memory in words: their type, and the shape if they have one."""
    shape = getattr(scores, "shape", None)
    size = " × ".join(map(str, shape)) if shape is not None else f"{len(scores)} items"
    return f"{type(scores).__name__} of {size}"


def read_memory_scores(
    scores: Any, card: Card, frame: Frame | None, *, partial: bool = False
) -> Answers:
    """Score table of scores in memory.

    Args:
        scores: an array of examples × images × captions (the images may be left out where there is
            one), a list with an array for each example, a list of rows, or a data frame whose
            columns are those of a score file.
        card: the benchmark.
        frame: its examples; None where only the card is known, which must then promise one shape.
        partial: allow examples without any score.

    Raises:
        InputError: the scores do not fit the benchmark; says where.
    """
    rows = _list_rows(scores)
    if rows is not None:
        records = [Record(dict(row), SOURCE, i + 1, str(i)) for i, row in enumerate(rows)]
        return answers_from_rows(parse_rows(iter(records), card, SOURCE), card, frame, partial)
    if frame is None:
        frame = build_frame_from_card(card, [str(i) for i in range(len(scores))], {})
    laid = _lay(scores, frame)
    complete = find_complete(laid, frame, SOURCE, partial=partial)
    return Answers(frame, laid).take(complete)


def read_memory_matrix(scores: Any, shape: tuple[int, int]) -> FloatArray:
    """Score matrix of a gallery: images × captions.

    Raises:
        InputError: it has another shape, or a score is not finite.
    """
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.shape != shape:
        raise InputError(f"scores must be images × captions, {shape}; found {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InputError("a score is not a finite number.")
    return matrix


def read_memory_prior(prior: Any, frame: Frame) -> FloatArray:
    """Priors of the captions: examples × captions.

    Raises:
        InputError: they have another shape.
    """
    values = np.asarray(prior, dtype=np.float64)
    captions = frame.present.any(axis=1)
    if values.shape != captions.shape or not np.isfinite(values[captions]).all():
        raise InputError(
            f"a prior needs a number for each caption, {captions.shape}; found {values.shape}."
        )
    return values


def _list_rows(scores: Any) -> Sequence[Mapping[str, Any]] | None:
    """Rows of a table; None where the scores are arrays."""
    if hasattr(scores, "columns") and hasattr(scores, "to_dict"):
        rows: list[dict[str, Any]] = scores.to_dict(orient="records")
        return [{name: _plain(value) for name, value in row.items()} for row in rows]
    if isinstance(scores, Sequence) and scores and isinstance(scores[0], Mapping):
        return scores
    return None


def _plain(value: Any) -> Any:
    """Plain Python value; a missing one is None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _lay(scores: Any, frame: Frame) -> FloatArray:
    """Scores laid out as examples × images × captions, NaN where there is no pair."""
    if len(scores) != len(frame):
        raise InputError(f"there are {len(scores)} scores for {len(frame)} examples.")
    laid = np.full(frame.match.shape, np.nan)
    for i, (name, values) in enumerate(zip(frame.ids, scores, strict=True)):
        shape = int(frame.present[i, :, 0].sum()), int(frame.present[i, 0, :].sum())
        try:
            one = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"the scores of example {name} are not numbers.") from None
        if one.ndim < 2 and shape[0] == 1:
            one = one.reshape(1, -1)
        if one.shape == laid.shape[1:]:  # padded to the largest example
            one = one[: shape[0], : shape[1]]
        if tuple(one.shape) != shape:
            raise InputError(
                f"the scores of example {name} must be {shape[0]} images × {shape[1]} captions, "
                f"and have the shape {one.shape}."
            )
        if np.isinf(one).any():
            raise InputError(f"a score of example {name} is not a finite number.")
        laid[i, : shape[0], : shape[1]] = one
    return laid
