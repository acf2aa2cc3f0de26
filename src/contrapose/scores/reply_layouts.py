"""Layouts of files of replies: MMVP's and POPE's answers, HallusionBench's results.

A reply that can be read is a score of 1 for the answer that it gives and 0 for the other; one that
cannot be read is ½ for yes and no, and 0 for all options of a choice, which wins nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from contrapose.files import MalformedError, Problems, Record, parse_records
from contrapose.scores.rows import ScoreRow

NO_ANSWER = 0.5
"""Score of a reply that names no answer: neither yes nor no."""

MMVP_FIELDS = ("question_id", "prompt", "answer", "response")


def is_mmvp(row: Mapping[str, Any]) -> bool:
    """Whether a row is an answer of MMVP's script: question, right answer and response."""
    return all(name in row for name in MMVP_FIELDS)


def parse_mmvp_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"question_id", "prompt", "answer", "response"}`; prompts hold the options."""
    from contrapose.data.benchmarks.mmvp import parse_options, question_tags

    def build(record: Record) -> list[ScoreRow]:
        index = record.integer("question_id")
        if index < 1:
            raise MalformedError(f"record {record.key}: 'question_id' counts from 1.")
        options = parse_options(record.text("prompt"))
        right = record.text("answer").strip(" ().").lower()
        if len(options) < 2 or right not in options:
            raise MalformedError(
                f"record {record.key}: the prompt must hold options such as '(a) open (b) closed', "
                "and the answer be one of them."
            )
        reply = record.field("response")
        if not isinstance(reply, str):
            raise MalformedError(f"record {record.key}: 'response' must be text.")
        chosen = parse_option(reply, options)
        tags = tuple(question_tags(index).items())
        return [
            ScoreRow(
                str(index), None, i, float(letter == chosen), record.line, tags, letter == right
            )
            for i, letter in enumerate(options)
        ]

    return [row for rows in parse_records(records, build, problems) for row in rows]


def parse_option(reply: str, options: Mapping[str, str]) -> str | None:
    """Read which option a reply chooses: its letter, or its words; None where it is not clear.

    A letter counts in brackets, or alone at the beginning; words count where those of one option
    and of no other are in the reply.
    """
    letters = {match.lower() for match in re.findall(r"\(([A-Za-z])\)", reply)}
    if not letters and (match := re.match(r"\W*([A-Za-z])(?:[.):,]|\s*$)", reply)):
        letters = {match[1].lower()}
    if letters:
        return letters.pop() if len(letters) == 1 and letters <= set(options) else None
    words = " ".join(re.findall(r"\w+", reply.lower()))
    named = [
        letter
        for letter, option in options.items()
        if (plain := " ".join(re.findall(r"\w+", option.lower()))) and f" {plain} " in f" {words} "
    ]
    return named[0] if len(named) == 1 else None


def is_pope(row: Mapping[str, Any]) -> bool:
    """Whether a row is an answer to a question of POPE."""
    asked = "question" in row and "answer" in row
    return "score" not in row and (
        asked or ("question_id" in row and "text" in row and "label" not in row)
    )


def parse_pope_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"question", "answer"}` or `{"question_id", "text"}`, in the questions' order."""

    def build(record: Record) -> ScoreRow:
        fields = record.value if isinstance(record.value, dict) else {}
        reply = record.field("answer" if "answer" in fields else "text")
        if not isinstance(reply, str):
            raise MalformedError(f"record {record.key}: the answer must be text.")
        known = {"yes": True, "no": False}.get(str(fields.get("label")).strip().lower())
        score = parse_yes_no(reply)
        return ScoreRow(record.key, None, None, score, record.line, match=known)

    return list(parse_records(records, build, problems))


def parse_yes_no(reply: str) -> float:
    """Read yes (1) or no (0) as POPE's script does: ½ where there is neither.

    Its first sentence says no where it has the word no or not, in any other case yes; here only
    where the reply has the word yes.
    """
    words = reply.partition(".")[0].replace(",", "").split()
    if any(word in ("No", "not", "no") for word in words):
        return 0.0
    plain = [word.strip(",!;:\"'*").lower() for word in reply.replace(".", " ").split()]
    if "yes" in plain:
        return 1.0
    return 0.0 if "no" in plain else NO_ANSWER


RESULT_FIELD = "model_prediction"
GRADE_FIELD = "gpt4v_output_gpt_check"
"""Field in which the released script keeps its grade: 1 right, 0 wrong, 2 unclear."""


def is_hallusionbench(row: Mapping[str, Any]) -> bool:
    """Whether a row is a result of HallusionBench."""
    return "figure_id" in row and (RESULT_FIELD in row or GRADE_FIELD in row)


def parse_hallusionbench_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse the rows of HallusionBench.json with `model_prediction`, or with the script's grade.

    A grade counts before the reply, where `gt_answer` says what was right. In a reply the first of
    the words yes and no counts.
    """
    from contrapose.data.benchmarks.yes_no import question_names

    def build(record: Record) -> ScoreRow:
        name, tags = question_names(record)
        truth = record.name("gt_answer").strip() if "gt_answer" in record.value else None
        if truth not in (None, "0", "1"):
            raise MalformedError(f"record {record.key}: 'gt_answer' must be 0 or 1.")
        right = None if truth is None else truth == "1"
        grade = record.name(GRADE_FIELD).strip() if GRADE_FIELD in record.value else None
        if grade is not None and right is not None:
            if grade not in ("0", "1", "2"):
                raise MalformedError(f"record {record.key}: {GRADE_FIELD!r} must be 0, 1 or 2.")
            score = NO_ANSWER if grade == "2" else float(right == (grade == "1"))
        else:
            reply = record.field(RESULT_FIELD)
            if not isinstance(reply, str):
                raise MalformedError(f"record {record.key}: {RESULT_FIELD!r} must be text.")
            first = re.search(r"\b(yes|no)\b", reply, re.IGNORECASE)
            score = NO_ANSWER if first is None else float(first[1].lower() == "yes")
        return ScoreRow(name, None, None, score, record.line, tuple(tags.items()), right)

    return list(parse_records(records, build, problems))
