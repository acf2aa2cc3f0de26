"""Chat replies: every distinct prompt is sent once, its reply stored word for word.

Replies are stored and not what was parsed from them, so that better parsing rules need no model.
The key is the image (or the two side by side) and the whole prompt: a template's words, the
captions and their order are all part of it.

Replies are kept and not what was read in them, so that better rules of reading need no model. The
key is the image (or the two side by side) and the whole prompt: a template's words, the captions
and their order are all part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from contrapose.data import Example, Family, ImageRef
from contrapose.engine.chat.prompts import (
    CHAT,
    ChatRound,
    ChatTemplate,
    ChatTurn,
    SideBySide,
    build_rounds,
)
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.plan import ScoringPlan, distinct_images, plan_cells
from contrapose.engine.score_types import Columns, ModelError
from contrapose.engine.scoring import count_tokens, score_missing
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.models import Chat, Model, Prompt, Reply, TokenCounter
from contrapose.models.endpoint import EndpointError
from contrapose.scores.answers import Frame, build_frame
from contrapose.scores.skips import UNKNOWN_SKIP, Skip


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Token usage and cost of chat prompts, whenever they were sent.

    Attributes:
        questions: distinct ones.
        uncounted: replies that came without token counts.
        tokens_in: tokens of the prompts.
        tokens_out: tokens of the replies.
        cost: at the prices the user gave; None without.
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
        frame: the examples that could be asked.
        rounds: their questions.
        example: row by row the example's position in the frame.
        round: which of its rounds.
        order: which order of the options.
        prompts: what was asked.
        replies: what came back.
        chosen: the option that was read in it; −1 when it could not be.
        usage: what it took.
        skipped: examples that could not be asked, and why.
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


class ChatRequest(ScoreRequest):
    """Chat request; replies that came before an endpoint stopped are stored."""

    def _called(self, pairs: list[list[int]], ready: Mapping[int, Any]) -> Columns:
        try:
            return super()._called(pairs, ready)
        except EndpointError as stop:
            came = [
                (pair, reply)
                for pair, reply in zip(pairs, stop.replies, strict=False)
                if reply is not None
            ]
            self.answer_table.add(
                [self.image_ids[i] for (i, _), _ in came],
                [self.text_ids[j] for (_, j), _ in came],
                _reply_columns([self.texts[j] for (_, j), _ in came], [reply for _, reply in came]),
            )
            raise


def collect_replies(
    asking: ScoringContext, template: ChatTemplate, family: Family, examples: Sequence[Example]
) -> ReplyTable:
    """Collect the replies to every prompt of every example; each distinct one is sent once.

    Raises:
        InputError: the model cannot chat, or gives no replies.
        StoppedError: an endpoint cannot go on; what it answered is in the store.
    """
    model = asking.model
    if not isinstance(model, Chat):
        raise InputError(f"{model.name} cannot chat.")
    frame = build_frame(examples)
    found = [build_rounds(example, template, family) for example in examples]
    skipped = {
        frame.ids[k]: Skip(why, f"{why}: {frame.ids[k]}")
        for k, why in enumerate(found)
        if isinstance(why, str)
    }
    rounds = [() if isinstance(each, str) else each for each in found]
    turns = _list_turns(asking, examples, rounds)
    if not turns:
        return _build_table(frame, rounds, [], [], ChatUsage(0, 0, 0, 0), skipped)
    at = np.arange(len(turns))
    plan = plan_cells(
        [each.image for each in turns], [each.turn.text for each in turns], np.stack([at, at], 1)
    )
    asking.skips.images.update(plan.lost)
    question = ChatRequest(
        asking, CHAT, "chat: questions", asking.answer_table(CHAT),
        plan.images, plan.image_ids, plan.texts, plan.text_ids, plan.pairs,
        lambda images, texts: _call_model(model, images, texts),
    )  # fmt: skip
    long = _find_long_prompts(asking, plan)
    asking.skips.texts.update(long)
    (rows,) = score_missing(question)
    asking.skips.texts.update(long)  # the engine takes a prompt for a caption
    _record_skips(asking, turns, plan, rows, frame, skipped)
    replies = question.answer_table.values(rows, "reply")[plan.places].tolist()
    usage = _sum_usage(model, question, rows[rows >= 0])
    return _build_table(frame, rounds, turns, replies, usage, skipped)


def _list_turns(
    asking: ScoringContext, examples: Sequence[Example], rounds: Sequence[Sequence[ChatRound]]
) -> list[_TurnRow]:
    """List the prompts in the order of the examples, each with its image."""
    kept = [example for example, each in zip(examples, rounds, strict=True) if each]
    seen = distinct_images([ref for example in kept for ref in example.images])
    asking.skips.images.update(seen.lost)
    ids = iter([seen.ids[i] for i in seen.at.tolist()])
    found: list[_TurnRow] = []
    for k, (example, each) in enumerate(zip(examples, rounds, strict=True)):
        names = [next(ids) for _ in example.images] if each else []
        for r, one in enumerate(each):
            for o, turn in enumerate(one.turns):
                image = _turn_image(example, names, turn.images)
                found.append(_TurnRow(k, r, o, turn, image))
    return found


def _turn_image(example: Example, names: Sequence[str], shown: Sequence[int]) -> ImageRef:
    if len(shown) == 1:
        return example.images[shown[0]]
    left, right = (example.images[i] for i in shown)
    content = " | ".join(names[i] for i in shown)
    return ImageRef(f"{left.key} | {right.key}", source=SideBySide(left, right, content))


def _call_model(model: Chat, images: Sequence[Any], texts: Sequence[str]) -> Columns:
    prompts = [Prompt((image,), text) for image, text in zip(images, texts, strict=True)]
    replies = list(model.reply(prompts))
    if len(replies) != len(prompts) or not all(isinstance(each.text, str) for each in replies):
        raise ModelError(f"{model.name} gave {len(replies)} replies to {len(prompts)} prompts.")
    return _reply_columns(texts, replies)


def _reply_columns(texts: Sequence[str], replies: Sequence[Reply]) -> Columns:
    """Build the stored columns of replies; texts are object arrays."""
    return {
        "prompt": cast(Any, np.array([*texts, ""], dtype=object)[:-1]),
        "reply": cast(Any, np.array([*(each.text for each in replies), ""], dtype=object)[:-1]),
        "tokens_in": np.array([each.tokens_in for each in replies], dtype=np.float64),
        "tokens_out": np.array([each.tokens_out for each in replies], dtype=np.float64),
    }


def _find_long_prompts(asking: ScoringContext, plan: ScoringPlan) -> dict[tuple[str, str], Skip]:
    """Find prompts longer than the model's context; they are never truncated."""
    model = asking.model
    if not isinstance(model, TokenCounter):
        return {}
    counts = count_tokens(asking, plan.texts)
    return {
        (CHAT, plan.text_ids[j]): Skip(
            "the prompt is longer than the model reads",
            f"a prompt has {counts[j]:,} tokens; {model.name} reads {model.context}",
        )
        for j in np.flatnonzero(counts > model.context).tolist()
    }


