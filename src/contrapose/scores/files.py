"""Score, prior and tag files: detect the layout, check it against the benchmark, read it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from contrapose.data import Card, TagValue
from contrapose.errors import InputError, option
from contrapose.files import (
    Problems,
    Record,
    StrictProblems,
    read_json,
    read_json_records,
    read_jsonl_records,
    read_table_records,
    require_regular,
)
from contrapose.metrics import FloatArray, IntArray
from contrapose.scores.answers import Answers, Frame, build_frame_from_card
from contrapose.scores.arrays import read_subset_arrays
from contrapose.scores.layouts import LAYOUTS, detect_layout, drop_unknown, resolve_replies
from contrapose.scores.rating_layouts import parse_rating_rows, score_columns, split_column
from contrapose.scores.rows import ScoreRows, fill_scores, find_complete, spread_pairs

MOST_PEEKED = 1 << 20
"""Bytes of a line that are read to recognize a file."""

TABLES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


def add_tags(answers: Answers, path: Path, name: str) -> Answers:
    """Add a tag from a JSON file to the examples; an empty list becomes "No Tag".

    Raises:
        InputError: the file is not an object of ids, or has no id of this benchmark.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError("must hold a JSON object: example id → tag or list of tags.", file=path)
    unknown = set(content) - set(answers.frame.ids)
    if len(unknown) == len(content):
        raise InputError("tags no example of this benchmark.", file=path)
    values = tuple(
        _parse_tag_value(content.get(name, ""), name, path) for name in answers.frame.ids
    )
    frame = replace(answers.frame, tags={**answers.frame.tags, name: values})
    return replace(answers, frame=frame)


def _parse_tag_value(value: object, example: str, path: Path) -> TagValue:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return tuple(value) if len(value) > 1 else value[0] if value else "No Tag"
    raise InputError(f"the tags of {example!r} must be text or a list of texts.", file=path)


def read_scores(path: Path, card: Card, frame: Frame | None, *, partial: bool = False) -> Answers:
    """Read a score table from a file, checked against the benchmark.

    Args:
        path: label rows, a general table, an array, or a folder of arrays; `FILE@COLUMN` is one of
            several scores in a file.
        card: the benchmark's card.
        frame: its examples, when its annotation files were read; without them the card must
            promise one shape for all examples.
        partial: allow examples, or whole subsets, without any score.

    Raises:
        InputError: the file is malformed or does not fit the benchmark; says where.
    """
    if is_array_path(path):
        return _read_arrays(path, card, frame, partial=partial)
    file, column = split_column(path)
    rows = parse_rows(_read_records(file, StrictProblems()), card, file, column)
    return answers_from_rows(rows, card, frame, partial)


def list_columns(path: Path) -> tuple[str, ...]:
    """Names of the scores of a file that holds several for each example; else none."""
    if is_array_path(path) or not path.is_file() or path.suffix.lower() not in TABLES:
        return ()
    first = next(_read_records(path, StrictProblems()), None)
    if first is None or detect_layout(first) != "ratings":
        return ()
    columns = score_columns(first.value)
    return columns if len(columns) > 1 else ()


def answers_from_rows(rows: ScoreRows, card: Card, frame: Frame | None, partial: bool) -> Answers:
    """Score table of rows; see `read_scores`."""
    rows, notes = resolve_replies(rows, frame)
    if rows.pairs:
        rows = spread_pairs(rows, frame)
    if frame is not None and card.scores == "vilma":
        rows, notes = drop_unknown(rows, frame)
    if frame is None:
        ids, tags = rows.examples()
        if card.match is not None:
            ids, tags = _list_known_examples(card, ids, tags, rows)
        if card.match is None and all(row.match is not None for row in rows.rows):
            frame, note = _frame_of_labels(card, rows, partial=partial)
            notes += note
        else:
            frame = build_frame_from_card(card, ids, tags)
            notes += _check_counts(card, frame, rows.file, partial=partial)
    scores, complete = fill_scores(rows, frame, partial=partial)
    if len(complete) == len(frame):
        return Answers(frame, scores, tuple(notes))
    notes.append(f"scores cover {len(complete)} of {len(frame)} examples")
    return Answers(frame, scores, tuple(notes)).take(complete)


