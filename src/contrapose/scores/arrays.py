"""Score files that are `.npy` arrays: one per subset, a flat submission, or a gallery's matrix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from contrapose.data import Card, TagValue
from contrapose.errors import InputError
from contrapose.files import read_npy
from contrapose.metrics import FloatArray
from contrapose.scores.answers import Answers, Frame
from contrapose.scores.rows import ScoreRow, ScoreRows, fill_scores


def read_array(path: Path) -> FloatArray:
    """Read a `.npy` array of finite floating-point scores, at least 32 bits wide.

    Raises:
        InputError: not a plain numeric array, or a score in it is not finite.
    """
    array = read_npy(path)
    if array.dtype.kind not in "fiu":
        raise InputError(f"holds {array.dtype} values; expected numbers.", file=path)
    if array.size == 0:
        raise InputError("holds no scores.", file=path)
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        array = array.astype(np.float64 if array.dtype.kind != "f" else np.float32)
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(f"the score at {list(where)} is {array[where]}, not a number.", file=path)
    scores: FloatArray = array
    return scores


def is_flat_array(path: Path) -> bool:
    """Whether a file is a one-dimensional array, as official submissions are; reads its header."""
    if path.suffix.lower() != ".npy" or not path.is_file():
        return False
    try:
        return read_npy(path, mapped=True).ndim == 1
    except InputError:
        return False  # the reader of the file says what is wrong


def read_matrix(path: Path, shape: tuple[int, int], what: str) -> FloatArray:
    """Read a score matrix of exactly this shape, for galleries and edit queries."""
    array = read_array(path)
    if array.shape != shape:
        raise InputError(
            f"has the shape {_format_shape(array.shape)}; expected {_format_shape(shape)} "
            f"({what}).",
            file=path,
        )
    return array


def read_submission(
    path: Path, pairs: Sequence[tuple[str, int, int]], frame: Frame, *, partial: bool
) -> Answers:
    """Read a flat submission array whose i-th score is of the i-th (example, image, caption)."""
    scores = read_array(path)
    if len(scores) != len(pairs):
        raise InputError(
            f"holds {len(scores):,} scores, and the submission's list has {len(pairs):,} pairs.",
            file=path,
        )
    rows = [
        ScoreRow(example, image, text, float(score), line)
        for line, ((example, image, text), score) in enumerate(zip(pairs, scores, strict=True), 1)
    ]
    filled, complete = fill_scores(ScoreRows(path, rows), frame, partial=partial)
    return Answers(frame, filled).take(complete)


def find_subset_files(path: Path, card: Card) -> list[tuple[str, Path]]:
    """Find the (subset, file) pairs of a folder of arrays, or of one array."""
    subsets = tuple(card.counts)
    if path.is_file():
        if len(subsets) <= 1:
            return [("", path)]
        files = [path]
    else:
        files = sorted(path.glob("*.npy"))
    known = {subset.lower(): subset for subset in subsets}
    named = []
    for file in files:
        subset = known.get(file.stem.lower())
        if subset is None:
            raise InputError(
                f"{file.stem!r} is not a subset of {card.name}; name the arrays "
                f"{', '.join(f'{name}.npy' for name in subsets)}.",
                file=file,
            )
        named.append((subset, file))
    if not named:
        raise InputError(f"holds no .npy array of scores for {card.name}.", file=path)
    return sorted(named, key=lambda pair: subsets.index(pair[0]))


def read_subset_arrays(
    path: Path, card: Card, tail: tuple[int, ...]
) -> tuple[list[str], dict[str, list[TagValue]], FloatArray]:
    """Read ids `<subset>/<row>`, subset tags and scores of all subsets, concatenated.

    Args:
        path: a folder of arrays, or one of them.
        card: names the subsets.
        tail: the shape of one example's scores; the arrays may leave out a leading 1.

    Raises:
        InputError: an array has another shape.
    """
    ids: list[str] = []
    subsets: list[TagValue] = []
    parts = []
    for subset, file in find_subset_files(path, card):
        array = read_array(file)
        short = tail[1:] if len(tail) > 1 and tail[0] == 1 else tail
        if array.shape[1:] == short:
            array = array.reshape(-1, *tail)
        if array.shape[1:] != tail:
            raise InputError(
                f"has the shape {_format_shape(array.shape)}; expected "
                f"{_format_shape(('n', *tail))} "
                f"(examples{', images' if len(tail) > 1 else ''}, captions).",
                file=file,
            )
        single = len(card.counts) <= 1
        ids += [str(i) if single else f"{subset}/{i}" for i in range(len(array))]
        subsets += [subset] * len(array)
        parts.append(array)
    tags = {} if len(card.counts) <= 1 else {"subset": subsets}
    return ids, tags, np.concatenate(parts)


def _format_shape(shape: tuple[object, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