def _record_skips(
    asking: ScoringContext,
    turns: Sequence[_TurnRow],
    plan: ScoringPlan,
    rows: IntArray,
    frame: Frame,
    skipped: dict[str, Skip],
) -> None:
    """Record for every example with an unanswered prompt why it is skipped."""
    for each, place in zip(turns, plan.places.tolist(), strict=True):
        if rows[place] < 0:
            image, text = plan.pairs[place].tolist()
            why = asking.skips.why(CHAT, plan.image_ids[image], plan.text_ids[text])
            skipped.setdefault(frame.ids[each.example], why or UNKNOWN_SKIP)


def _sum_usage(model: Model, question: ScoreRequest, rows: IntArray) -> ChatUsage:
    tokens_in, tokens_out = (
        question.answer_table.values(rows, name) for name in ("tokens_in", "tokens_out")
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
        (each, reply) for each, reply in zip(turns, replies, strict=True) if each.example in new
    ]
    return ReplyTable(
        frame=frame.take(np.array(kept, dtype=np.int64)),
        rounds=tuple(rounds[k] for k in kept),
        example=np.array([new[each.example] for each, _ in rows], dtype=np.int64),
        round=np.array([each.round for each, _ in rows], dtype=np.int64),
        order=np.array([each.order for each, _ in rows], dtype=np.int64),
        prompts=tuple(each.turn.text for each, _ in rows),
        replies=tuple(reply for _, reply in rows),
        chosen=np.array([each.turn.read(reply) for each, reply in rows], dtype=np.int64),
        usage=usage,
        skipped=skipped,
    )