def read_prior(path: Path, card: Card, frame: Frame) -> FloatArray:
    """Read caption priors, k × n: a table without image column, or `(n, captions)` arrays.

    Raises:
        InputError: a caption has no prior, or several for different images.
    """
    captions = np.asarray(frame.present.any(axis=1))
    if is_array_path(path):
        _, tags, prior = read_subset_arrays(path, card, captions.shape[1:])
        return np.asarray(prior[_match_rows(tags, len(prior), frame, path)], dtype=np.float64)
    rows = _read_rows(path, card)
    for row in rows.rows:
        if row.image not in (None, 0, "0"):
            raise InputError(
                "a prior has one value a caption, whatever the image: leave the image out.",
                file=path,
                line=row.line,
            )
    # A prior may cover more examples than a partial score file does.
    wanted = set(frame.ids)
    rows = ScoreRows(rows.file, [row for row in rows.rows if row.example in wanted])
    text_frame = Frame(
        frame.ids,
        np.asarray(frame.match.any(axis=1, keepdims=True)),
        captions[:, None, :],
        frame.tags,
        image_keys=None,
        texts=frame.texts,
    )
    prior, _ = fill_scores(rows, text_frame, partial=False)
    return prior[:, 0, :]


def detect_benchmark(path: Path) -> str | None:
    """Detect the benchmark of a score file in a native layout; None when it is ambiguous."""
    if is_array_path(path):
        from contrapose.data import Benchmark, benchmark_names, find_benchmark

        stems = {path.stem} if path.is_file() else {file.stem for file in path.glob("*.npy")}
        fits = [
            name
            for name in benchmark_names()
            if isinstance(benchmark := find_benchmark(name), Benchmark)
            and len((card := benchmark.card).counts) > 1
            and card.scores == "subset arrays"
            and stems <= set(card.counts)
        ]
        return fits[0] if len(fits) == 1 else None
    first = next(_read_records(split_column(path)[0], StrictProblems()), None)
    layout = None if first is None else detect_layout(first)
    return None if first is None or layout is None else LAYOUTS[layout].benchmark(first.value)


def is_array_path(path: Path) -> bool:
    """Whether a path holds scores as `.npy` arrays."""
    return path.is_dir() or path.suffix.lower() == ".npy"


def _read_records(path: Path, problems: Problems) -> chain[Record]:
    if not path.exists():
        raise InputError("does not exist.", file=path)
    if path.suffix.lower() != ".json":
        return chain(read_table_records(path, problems))
    lines = _is_json_lines(path)
    return chain((read_jsonl_records if lines else read_json_records)(path, problems))


def _is_json_lines(path: Path) -> bool:
    """Whether a .json file holds one object a line, as POPE's files do."""
    require_regular(path)
    with path.open("rb") as file:
        first, second = (file.readline(MOST_PEEKED).strip() for _ in range(2))
    return first[:1] == second[:1] == b"{" and first[-1:] == b"}"


def _read_rows(path: Path, card: Card) -> ScoreRows:
    return parse_rows(_read_records(path, StrictProblems()), card, path)


def parse_rows(
    records: Iterator[Record], card: Card, path: Path, column: str | None = None
) -> ScoreRows:
    """Parse the records of a score table, whichever layout they have.

    Of several scores in a row, `column` names one.

    Raises:
        InputError: there are none, or they are not scores of this benchmark.
    """
    problems = StrictProblems()
    first = next(records, None)
    if first is None:
        raise InputError("is empty: it holds no scores.", file=path)
    layout = detect_layout(first)
    if layout is None:
        raise InputError(
            "is not a score file: rows need the fields example, image, text, score, or a label.",
            file=path,
            line=first.line,
        )
    if layout not in ("general", card.scores):
        raise InputError(
            f"holds {LAYOUTS[layout].title}, which are not scores for {card.name}.",
            file=path,
            line=first.line,
        )
    parse = LAYOUTS[layout].parse
    if layout == "ratings":
        parse = functools.partial(parse_rating_rows, column=column)
    elif column is not None:
        raise InputError(f"holds one score for each pair, and none called {column!r}.", file=path)
    rows = parse(chain((first,), records), problems)
    return ScoreRows(path, rows, pairs=layout == "svo-probes")


