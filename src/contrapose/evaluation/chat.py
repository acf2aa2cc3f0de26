"""Chat evaluation: each order of options, their mean, all orders, and consistency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Example, Family
from contrapose.engine import ScoringContext
from contrapose.engine.chat import ChatTemplate, ReplyTable, collect_replies, find_template
from contrapose.evaluation.skips import NothingLeftError, SkipReasons
from contrapose.metrics import Choices, IntArray
from contrapose.results.measures import Measure, Measurements
from contrapose.results.schema import UsageReport
from contrapose.results.tables import ScoreTable

MeasuresByName = dict[str, Measure]

CHAT_METRICS: Mapping[tuple[Family, str], str] = {
    ("choice", "sugarcrepe"): "accuracy",
    ("foil", "sugarcrepe"): "pairwise_accuracy",
    ("triple", "sugarcrepe"): "augmented_accuracy",
    ("pairs", "sugarcrepe"): "text",
    ("pairs", "eqben"): "group",
    ("images", "eqben"): "group",
}
"""What the mean over the orders is called, by family and prompt."""

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
        template: the prompt.
        usage: questions, tokens and cost.
        replies: every question and its reply.
    """

    template: ChatTemplate
    usage: UsageReport
    replies: ScoreTable


def measure_chat(
    asking: ScoringContext, card: Card, examples: Sequence[Example], score: str, prefix: str = ""
) -> tuple[Measurements, ChatTranscript, SkipReasons]:
    """Ask a chat model about examples, and measure its answers; ids of the table get the prefix.

    Raises:
        NothingLeftError: not one could be asked.
    """
    template = find_template(score, card.family)
    sheet = collect_replies(asking, template, card.family, examples)
    if not len(sheet.frame):
        raise NothingLeftError(card.name, sheet.skipped)
    usage = UsageReport.model_validate(sheet.usage, from_attributes=True)
    said = ChatTranscript(template, usage, replies_table(sheet, prefix))
    return measure_sheet(sheet, card, template), said, sheet.skipped


def measure_sheet(sheet: ReplyTable, card: Card, template: ChatTemplate) -> Measurements:
    """Measure the answers of every example."""
    frame = sheet.frame
    parts: list[tuple[IntArray, MeasuresByName]] = []
    for positions, answers, right, options in _group_by_shape(sheet):
        choices = metrics.joint_choice(answers, right, options)
        named = _name_measures(choices, CHAT_METRICS[card.family, template.name], template.name)
        if card.family == "triple":
            named = _add_triple_measures(named, answers, right)
        parts.append((positions, named))
    found = _merge_measures(parts, len(frame))
    words = f"asked with the prompt of {template.source} (chat:{template.name})"
    return Measurements(frame.ids, frame.tags, frame.clusters, found, notes=(words,))


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


def stack_replies(said: Iterable[ChatTranscript]) -> ScoreTable | None:
    """Stack the tables of questions and replies of several parts; None when there are none."""
    tables = [each.replies for each in said]
    if not tables:
        return None
    return {name: [row for table in tables for row in table[name]] for name in tables[0]}


def sum_usage(usages: Iterable[UsageReport]) -> UsageReport | None:
    """Sum the usage of several parts; None when there are none."""
    each = list(usages)
    if not each:
        return None
    costs = [usage.cost for usage in each]
    return UsageReport(
        questions=sum(usage.questions for usage in each),
        uncounted=sum(usage.uncounted for usage in each),
        tokens_in=sum(usage.tokens_in for usage in each),
        tokens_out=sum(usage.tokens_out for usage in each),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def usage_note(usage: UsageReport | None) -> tuple[str, ...]:
    """Note on the usage of chat questions."""
    if usage is None:
        return ()
    counted = usage.questions - usage.uncounted
    said = f"{usage.questions:,} questions"
    if counted:
        said += f", {usage.tokens_in:,} tokens in and {usage.tokens_out:,} out"
    if usage.uncounted:
        said += f" ({usage.uncounted:,} replies came without token counts)"
    if usage.cost is not None and counted:
        said += f", {usage.cost:,.4f} at the prices given"
    return (f"{said}; what the cache knew is counted too",)


def _group_by_shape(sheet: ReplyTable) -> Iterable[tuple[IntArray, IntArray, IntArray, int]]:
    """Group examples by number of questions, orders and options: positions, answers, truth."""
    shapes = [(len(each), len(each[0].turns), each[0].options) for each in sheet.rounds]
    starts = np.concatenate([[0], np.cumsum([r * o for r, o, _ in shapes])])
    for shape in dict.fromkeys(shapes):
        rounds, orders, options = shape
        positions = np.array([k for k, each in enumerate(shapes) if each == shape], dtype=np.int64)
        rows = starts[positions][:, None] + np.arange(rounds * orders)
        answers = sheet.chosen[rows].reshape(-1, rounds, orders)
        right = [[one.right for one in sheet.rounds[k]] for k in positions.tolist()]
        yield positions, answers, np.array(right, dtype=np.int64), options


def _name_measures(choices: Choices, main: str, template: str) -> MeasuresByName:
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
    return {
        name: Measure(
            each.values,
            np.ones(len(each.values), dtype=np.bool_),
            each.ties,
            None if each.chance is None else np.full(len(each.values), each.chance),
        )
        for name, each in outcomes.items()
    }


def _add_triple_measures(
    named: MeasuresByName, answers: IntArray, right: IntArray
) -> MeasuresByName:
    """Add the original accuracy and the brittleness of hard positives."""
    original = metrics.multiple_choice(answers[:, 0], right[:, 0]).mean
    hits = answers == right[:, :, None]
    one = (hits[:, 0] != hits[:, 1]) & (answers != metrics.UNPARSABLE).all(axis=1)
    main = named["augmented_accuracy"]
    half = np.full(len(answers), 0.5)
    return {
        "original_accuracy": replace(main, values=original.values, chance=half),
        **named,
        "brittleness": replace(main, values=one.mean(axis=1), chance=half, better="lower"),
    }


def _merge_measures(
    parts: Sequence[tuple[IntArray, Mapping[str, Measure]]], size: int
) -> MeasuresByName:
    """Merge measures of disjoint examples into measures of all; undefined elsewhere."""
    found: dict[str, Measure] = {}
    for positions, measures in parts:
        for name, part in measures.items():
            if name not in found:
                found[name] = replace(
                    part,
                    values=np.zeros(size),
                    where=np.zeros(size, dtype=np.bool_),
                    ties=np.zeros(size, dtype=np.bool_),
                    chance=None if part.chance is None else np.zeros(size),
                )
            whole = found[name]
            whole.values[positions], whole.where[positions] = part.values, True
            if whole.chance is not None:
                whole.chance[positions] = part.chance
    return found
