"""Score files with one pair per row: general tables and the native Winoground and VALSE labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from contrapose.data import TagValue
from contrapose.errors import InputError, option
from contrapose.files import MalformedError, Problems, Record, parse_records
from contrapose.metrics import FloatArray, IntArray
from contrapose.scores.answers import Frame

Position = int | str | None
"""Image or caption of an example that a row names: its position, its name, or None for the only.

Text of digits, as every cell of a CSV file is, may be either.
"""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """Score of one pair, as a row of a score file gives it.

    Attributes:
        example: id of the example.
        image: which of its images; None when it has one.
        text: which of its captions.
        score: the score.
        line: the line of the file.
        tags: tags of the example that the row gives.
        match: whether image and caption belong together, where the row says so.
        reply: a reply in words, of which the score is yet to be read.
    """

    example: str
    image: Position
    text: Position
    score: float
    line: int
    tags: tuple[tuple[str, TagValue], ...] = ()
    match: bool | None = None
    reply: str | None = None


@dataclass(frozen=True, slots=True)
class ScoreRows:
    """Rows of a score file.

    Attributes:
        file: the file.
        rows: its rows.
        pairs: whether rows name sentence and image in place of an example.
    """

    file: Path
    rows: Sequence[ScoreRow]
    pairs: bool = False

    def examples(self) -> tuple[list[str], dict[str, list[TagValue]]]:
        """Return the ids in the order of their first row, and the tags that the rows give them."""
        tags_of: dict[str, dict[str, TagValue]] = {}
        for row in self.rows:
            tags_of.setdefault(row.example, {}).update(row.tags)
        names = dict.fromkeys(name for tags in tags_of.values() for name in tags)
        ids = list(tags_of)
        return ids, {name: [tags_of[i].get(name, "") for i in ids] for name in names}


def fill_scores(rows: ScoreRows, frame: Frame, *, partial: bool) -> tuple[FloatArray, IntArray]:
    """Fill the scores of a frame from rows.

    Returns:
        The k × m × n scores, and the positions of the examples that have all of theirs: all of
        them, unless `partial` lets examples without any score be left out.

    Raises:
        InputError: a row names an unknown example, image or caption, a pair comes twice, or a
            pair is missing.
    """
    index = {name: i for i, name in enumerate(frame.ids)}
    images_of = frame.present[:, :, 0].sum(axis=1).tolist()
    texts_of = frame.present[:, 0, :].sum(axis=1).tolist()
    cells: dict[tuple[int, int, int], float] = {}
    for row in rows.rows:
        example = index.get(row.example)
        if example is None:
            raise InputError(
                f"the example {row.example!r} is not in the benchmark.",
                file=rows.file,
                line=row.line,
            )
        keys = None if frame.image_keys is None else frame.image_keys[example]
        texts = None if frame.texts is None else frame.texts[example]
        image = _resolve_position(row.image, images_of[example], keys, "image", row, rows.file)
        text = _resolve_position(row.text, texts_of[example], texts, "caption", row, rows.file)
        if (example, image, text) in cells:
            raise InputError(
                f"example {row.example}: image {image} with caption {text} comes twice.",
                file=rows.file,
                line=row.line,
            )
        if row.match is not None and row.match != bool(frame.match[example, image, text]):
            raise InputError(
                f"example {row.example} has the label {int(row.match)} here and another in the "
                "benchmark's files: the scores are of another split or release.",
                file=rows.file,
                line=row.line,
            )
        cells[example, image, text] = row.score
    scores = np.full(frame.match.shape, np.nan)
    if cells:
        scores[tuple(np.array(list(cells)).T)] = list(cells.values())
    return scores, find_complete(scores, frame, rows.file, partial=partial)


def find_complete(scores: FloatArray, frame: Frame, file: Path, *, partial: bool) -> IntArray:
    """Return the positions of the examples with all scores; refuse examples with holes."""
    missing = np.isnan(scores) & frame.present
    holes = missing.any(axis=(1, 2))
    absent = (missing == frame.present).all(axis=(1, 2))
    torn = np.flatnonzero(holes & ~absent)
    if torn.size:
        example = int(torn[0])
        image, text = (int(i) for i in np.argwhere(missing[example])[0])
        more = f" ({torn.size} examples have holes)" if torn.size > 1 else ""
        raise InputError(
            f"example {frame.ids[example]}: the score of image {image} with caption {text} "
            f"is missing{more}.",
            file=file,
        )
    if absent.any() and not partial:
        named = [frame.ids[i] for i in np.flatnonzero(absent)[:3]]
        raise InputError(
            f"{int(absent.sum())} of {len(frame)} examples have no scores "
            f"({', '.join(named)}{', …' if absent.sum() > 3 else ''}); "
            f"pass {option('partial', True)} to report the others alone.",
            file=file,
        )
    if absent.all():
        raise InputError("holds no score for any example of the benchmark.", file=file)
    return np.flatnonzero(~absent)


MOST_DIGITS = 19
"""Digits from which on a text is no position; Python refuses to convert thousands of them."""


def _resolve_position(
    named: Position,
    count: int,
    names: tuple[str, ...] | None,
    what: str,
    row: ScoreRow,
    file: Path,
) -> int:
    """Resolve a position, a name, or None to a position."""
    if named is None and count == 1:
        return 0
    position: int | None = None
    if isinstance(named, str):
        position = next((i for i, name in enumerate(names or ()) if name == named), None)
        digits = named.strip()
        if digits.isascii() and digits.isdecimal() and len(digits) < MOST_DIGITS:
            if position not in (None, int(digits)) and int(digits) < count:
                raise InputError(
                    f"example {row.example}: {named!r} is both the name of {what} {position} and "
                    f"a position; give the {what}'s position as a number in a .jsonl file.",
                    file=file,
                    line=row.line,
                )
            named = int(digits) if position is None else position
    if isinstance(named, int):
        position = named if 0 <= named < count else None
    if position is None:
        needs_root = names is None and isinstance(named, str)
        hint = f"; names need {option('root', 'DIR')}" if needs_root else ""
        raise InputError(
            f"example {row.example} has {count} {what}{'s' if count > 1 else ''}, and "
            f"{'none' if named is None else repr(named)} is not one of them{hint}.",
            file=file,
            line=row.line,
        )
    return position


def parse_pair_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse `{"<sentence>|<image id>": score}`, as the notebook of SVO-Probes reads them."""

    def build(record: Record) -> ScoreRow:
        sentence, _, image = record.key.rpartition("|")
        if not sentence.strip() or not image.strip():
            raise MalformedError(f"the key {record.key[:40]!r} is not '<sentence>|<image id>'.")
        score = record.inner({"score": record.value}).number("score")
        return ScoreRow(_pair_name(sentence, image), None, None, score, record.line)

    return list(parse_records(records, build, problems))