def _frame_of_labels(card: Card, rows: ScoreRows, *, partial: bool) -> tuple[Frame, list[str]]:
    """Frame of one image with one or more captions whose labels the rows give; notes on its size.

    Raises:
        InputError: it has another size than the released splits, and `partial` is off.
    """
    ids, tags = rows.examples()
    cells = [(row, row.text if isinstance(row.text, int) else 0) for row in rows.rows]
    position = {name: i for i, name in enumerate(ids)}
    match = np.zeros((len(ids), 1, 1 + max(text for _, text in cells)), dtype=np.bool_)
    present = np.zeros_like(match)
    for row, text in reversed(cells):
        match[position[row.example], 0, text] = row.match
        present[position[row.example], 0, text] = True
    frame = Frame(tuple(ids), match, present, {name: tuple(some) for name, some in tags.items()})
    sizes = {**card.counts, **card.other_counts}
    if len(frame) == sum(card.counts.values()) or not sizes:
        return frame, []
    other = next((name for name, size in card.other_counts.items() if size == len(frame)), None)
    if other is not None:
        return frame, [f"{len(frame):,} examples: {other}"]
    listed = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    message = f"holds scores of {len(frame):,} examples, and {card.name} has {listed}"
    if not partial:
        raise InputError(
            f"{message}; pass {option('partial', True)} to report what is there.", file=rows.file
        )
    return frame, [message]


def _list_known_examples(
    card: Card, ids: list[str], tags: dict[str, list[TagValue]], rows: ScoreRows
) -> tuple[list[str], dict[str, list[TagValue]]]:
    """List the possible ids and their subsets from the card, without annotation files."""
    total = sum(card.counts.values())
    if len(card.counts) == 1:
        known = {str(i) for i in range(total)}
        _refuse_unknown(rows, known, card)
        listed, position = sorted(known, key=int), {name: i for i, name in enumerate(ids)}
        return listed, {
            tag: [values[position[name]] if name in position else "" for name in listed]
            for tag, values in tags.items()
        }
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
    """Check the number of examples of each subset against the card."""
    if len(card.counts) == 1:
        return []
    counted = Counter(frame.tags["subset"])
    notes = []
    for subset, expected in card.counts.items():
        count = counted[subset]
        if count == expected:
            continue
        message = f"{subset} has scores for {count} examples, and {card.name} has {expected}"
        if not partial:
            raise InputError(
                f"{message}; pass {option('partial', True)} to report what is there.", file=path
            )
        notes.append(message)
    return notes


def _read_arrays(path: Path, card: Card, frame: Frame | None, *, partial: bool) -> Answers:
    if not path.exists():
        raise InputError("does not exist.", file=path)
    shape = (
        frame.match if frame is not None else build_frame_from_card(card, ["?"], {}).match
    ).shape[1:]
    ids, tags, scores = read_subset_arrays(path, card, shape)
    if frame is None:
        frame = build_frame_from_card(card, ids, tags)
        notes = _check_counts(card, frame, path, partial=partial)
        if len(card.counts) == 1 and len(frame) != (total := sum(card.counts.values())):
            message = f"holds {len(frame)} examples, and {card.name} has {total}"
            if not partial or len(frame) > total:
                raise InputError(f"{message}.", file=path)
            notes.append(message)
        return Answers(frame, scores, tuple(notes))
    order = _match_rows(tags, len(scores), frame, path, partial=partial)
    filled = np.full(frame.match.shape, np.nan, dtype=scores.dtype)
    filled[order >= 0] = scores[order[order >= 0]]
    return Answers(frame, filled).take(find_complete(filled, frame, path, partial=partial))


def _match_rows(
    tags: dict[str, list[TagValue]], rows: int, frame: Frame, path: Path, *, partial: bool = False
) -> IntArray:
    """Match each example of the frame to its array row, by its position in its subset.

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
            f"holds no scores for {', '.join(missing)}; pass {option('partial', True)} to report "
            "the others alone.",
            file=path,
        )
    return order
