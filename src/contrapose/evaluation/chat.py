"""Chat evaluation: each order of options, their mean, all orders, and consistency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Example
from contrapose.engine import ScoringContext
from contrapose.engine.chat import ReplyTable, collect_replies
from contrapose.engine.chat_prompts import YES_NO, ChatTemplate, find_template
from contrapose.evaluation.skips import NothingLeftError, SkipReasons
from contrapose.metrics import Choices, IntArray
from contrapose.results.measures import Measure, Measurements, measure_from_outcome, place_measures
from contrapose.results.schema import UsageReport
from contrapose.results.shapes import MeasureInput, Protocol, find_shape, measure
from contrapose.results.shapes.judgement import NO_ANSWER
from contrapose.results.shapes.protocols import drop_disputed
from contrapose.results.tables import ScoreTable
from contrapose.scores import Answers

PAIRINGS = (
    "captions_12_images_12",
    "captions_21_images_12",
    "captions_12_images_21",
    "captions_21_images_21",
)
"""The orders of EqBen's prompt; the paper's two rows are the first two."""


@dataclass(frozen=True, slots=True, eq=False)
class ChatTranscript:
    """Transcript of a chat run: prompt template, usage and replies.

    Attributes:
        template: the prompt's template.
        usage: number of questions, tokens and cost.
        replies: every question and its reply.
    """

    template: ChatTemplate
    usage: UsageReport
    replies: ScoreTable


def measure_chat(
    context: ScoringContext,
    card: Card,
    examples: Sequence[Example],
    score: str,
    prefix: str = "",
    protocol: Protocol = "strict",
) -> tuple[Measurements, Measurements | None, ChatTranscript, SkipReasons]:
    """Question a chat model about examples, and measure its answers.

    Ids of the table of replies get the prefix. Under the official protocol the strict measures
    come second.

    Raises:
        NothingLeftError: all examples were skipped.
    """
    chat = find_shape(card).chat
    template = find_template(score, tuple(chat.metrics))
    sheet = collect_replies(context, template, examples, chat.options)
    if not len(sheet.frame):
        raise NothingLeftError(card.name, sheet.skipped)
    usage = UsageReport.model_validate(sheet.usage, from_attributes=True)
    transcript = ChatTranscript(template, usage, replies_table(sheet, prefix))
    measured = measure_replies(sheet, card, template, protocol)
    strict = None if protocol == "strict" else measure_replies(sheet, card, template)
    return measured, strict, transcript, sheet.skipped


def measure_replies(
    sheet: ReplyTable, card: Card, template: ChatTemplate, protocol: Protocol = "strict"
) -> Measurements:
    """Measure the answers of every example; disputed ones count by the official protocol alone."""
    if template is YES_NO:
        return _measure_yes_no(sheet, card, protocol)
    frame, chat = sheet.frame, find_shape(card).chat
    parts: list[tuple[IntArray, dict[str, Measure]]] = []
    for positions, answers, right, options in _group_by_shape(sheet):
        choices = metrics.joint_choice(answers, right, options)
        named = _name_measures(choices, chat.metrics[template.name], template.name)
        parts.append((positions, chat.more(named, answers, right) if chat.more else named))
    measures, clusters = place_measures(parts, len(frame)), frame.clusters
    if chat.join is not None:
        measures, clusters = chat.join(frame, measures)
    notes = (f"asked with the prompt of {template.source} (chat:{template.name})",)
    measured = Measurements(frame.ids, frame.tags, clusters, measures, notes=notes)
    return measured if protocol == "official" else drop_disputed(measured, card)


def _measure_yes_no(sheet: ReplyTable, card: Card, protocol: Protocol) -> Measurements:
    """Measure replies of yes and no as scores of 1 and 0, and ½ where they are neither."""
    said = np.array([1.0, 0.0, NO_ANSWER])[sheet.chosen]
    answers = Answers(sheet.frame, said[:, None, None])
    measured = measure(MeasureInput(answers, card, protocol=protocol, threshold=NO_ANSWER))
    parsed = {name: said[i] != NO_ANSWER for i, name in enumerate(sheet.frame.ids)}
    rate = np.array([parsed[name] for name in measured.ids], dtype=np.float64)
    everywhere = np.ones(len(measured), dtype=np.bool_)
    note = f"asked {YES_NO.source} (chat:{YES_NO.name})"
    return replace(
        measured,
        measures={**measured.measures, "parse_rate": Measure(rate, everywhere)},
        notes=(*measured.notes, note),
    )


def replies_table(sheet: ReplyTable, prefix: str = "") -> ScoreTable:
    """Table of questions and replies, one row each; example ids get the prefix."""
    rights = [
        sheet.rounds[k][r].right
        for k, r in zip(sheet.example.tolist(), sheet.round.tolist(), strict=True)
    ]
    return {
        "example": [prefix + sheet.frame.ids[k] for k in sheet.example.tolist()],
        "question": sheet.round,
        "order": sheet.order,
        "prompt": list(sheet.prompts),
        "reply": list(sheet.replies),
        "chosen": sheet.chosen,
        "right": np.array(rights, dtype=np.int64),
    }


def stack_replies(transcripts: Iterable[ChatTranscript]) -> ScoreTable | None:
    """Stack the tables of questions and replies of several parts; None when there are none."""
    tables = [transcript.replies for transcript in transcripts]
    if not tables:
        return None
    return {name: [row for table in tables for row in table[name]] for name in tables[0]}


def sum_usage(usages: Iterable[UsageReport]) -> UsageReport | None:
    """Sum the usage of several parts; None when there are none."""
    parts = list(usages)
    if not parts:
        return None
    costs = [usage.cost for usage in parts]
    return UsageReport(
        questions=sum(usage.questions for usage in parts),
        uncounted=sum(usage.uncounted for usage in parts),
        tokens_in=sum(usage.tokens_in for usage in parts),
        tokens_out=sum(usage.tokens_out for usage in parts),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def usage_note(usage: UsageReport | None) -> tuple[str, ...]:
    """Note on the usage of chat questions."""
    if usage is None:
        return ()
    counted = usage.questions - usage.uncounted
    words = f"{usage.questions:,} questions"
    if counted:
        words += f", {usage.tokens_in:,} tokens in and {usage.tokens_out:,} out"
    if usage.uncounted:
        words += f" ({usage.uncounted:,} replies came without token counts)"
    if usage.cost is not None and counted:
        words += f", {usage.cost:,.4f} at the prices given"
    return (f"{words}; what the cache knew is counted too",)


def _group_by_shape(sheet: ReplyTable) -> Iterable[tuple[IntArray, IntArray, IntArray, int]]:
    """Group examples by number of questions, orders and options: positions, answers, truth."""
    shapes = [(len(asked), len(asked[0].turns), asked[0].options) for asked in sheet.rounds]
    starts = np.concatenate([[0], np.cumsum([r * o for r, o, _ in shapes])])
    for shape in dict.fromkeys(shapes):
        rounds, orders, options = shape
        alike = [k for k, other in enumerate(shapes) if other == shape]
        positions = np.array(alike, dtype=np.int64)
        rows = starts[positions][:, None] + np.arange(rounds * orders)
        answers = sheet.chosen[rows].reshape(-1, rounds, orders)
        right = [[one.right for one in sheet.rounds[k]] for k in positions.tolist()]
        yield positions, answers, np.array(right, dtype=np.int64), options


def _name_measures(choices: Choices, main: str, template: str) -> dict[str, Measure]:
    """Name the measures of some examples, in the order of the report."""
    count = len(choices.orders)
    orders = PAIRINGS if template == "eqben" else [f"right_at_{i + 1}" for i in range(count)]
    outcomes = {
        main: choices.mean,
        "every_order": choices.every,
        "consistency": choices.consistent,
        "parse_rate": choices.parsed,
        **dict(zip(orders, choices.orders, strict=True)),
    }
    return {name: measure_from_outcome(outcome) for name, outcome in outcomes.items()}
