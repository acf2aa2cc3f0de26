"""From a score file to answers: which layout is it, and does it fit the benchmark?"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np

from contrapose.data import Card, TagValue
from contrapose.errors import InputError
from contrapose.files import Problems, Record, Strict, json_records, table_records
from contrapose.metrics import FloatArray, IntArray
from contrapose.scoring.answers import Answers, Frame, frame_from_card
from contrapose.scoring.arrays import read_subset_arrays
from contrapose.scoring.labels import (
    VALSE,
    WINOGROUND,
    WINOGROUND_TEXT,
    WINOGROUND_WIDE,
    general_rows,
    valse_rows,
    winoground_rows,
)
from contrapose.scoring.rows import ScoreRows, complete, lay

GENERAL = "example"
LAYOUTS = {
    "winoground": "Winoground score rows",
    "valse": "VALSE score rows",
    "general": "a general table (example, image, text, score)",
}


def read_scores(path: Path, card: Card, frame: Frame | None, *, partial: bool = False) -> Answers:
    """A model's answers from a score file, checked against the benchmark.

    Args:
        path: label rows, a general table, an array, or a folder of arrays.
        card: the benchmark.
        frame: its examples, when its annotation files were read; without them the card must
            promise one shape for all examples.
        partial: allow examples, or whole subsets, without any score.

    Raises:
        InputError: the file is not what it should be; says where.
    """
    if is_arrays(path):
        return _from_arrays(path, card, frame, partial=partial)
    rows = _rows(path, card)
    notes: list[str] = []
    if frame is None:
        ids, tags = rows.examples()
        frame = frame_from_card(card, *_known_examples(card, ids, tags, rows))
        notes += _check_counts(card, frame, path, partial=partial)
    scores, there = lay(rows, frame, partial=partial)
    if len(there) == len(frame):
        return Answers(frame, scores, tuple(notes))
    notes.append(f"scores cover {len(there)} of {len(frame)} examples")
    return Answers(frame, scores, tuple(notes)).take(there)


def read_prior(path: Path, card: Card, frame: Frame) -> FloatArray:
    """One number a caption, k × n: a table without the image column, or `(n, captions)` arrays.

    Raises:
        InputError: a caption has none, or several for different images.
    """
    captions = np.asarray(frame.present.any(axis=1))
    if is_arrays(path):
        _, tags, prior = read_subset_arrays(path, card, captions.shape[1:])
        return np.asarray(prior[_order(tags, len(prior), frame, path)], dtype=np.float64)
    rows = _rows(path, card)
    for row in rows.rows:
        if row.image not in (None, 0):
            raise InputError(
                "a prior has one value a caption, whatever the image: leave the image out.",
                file=path,
                line=row.line,
            )
    # A prior may cover more examples than a partial score file does.
    wanted = set(frame.ids)
    kept = ScoreRows(rows.file, [row for row in rows.rows if row.example in wanted])
    text_frame = Frame(
        frame.ids,
        np.asarray(frame.match.any(axis=1, keepdims=True)),
        captions[:, None, :],
        frame.tags,
        image_keys=None,
        texts=frame.texts,
    )
    prior, _ = lay(kept, text_frame, partial=False)
    return prior[:, 0, :]


def detect_benchmark(path: Path) -> str | None:
    """The benchmark a score file in a native layout belongs to; None when it cannot be told."""
    if is_arrays(path):
        from contrapose.data import Benchmark, benchmark_names, find_benchmark

        stems = {path.stem} if path.is_file() else {file.stem for file in path.glob("*.npy")}
        fits = [
            name
            for name in benchmark_names()
            if isinstance(found := find_benchmark(name), Benchmark)
            and len((card := found.card).counts) > 1
            and card.scores == "subset arrays"
            and stems <= set(card.counts)
        ]
        return fits[0] if len(fits) == 1 else None
    first = next(_records(path, Strict()), None)
    layout = None if first is None else _layout(first)
    return layout if layout in ("winoground", "valse") else None


def is_arrays(path: Path) -> bool:
    """Whether the scores are `.npy` arrays."""
    return path.is_dir() or path.suffix.lower() == ".npy"


def _records(path: Path, problems: Problems) -> chain[Record]:
    if not path.exists():
        raise InputError("does not exist.", file=path)
    reader = json_records if path.suffix.lower() == ".json" else table_records
    return chain(reader(path, problems))


def _rows(path: Path, card: Card) -> ScoreRows:
    problems = Strict()
    records = _records(path, problems)
    first = next(records, None)
    if first is None:
        raise InputError("is empty: it holds no scores.", file=path)
    layout = _layout(first)
    if layout is None:
        raise InputError(
            "is not a score file: rows need the fields example, image, text, score, or a label.",
            file=path,
            line=first.line,
        )
    if layout not in ("general", card.scores):
        raise InputError(
            f"holds {LAYOUTS[layout]}, which are not scores for {card.name}.",
            file=path,
            line=first.line,
        )
    parse = {"winoground": winoground_rows, "valse": valse_rows, "general": general_rows}[layout]
    return ScoreRows(path, parse(chain((first,), records), problems))


def _layout(record: Record) -> str | None:
    value = record.value
    if not isinstance(value, dict):
        return None
    if GENERAL in value:
        return "general"
    if WINOGROUND_WIDE[0] in value:
        return "winoground"
    label = str(value.get("label", ""))
    if WINOGROUND.fullmatch(label) or WINOGROUND_TEXT.fullmatch(label):
        return "winoground"
    return "valse" if VALSE.fullmatch(label) else None


def _known_examples(
    card: Card, ids: list[str], tags: dict[str, list[TagValue]], rows: ScoreRows
) -> tuple[list[str], dict[str, list[TagValue]]]:
    """Without annotation files: which ids can there be, and which subset are they of?"""
    total = sum(card.counts.values())
    if len(card.counts) == 1:
        known = {str(i) for i in range(total)}
        _refuse_unknown(rows, known, card)
        return sorted(known, key=int), {}
    if "subset" not in tags:
        tags = {**tags, "subset": [name.partition("/")[0] for name in ids]}
    allowed = {
        name for name, subset in zip(ids, tags["subset"], strict=True) if subset in card.counts
    }
    _refuse_unknown(rows, allowed, card)
    return ids, tags


def _refuse_unknown(rows: ScoreRows, known: set[str], card: Card) -> None:
    for row in rows.rows:
        if row.example not in known:
            raise InputError(
                f"the example {row.example!r} is not in {card.name}.", file=rows.file, line=row.line
            )


def _check_counts(card: Card, frame: Frame, path: Path, *, partial: bool) -> list[str]:
    """Without annotation files: does every subset have as many examples as it should?"""
    if len(card.counts) == 1:
        return []
    counted = Counter(frame.tags["subset"])
    notes = []
    for subset, expected in card.counts.items():
        found = counted[subset]
        if found == expected:
            continue
        message = f"{subset} has scores for {found} examples, and {card.name} has {expected}"
        if not partial:
            raise InputError(f"{message}; pass --partial to report what is there.", file=path)
        notes.append(message)
    return notes


def _from_arrays(path: Path, card: Card, frame: Frame | None, *, partial: bool) -> Answers:
    if not path.exists():
        raise InputError("does not exist.", file=path)
    shape = (frame.match if frame is not None else frame_from_card(card, ["?"], {}).match).shape[1:]
    ids, tags, scores = read_subset_arrays(path, card, shape)
    if frame is None:
        frame = frame_from_card(card, ids, tags)
        notes = _check_counts(card, frame, path, partial=partial)
        if len(card.counts) == 1 and len(frame) != (total := sum(card.counts.values())):
            message = f"holds {len(frame)} examples, and {card.name} has {total}"
            if not partial or len(frame) > total:
                raise InputError(f"{message}.", file=path)
            notes.append(message)
        return Answers(frame, scores, tuple(notes))
    order = _order(tags, len(scores), frame, path, partial=partial)
    laid = np.full(frame.match.shape, np.nan, dtype=scores.dtype)
    laid[order >= 0] = scores[order[order >= 0]]
    there = complete(laid, frame, path, partial=partial)
    return Answers(frame, laid).take(there)


def _order(
    tags: dict[str, list[TagValue]], rows: int, frame: Frame, path: Path, *, partial: bool = False
) -> IntArray:
    """For each example of the frame its row in the arrays, by its place in its subset.

    Rows follow the order of the annotation file; −1 where a whole subset has no array.
    """
    subset_of_row = np.array(tags.get("subset", [""] * rows))
    of_example = frame.tags["subset"] if "subset" in tags else ("",) * len(frame)
    subset_of_example = np.array([str(subset) for subset in of_example])
    order = np.full(len(frame), -1, dtype=np.int64)
    for subset in np.unique(subset_of_row):
        from_rows = np.flatnonzero(subset_of_row == subset)
        to_examples = np.flatnonzero(subset_of_example == subset)
        if len(from_rows) != len(to_examples):
            named = f" of {subset}" if subset else ""
            raise InputError(
                f"holds scores for {len(from_rows)} examples{named}, and the benchmark's files "
                f"have {len(to_examples)}.",
                file=path,
            )
        order[to_examples] = from_rows
    if (order < 0).any() and not partial:
        missing = sorted(set(subset_of_example[order < 0].tolist()))
        raise InputError(
            f"holds no scores for {', '.join(missing)}; pass --partial to report the others alone.",
            file=path,
        )
    return order
