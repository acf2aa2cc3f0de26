"""Layouts of score files: how each is recognized by its first row, and how its rows are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contrapose.errors import InputError, option
from contrapose.files import MalformedError, Problems, Record, parse_records
from contrapose.scores.answers import Frame
from contrapose.scores.outcomes import OUTCOME_COLUMNS, PREDICATE_NOUN_COLUMNS
from contrapose.scores.rating_layouts import RATING_FIELDS, parse_rating_rows
from contrapose.scores.reply_layouts import (
    NO_ANSWER,
    is_hallusionbench,
    is_mmvp,
    is_pope,
    parse_hallusionbench_rows,
    parse_mmvp_rows,
    parse_pope_rows,
)
from contrapose.scores.rows import (
    MOST_DIGITS,
    VALSE_LABEL,
    WINOGROUND_COLUMNS,
    WINOGROUND_LABEL,
    WINOGROUND_TEXT_LABEL,
    ScoreRow,
    ScoreRows,
    parse_general_rows,
    parse_pair_rows,
    parse_valse_rows,
    parse_winoground_rows,
)

LABELS = {"0": False, "1": True, "false": False, "true": True}


def is_label(value: object) -> bool:
    """Whether a value says that image and caption belong together, or that they do not."""
    return isinstance(value, str | int) and str(value).strip().lower() in LABELS


JUDGEMENT_TAGS = {"relation": "relation", "dataset_source": "subset", "text": "prompt"}
"""Tags that rows of judgements may give: field → tag."""


def parse_judgement_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"id", "label", "score", "relation"}` with the label 0 or 1; one pair each.

    Without an id, rows count from 0. SeeTRUE's rows with a score are read too.
    """

    def build(record: Record) -> ScoreRow:
        label = record.field("label")
        if not is_label(label):
            raise MalformedError(f"record {record.key}: 'label' must be 0 or 1.")
        example = record.name("id") if "id" in record.value else record.key
        tags = tuple(
            (tag, record.text(name))
            for name, tag in JUDGEMENT_TAGS.items()
            if record.value.get(name)
        )
        return ScoreRow(
            example,
            None,
            None,
            record.number("score"),
            record.line,
            tags,
            LABELS[str(label).strip().lower()],
        )

    return list(parse_records(records, build, problems))


