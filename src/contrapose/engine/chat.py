"""Chat replies: every distinct prompt is sent once, its reply stored word for word.

Replies are stored and not what was parsed from them, so that better parsing rules need no model.
The key is the image (or the two side by side) and the whole prompt: a template's words, the
captions and their order are all part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from contrapose.data import Example, ImageRef
from contrapose.engine.batches import score_missing
from contrapose.engine.chat_prompts import (
    ChatRound,
    ChatTemplate,
    ChatTurn,
    SideBySide,
    build_rounds,
)
from contrapose.engine.columns import Columns, ModelError
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.plan import ScoringPlan, count_tokens, distinct_images, plan_cells
from contrapose.engine.score_names import CHAT
from contrapose.engine.videos import show_videos
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.models import Chat, Model, Prompt, Reply, TokenCounter
from contrapose.scores import UNKNOWN_SKIP, Frame, Skip, build_frame


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Token usage and cost of chat prompts, whenever they were sent.

    Attributes:
        questions: number of distinct prompts.
        uncounted: replies that came without token counts.
        tokens_in: tokens of the prompts.
        tokens_out: tokens of the replies.
        cost: at the model's prices; None where it has none.
    """

    questions: int
    uncounted: int
    tokens_in: int
    tokens_out: int
    cost: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReplyTable:
    """Reply table of examples: one row per prompt with its reply and parsed option.

    Attributes:
        frame: the examples that have all their replies.
        rounds: their questions.
        example: for each row the example's position in the frame.
        round: for each row the number of the example's round.
        order: for each row the number of the order of the options.
        prompts: the prompts.
        replies: the replies.
        chosen: the option parsed from each reply; −1 when it cannot be parsed.
        usage: token usage and cost.
        skipped: examples that have no replies, and why.
    """

    frame: Frame
    rounds: tuple[tuple[ChatRound, ...], ...]
    example: IntArray
    round: IntArray
    order: IntArray
    prompts: tuple[str, ...]
    replies: tuple[str, ...]
    chosen: IntArray
    usage: ChatUsage
    skipped: Mapping[str, Skip] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _TurnRow:
    """Prompt of an example: its position in the table, and its image."""

    example: int
    round: int
    order: int
    turn: ChatTurn
    image: ImageRef


def collect_replies(
    context: ScoringContext,
    template: ChatTemplate,
    examples: Sequence[Example],
    options: Sequence[tuple[int, int]] = (),
) -> ReplyTable:
    """Collect the replies to every prompt of every example; each distinct one is sent once.

    Args:
        context: the chat model, the store and the options of scoring.
        template: the prompt's template.
        examples: images and captions.
        options: right and wrong caption of each question; see `build_rounds`.

    Raises:
        InputError: the model cannot chat, or gives no replies.
        EndpointError: an endpoint cannot go on; the replies it gave are in the store.
    """
    model = context.model
    if not isinstance(model, Chat):
        raise InputError(f"{model.name} cannot chat.")
    examples = show_videos(model, examples)
    frame = build_frame(examples)
    built = [build_rounds(example, template, options) for example in examples]
    skipped = {
        frame.ids[k]: Skip(why, f"{why}: {frame.ids[k]}")
        for k, why in enumerate(built)
        if isinstance(why, str)
    }
    rounds = [() if isinstance(of_example, str) else of_example for of_example in built]
    turns = _list_turns(context, examples, rounds)
    if not turns:
        return _build_table(frame, rounds, [], [], ChatUsage(0, 0, 0, 0), skipped)
    plan = plan_cells(
        [row.image for row in turns],
        [row.turn.text for row in turns],
        np.repeat(np.arange(len(turns))[:, None], 2, axis=1),
        context.content_id_reader(),
    )
    context.skips.images.update(plan.unreadable)
    request = ScoreRequest(
        context, CHAT, "chat: questions", context.table(CHAT),
        plan.images, plan.image_ids, plan.texts, plan.text_ids, plan.pairs,
        partial(_collect_columns, model),
    )  # fmt: skip
    long = _find_long_prompts(context, plan)
    context.skips.texts.update(long)
    (rows,) = score_missing(request)
    context.skips.texts.update(long)  # the engine takes a prompt for a caption
    _record_skips(context, turns, plan, rows, frame, skipped)
    replies = request.table.values(rows, "reply")[plan.pair_index].tolist()
    usage = _sum_usage(model, request, rows[rows >= 0])
    return _build_table(frame, rounds, turns, replies, usage, skipped)


def _list_turns(
    context: ScoringContext, examples: Sequence[Example], rounds: Sequence[Sequence[ChatRound]]
) -> list[_TurnRow]:
    """List the prompts in the order of the examples, each with its image."""
    with_rounds = [example for example, some in zip(examples, rounds, strict=True) if some]
    refs = [ref for example in with_rounds for ref in example.images]
    images = distinct_images(refs, context.content_id_reader())
    context.skips.images.update(images.unreadable)
    ids = iter([images.ids[i] for i in images.index.tolist()])
    rows: list[_TurnRow] = []
    for k, (example, some) in enumerate(zip(examples, rounds, strict=True)):
        names = [next(ids) for _ in example.images] if some else []
        for r, one in enumerate(some):
            for o, turn in enumerate(one.turns):
                image = _turn_image(example, names, turn.images)
                rows.append(_TurnRow(k, r, o, turn, image))
    return rows