def _pair_name(sentence: str, image: str) -> str:
    return f"{' '.join(sentence.lower().split())}|{image.strip()}"


def spread_pairs(rows: ScoreRows, frame: Frame | None) -> ScoreRows:
    """Give the scores of sentences and images to the examples that hold these pairs.

    As in the notebook, an example without one of its pairs has no score.

    Raises:
        InputError: the examples are not known, or a pair comes twice.
    """
    if frame is None or frame.image_keys is None or frame.texts is None:
        raise InputError(
            f"names sentences and images; {option('root', 'DIR')} says which examples they are.",
            file=rows.file,
        )
    scored: dict[str, ScoreRow] = {}
    for row in rows.rows:
        if row.example in scored:
            raise InputError(
                f"the pair {row.example!r} comes twice.", file=rows.file, line=row.line
            )
        scored[row.example] = row
    spread: list[ScoreRow] = []
    for name, keys, texts in zip(frame.ids, frame.image_keys, frame.texts, strict=True):
        pairs = [scored.get(_pair_name(texts[0], key)) for key in keys]
        spread += [
            replace(row, example=name, image=i, text=0)
            for i, row in enumerate(pairs)
            if row is not None and None not in pairs
        ]
    return ScoreRows(rows.file, spread)


WINOGROUND_LABEL = re.compile(r"(?P<id>\d+)_c(?P<caption>[01])_i(?P<image>[01])")
WINOGROUND_TEXT_LABEL = re.compile(r"(?P<id>\d+)_c(?P<caption>[01])")
WINOGROUND_COLUMNS = ("c0_i0", "c0_i1", "c1_i0", "c1_i1")
VALSE_LABEL = re.compile(r"(?P<id>\d+)_(?P<role>[cf])")


def parse_winoground_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"label": "<id>_c<caption>_i<image>", "score"}`, or `{"id", "c0_i0", …}`.

    A prior has no image: `{"label": "<id>_c<caption>", "score"}`.
    """

    def build(record: Record) -> list[ScoreRow]:
        if isinstance(record.value, dict) and WINOGROUND_COLUMNS[0] in record.value:
            return [
                ScoreRow(
                    record.name("id"), int(name[4]), int(name[1]), record.number(name), record.line
                )
                for name in WINOGROUND_COLUMNS
            ]
        label = record.name("label")
        match = WINOGROUND_LABEL.fullmatch(label)
        text_only = WINOGROUND_TEXT_LABEL.fullmatch(label)
        if match is not None:
            image, caption = int(match["image"]), int(match["caption"])
            return [ScoreRow(match["id"], image, caption, record.number("score"), record.line)]
        if text_only is not None:
            score = record.number("score")
            return [ScoreRow(text_only["id"], None, int(text_only["caption"]), score, record.line)]
        raise MalformedError(
            f"the label {label!r} is not of Winoground's form '<id>_c<0|1>_i<0|1>'."
        )

    return [row for rows in parse_records(records, build, problems) for row in rows]


def parse_valse_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"label": "<n>_c" or "<n>_f", "score", "instrument", "piece"}`."""

    def build(record: Record) -> ScoreRow:
        label = record.name("label")
        match = VALSE_LABEL.fullmatch(label)
        if match is None:
            raise MalformedError(f"the label {label!r} is not of VALSE's form '<n>_c' or '<n>_f'.")
        tags: list[tuple[str, TagValue]] = []
        for tag, field in (("subset", "instrument"), ("phenomenon", "piece")):
            if record.value.get(field):
                tags.append((tag, record.text(field)))
        text = 0 if match["role"] == "c" else 1
        return ScoreRow(match["id"], None, text, record.number("score"), record.line, tuple(tags))

    return list(parse_records(records, build, problems))


def parse_general_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `example, image, text, score`; image or text may be left out if there is one.

    In a run folder's table the number is called `value`, and `score` is the name of the score.
    """

    def position(record: Record, field: str) -> int | str | None:
        value = record.value.get(field)
        if value is None or value == "":
            return None
        if isinstance(value, bool):
            raise MalformedError(f"record {record.key}: {field!r} must be a position or a name.")
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return record.integer(field)
        return record.text(field)

    def build(record: Record) -> ScoreRow:
        example = record.name("example")
        score = record.number("value" if "value" in record.value else "score")
        return ScoreRow(
            example, position(record, "image"), position(record, "text"), score, record.line
        )

    return list(parse_records(records, build, problems))