def parse_predicate_noun_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"id", "prob_target_match", "prob_distractor_match"}`, one for each image.

    Rows 2n and 2n + 1 are example n: the right sentence of one is the wrong sentence of the other.
    """

    def build(record: Record) -> list[ScoreRow]:
        number = record.integer("id")
        if number < 0:
            raise MalformedError(f"record {record.key}: 'id' must not be negative.")
        image = number % 2
        tags = (("pos", record.text("pos")),) if record.value.get("pos") else ()
        return [
            ScoreRow(str(number // 2), image, text, record.number(name), record.line, tags)
            for name, text in zip(PREDICATE_NOUN_COLUMNS, (image, 1 - image), strict=True)
        ]

    return [row for rows in parse_records(records, build, problems) for row in rows]


NATURALBENCH_FIELDS = ("q0_i0", "q0_i1", "q1_i0", "q1_i1")
REPLY_FIELDS = ("reply", "output", "prediction", "response")
TYPE_FIELDS = ("type", "question_type", "Question_Type")


def parse_naturalbench_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse answers or replies of groups of two questions × two images.

    Answers are `{"q0_i0": 1, "q0_i1": 0, …}` with 1 for yes or A, 0 for no or B and −1 for neither;
    the key or the field `id` is the group. Replies are texts, or rows with a field `reply` or
    `output`, four to a group: question 0 with image 0 and 1, then question 1. Rows may give the
    position themselves (`id`, `index` or `example`, and `image`, `text`) and the type of question.
    """

    def build(record: Record) -> list[ScoreRow]:
        if isinstance(record.value, dict) and NATURALBENCH_FIELDS[0] in record.value:
            name = next((n for n in ("id", "index", "Index") if n in record.value), None)
            group = record.key if name is None else record.name(name)
            return [
                ScoreRow(group, int(field[4]), int(field[1]), _answer(record, field), record.line)
                for field in NATURALBENCH_FIELDS
            ]
        if isinstance(record.value, str):
            return [_reply_row(record, _position(record), record.value)]
        field = next((name for name in REPLY_FIELDS if name in _fields(record)), None)
        reply = None if field is None else record.value[field]
        if not isinstance(reply, str):
            raise MalformedError(f"record {record.key}: the reply must be text.")
        if "image" in record.value and "text" in record.value:
            image, text = record.integer("image"), record.integer("text")
            name = record.name("example")
            row = ScoreRow(name, image, text, NO_ANSWER, record.line, reply=reply)
        else:
            number = record.integer("id") if "id" in record.value else _position(record)
            row = _reply_row(record, number, reply)
        kind = next((name for name in TYPE_FIELDS if name in record.value), None)
        return [
            row if kind is None else replace(row, tags=(("type", _question_type(record, kind)),))
        ]

    return [row for rows in parse_records(records, build, problems) for row in rows]


def _fields(record: Record) -> Mapping[str, Any]:
    if not isinstance(record.value, dict):
        raise MalformedError(f"record {record.key}: expected a reply, as text or in a field.")
    return record.value


def _position(record: Record) -> int:
    if not record.key.isascii() or not record.key.isdecimal() or len(record.key) > MOST_DIGITS:
        raise MalformedError(f"record {record.key}: replies must be a list, or have ids.")
    return int(record.key)


def _answer(record: Record, field: str) -> float:
    value = record.number(field)
    if value not in (-1, 0, 1):
        raise MalformedError(f"record {record.key}: {field!r} must be 1, 0, or -1 for no answer.")
    return NO_ANSWER if value < 0 else value


def _reply_row(record: Record, number: int, reply: str) -> ScoreRow:
    if number < 0:
        raise MalformedError(f"record {record.key}: 'id' must not be negative.")
    group, rest = divmod(number, 4)
    return ScoreRow(str(group), rest % 2, rest // 2, NO_ANSWER, record.line, reply=reply)


def _question_type(record: Record, field: str) -> str:
    name = record.text(field)
    kind = "multiple_choice" if name == "mcq" else name
    if kind not in ANSWER_WORDS:
        raise MalformedError(f"record {record.key}: {name!r} is no type of question.")
    return kind


ANSWER_WORDS = {"yes_no": ("yes", "no"), "multiple_choice": ("a", "b")}


def parse_reply(reply: str, kind: str | None) -> float | None:
    """Read a reply: 1 for yes or A, 0 for no or B, ½ for neither; the first of the words counts.

    Args:
        reply: the text.
        kind: `yes_no` or `multiple_choice`; None where it is not known.

    Returns:
        The score; None where the type is not known and words of both types are in the reply.
    """
    if kind is not None:
        return _first_word(reply, ANSWER_WORDS[kind])
    letters = re.search(r"\b[AB]\b|^\W*b\b|^\W*a\W*$", reply) is not None
    words = _first_word(reply, ANSWER_WORDS["yes_no"])
    if not letters:
        return words
    return _first_word(reply, ANSWER_WORDS["multiple_choice"]) if words == NO_ANSWER else None


def _first_word(reply: str, words: tuple[str, str]) -> float:
    hit = re.search(rf"\b({words[0]}|{words[1]})\b", reply, re.IGNORECASE)
    return NO_ANSWER if hit is None else float(hit[1].lower() == words[0])


def resolve_replies(rows: ScoreRows, frame: Frame | None) -> tuple[ScoreRows, list[str]]:
    """Read the replies of rows, by the type of the question that the rows or the examples give.

    Returns:
        The rows with scores, and a note on the replies without an answer.

    Raises:
        InputError: a reply can be read in two ways, and nothing tells the type of the question.
    """
    if not any(row.reply is not None for row in rows.rows):
        return rows, []
    tags = () if frame is None else frame.tags.get("type", ())
    kinds = {} if frame is None else dict(zip(frame.ids, map(str, tags), strict=False))
    resolved, silent = [], 0
    for row in rows.rows:
        if row.reply is None:
            resolved.append(row)
            continue
        kind = dict(row.tags).get("type") or kinds.get(row.example)
        score = parse_reply(row.reply, str(kind) if kind in ANSWER_WORDS else None)
        if score is None:
            raise InputError(
                f"example {row.example}: the reply may be yes or no, or a letter; give the type of "
                f"the question in a field 'type', or {option('root', 'DIR')}.",
                file=rows.file,
                line=row.line,
            )
        silent += score == NO_ANSWER
        resolved.append(replace(row, score=score))
    note = f"{silent:,} of {len(resolved):,} replies name no answer, and are wrong"
    return ScoreRows(rows.file, resolved), [note] if silent else []


LIST_FIELDS = {"scores": "", "proficiency": "/proficiency"}
"""Field of a list of scores → ending of the example's id."""


def parse_list_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse `{"<id>": {"scores": [caption, foil, …]}}`, as ViLMA's models write them.

    The scores of the proficiency test stand in a list `proficiency` of the same id.
    """

    def build(record: Record) -> list[ScoreRow]:
        rows = []
        for field, ending in LIST_FIELDS.items():
            if field not in record.value:
                continue
            scores = record.value[field]
            if not isinstance(scores, list) or not scores:
                raise MalformedError(f"record {record.key}: {field!r} must be a list of scores.")
            for i, score in enumerate(scores):
                number = record.inner({field: score}).number(field)
                rows.append(ScoreRow(f"{record.key}{ending}", None, i, number, record.line))
        if not rows:
            record.field("scores")
        return rows

    return [row for rows in parse_records(records, build, problems) for row in rows]


def drop_unknown(rows: ScoreRows, frame: Frame) -> tuple[ScoreRows, list[str]]:
    """Drop rows of examples that a frame has not, with a note on how many examples they are."""
    known = set(frame.ids)
    kept = [row for row in rows.rows if row.example in known]
    lost = {row.example for row in rows.rows} - known
    note = f"{len(lost):,} examples of the score file do not count: people found them invalid"
    return ScoreRows(rows.file, kept), [note] if lost and kept else []


def refuse_outcomes(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Refuse a table of outcomes where scores are needed.

    Raises:
        InputError: always.
    """
    first = next(iter(records))
    raise InputError("holds outcomes, not scores.", file=first.file, line=first.line)


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a score file.

    Attributes:
        title: in words.
        fits: whether a row, as a dictionary, has this layout.
        parse: from the records to score rows.
        benchmark: the benchmark that a row of it belongs to; None where the row does not tell.
    """

    title: str
    fits: Callable[[Mapping[str, Any]], bool]
    parse: Callable[[Iterable[Record], Problems], list[ScoreRow]]
    benchmark: Callable[[Mapping[str, Any]], str | None] = lambda row: None


def _is_winoground(row: Mapping[str, Any]) -> bool:
    label = str(row.get("label", ""))
    return WINOGROUND_COLUMNS[0] in row or any(
        pattern.fullmatch(label) for pattern in (WINOGROUND_LABEL, WINOGROUND_TEXT_LABEL)
    )


LAYOUTS = {
    "general": Layout(
        "a general table (example, image, text, score)",
        lambda row: "example" in row and not any(name in row for name in REPLY_FIELDS),
        parse_general_rows,
    ),
    "winoground": Layout(
        "Winoground score rows", _is_winoground, parse_winoground_rows, lambda row: "winoground"
    ),
    "valse": Layout(
        "VALSE score rows",
        lambda row: VALSE_LABEL.fullmatch(str(row.get("label", ""))) is not None,
        parse_valse_rows,
        lambda row: "valse",
    ),
    "predicate-noun": Layout(
        "rows of predicate-noun pairs (id, prob_target_match, …)",
        lambda row: PREDICATE_NOUN_COLUMNS[0] in row,
        parse_predicate_noun_rows,
        lambda row: "predicate-noun",
    ),
    "bivlc": Layout(
        "outcomes of single choices (text_score_i0, …)",
        lambda row: OUTCOME_COLUMNS[0] in row,
        refuse_outcomes,
        lambda row: "bivlc",
    ),
    "mmvp": Layout(
        "answers to MMVP's questions (question_id, prompt, answer, response)",
        is_mmvp,
        parse_mmvp_rows,
        lambda row: "mmvp",
    ),
    "hallusionbench": Layout(
        "results of HallusionBench (figure_id, …, model_prediction)",
        is_hallusionbench,
        parse_hallusionbench_rows,
        lambda row: "hallusionbench",
    ),
    "pope": Layout("answers to POPE's questions (question, answer)", is_pope, parse_pope_rows),
    "naturalbench": Layout(
        "answers or replies to two questions about two images (q0_i0, …; reply)",
        lambda row: NATURALBENCH_FIELDS[0] in row or any(name in row for name in REPLY_FIELDS),
        parse_naturalbench_rows,
        lambda row: "naturalbench" if NATURALBENCH_FIELDS[0] in row else None,
    ),
    "vilma": Layout(
        "lists of scores (scores, proficiency)",
        lambda row: any(isinstance(row.get(field), list) for field in LIST_FIELDS),
        parse_list_rows,
    ),
    "svo-probes": Layout(
        "scores of sentences and images (<sentence>|<image id>)", lambda row: False, parse_pair_rows
    ),
    "judgement": Layout(
        "rows with a label of 0 or 1 (id, label, score)",
        lambda row: is_label(row.get("label")) and "score" in row,
        parse_judgement_rows,
        lambda row: "vsr" if "relation" in row else "seetrue" if "dataset_source" in row else None,
    ),
    "ratings": Layout(
        "rows with people's ratings (human_scores or rating)",
        lambda row: any(name in row for name in RATING_FIELDS),
        parse_rating_rows,
        lambda row: "tifa160" if "human_scores" in row and "text_id" in row else None,
    ),
}
"""Layouts by name, in the order in which they are tried."""


def detect_layout(record: Record) -> str | None:
    """Name of the layout of a file by its first record; None for none."""
    row = record.value
    if isinstance(row, str):
        return "naturalbench"
    if not isinstance(row, dict):
        return "svo-probes" if isinstance(row, int | float) and "|" in record.key else None
    return next((name for name, layout in LAYOUTS.items() if layout.fits(row)), None)