def _turn_image(example: Example, names: Sequence[str], positions: Sequence[int]) -> ImageRef:
    if len(positions) == 1:
        return example.images[positions[0]]
    left, right = (example.images[i] for i in positions)
    content = " | ".join(names[i] for i in positions)
    return ImageRef(f"{left.key} | {right.key}", source=SideBySide(left, right, content))


def _collect_columns(model: Chat, images: Sequence[Any], texts: Sequence[str]) -> Columns:
    prompts = [
        Prompt(image if isinstance(image, tuple) else (image,), text)
        for image, text in zip(images, texts, strict=True)
    ]
    replies = list(model.reply(prompts))
    if len(replies) != len(prompts) or not all(isinstance(reply.text, str) for reply in replies):
        raise ModelError(f"{model.name} gave {len(replies)} replies to {len(prompts)} prompts.")
    return _reply_columns(texts, replies)


def _reply_columns(texts: Sequence[str], replies: Sequence[Reply]) -> Columns:
    """Build the stored columns of replies; texts are object arrays."""
    return {
        "prompt": cast(Any, np.array([*texts, ""], dtype=object)[:-1]),
        "reply": cast(Any, np.array([*(reply.text for reply in replies), ""], dtype=object)[:-1]),
        "tokens_in": np.array([reply.tokens_in for reply in replies], dtype=np.float64),
        "tokens_out": np.array([reply.tokens_out for reply in replies], dtype=np.float64),
    }


def _find_long_prompts(context: ScoringContext, plan: ScoringPlan) -> dict[tuple[str, str], Skip]:
    """Find prompts longer than the model's context; they are never truncated."""
    model = context.model
    if not isinstance(model, TokenCounter):
        return {}
    counts = count_tokens(context, plan.texts)
    return {
        (CHAT, plan.text_ids[j]): Skip(
            "the prompt is longer than the model reads",
            f"a prompt has {counts[j]:,} tokens; {model.name} reads {model.context}",
        )
        for j in np.flatnonzero(counts > model.context).tolist()
    }


def _record_skips(
    context: ScoringContext,
    turns: Sequence[_TurnRow],
    plan: ScoringPlan,
    rows: IntArray,
    frame: Frame,
    skipped: dict[str, Skip],
) -> None:
    """Record for every example with an unanswered prompt why it is skipped."""
    for turn, pair in zip(turns, plan.pair_index.tolist(), strict=True):
        if rows[pair] < 0:
            image, text = plan.pairs[pair].tolist()
            why = context.skips.why(CHAT, plan.image_ids[image], plan.text_ids[text])
            skipped.setdefault(frame.ids[turn.example], why or UNKNOWN_SKIP)


def _sum_usage(model: Model, request: ScoreRequest, rows: IntArray) -> ChatUsage:
    tokens_in, tokens_out = (
        request.table.values(rows, name) for name in ("tokens_in", "tokens_out")
    )
    prices = getattr(model, "prices", None)
    cost = None
    if prices is not None:
        cost = float(tokens_in.sum() * prices[0] + tokens_out.sum() * prices[1]) / 1e6
    uncounted = int((tokens_in + tokens_out == 0).sum())
    return ChatUsage(len(rows), uncounted, int(tokens_in.sum()), int(tokens_out.sum()), cost)


def _build_table(
    frame: Frame,
    rounds: Sequence[tuple[ChatRound, ...]],
    turns: Sequence[_TurnRow],
    replies: Sequence[str],
    usage: ChatUsage,
    skipped: Mapping[str, Skip],
) -> ReplyTable:
    """Build the reply table of the examples that have all their replies."""
    kept = [k for k, name in enumerate(frame.ids) if name not in skipped]
    new = {k: i for i, k in enumerate(kept)}
    rows = [
        (turn, reply) for turn, reply in zip(turns, replies, strict=True) if turn.example in new
    ]
    return ReplyTable(
        frame=frame.take(np.array(kept, dtype=np.int64)),
        rounds=tuple(rounds[k] for k in kept),
        example=np.array([new[row.example] for row, _ in rows], dtype=np.int64),
        round=np.array([row.round for row, _ in rows], dtype=np.int64),
        order=np.array([row.order for row, _ in rows], dtype=np.int64),
        prompts=tuple(row.turn.text for row, _ in rows),
        replies=tuple(reply for _, reply in rows),
        chosen=np.array([row.turn.parse(reply) for row, reply in rows], dtype=np.int64),
        usage=usage,
        skipped=skipped,
    )
