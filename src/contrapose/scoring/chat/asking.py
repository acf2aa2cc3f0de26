"""Asking a chat model: every question once, its reply kept in the store word for word.

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
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.models import Chat, Model, Prompt, Reads, Reply
from contrapose.models.endpoint import StoppedError
from contrapose.scoring.answers import Frame, frame_of
from contrapose.scoring.ask import asked
from contrapose.scoring.asking import Asking
from contrapose.scoring.calls import Columns, ModelError
from contrapose.scoring.chat.rounds import Round, Turn, rounds_of
from contrapose.scoring.chat.sides import SideBySide
from contrapose.scoring.chat.templates import CHAT, ChatTemplate
from contrapose.scoring.lengths import lengths_of
from contrapose.scoring.plan import Plan, distinct_images, plan_cells
from contrapose.scoring.question import Question
from contrapose.scoring.skips import UNKNOWN, Skip


@dataclass(frozen=True, slots=True)
class Usage:
    """What the questions took, whenever they were asked.

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
class Sheet:
    """What was asked of examples and what came back; one row a question.

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
    rounds: tuple[tuple[Round, ...], ...]
    example: IntArray
    round: IntArray
    order: IntArray
    prompts: tuple[str, ...]
    replies: tuple[str, ...]
    chosen: IntArray
    usage: Usage
    skipped: Mapping[str, Skip] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: its place among the examples, and what is shown."""

    example: int
    round: int
    order: int
    turn: Turn
    image: ImageRef


class ChatQuestion(Question):
    """Questions in words. What came before an endpoint stopped is kept."""

    def _called(self, pairs: list[list[int]], ready: Mapping[int, Any]) -> Columns:
        try:
            return super()._called(pairs, ready)
        except StoppedError as stop:
            came = [
                (pair, reply)
                for pair, reply in zip(pairs, stop.replies, strict=False)
                if reply is not None
            ]
            self.shelf.add(
                [self.image_ids[i] for (i, _), _ in came],
                [self.text_ids[j] for (_, j), _ in came],
                _columns([self.texts[j] for (_, j), _ in came], [reply for _, reply in came]),
            )
            raise


def ask_chat(
    asking: Asking, template: ChatTemplate, family: Family, examples: Sequence[Example]
) -> Sheet:
    """Every question about every example; each distinct one is asked once.

    Raises:
        InputError: the model cannot chat, or gives no replies.
        StoppedError: an endpoint cannot go on; what it answered is in the store.
    """
    model = asking.model
    if not isinstance(model, Chat):
        raise InputError(f"{model.name} cannot chat.")
    frame = frame_of(examples)
    found = [rounds_of(example, template, family) for example in examples]
    skipped = {
        frame.ids[k]: Skip(why, f"{why}: {frame.ids[k]}")
        for k, why in enumerate(found)
        if isinstance(why, str)
    }
    rounds = [() if isinstance(each, str) else each for each in found]
    turns = _shown(asking, examples, rounds)
    if not turns:
        return _sheet(frame, rounds, [], [], Usage(0, 0, 0, 0), skipped)
    at = np.arange(len(turns))
    plan = plan_cells(
        [each.image for each in turns], [each.turn.text for each in turns], np.stack([at, at], 1)
    )
    asking.skips.images.update(plan.lost)
    question = ChatQuestion(
        asking, CHAT, "chat: questions", asking.shelf(CHAT),
        plan.images, plan.image_ids, plan.texts, plan.text_ids, plan.pairs,
        lambda images, texts: _replied(model, images, texts),
    )  # fmt: skip
    long = _too_long(asking, plan)
    asking.skips.texts.update(long)
    (rows,) = asked(question)
    asking.skips.texts.update(long)  # the engine takes a prompt for a caption
    _note_skipped(asking, turns, plan, rows, frame, skipped)
    replies = question.shelf.values(rows, "reply")[plan.places].tolist()
    usage = _usage(model, question, rows[rows >= 0])
    return _sheet(frame, rounds, turns, replies, usage, skipped)


def _shown(
    asking: Asking, examples: Sequence[Example], rounds: Sequence[Sequence[Round]]
) -> list[_Asked]:
    """The questions in the order of the examples, each with its image."""
    kept = [example for example, each in zip(examples, rounds, strict=True) if each]
    seen = distinct_images([ref for example in kept for ref in example.images])
    asking.skips.images.update(seen.lost)
    ids = iter([seen.ids[i] for i in seen.at.tolist()])
    found: list[_Asked] = []
    for k, (example, each) in enumerate(zip(examples, rounds, strict=True)):
        names = [next(ids) for _ in example.images] if each else []
        for r, one in enumerate(each):
            for o, turn in enumerate(one.turns):
                image = _image(example, names, turn.images)
                found.append(_Asked(k, r, o, turn, image))
    return found


def _image(example: Example, names: Sequence[str], shown: Sequence[int]) -> ImageRef:
    if len(shown) == 1:
        return example.images[shown[0]]
    left, right = (example.images[i] for i in shown)
    content = " | ".join(names[i] for i in shown)
    return ImageRef(f"{left.key} | {right.key}", source=SideBySide(left, right, content))


def _replied(model: Chat, images: Sequence[Any], texts: Sequence[str]) -> Columns:
    prompts = [Prompt((image,), text) for image, text in zip(images, texts, strict=True)]
    replies = list(model.reply(prompts))
    if len(replies) != len(prompts) or not all(isinstance(each.text, str) for each in replies):
        raise ModelError(f"{model.name} gave {len(replies)} replies to {len(prompts)} prompts.")
    return _columns(texts, replies)


def _columns(texts: Sequence[str], replies: Sequence[Reply]) -> Columns:
    """What is kept; text goes the way of the numbers."""
    return {
        "prompt": cast(Any, np.array([*texts, ""], dtype=object)[:-1]),
        "reply": cast(Any, np.array([*(each.text for each in replies), ""], dtype=object)[:-1]),
        "tokens_in": np.array([each.tokens_in for each in replies], dtype=np.float64),
        "tokens_out": np.array([each.tokens_out for each in replies], dtype=np.float64),
    }


def _too_long(asking: Asking, plan: Plan) -> dict[tuple[str, str], Skip]:
    """Prompts longer than the model reads: cut, they would be other questions."""
    model = asking.model
    if not isinstance(model, Reads):
        return {}
    counts = lengths_of(asking, plan.texts)
    return {
        (CHAT, plan.text_ids[j]): Skip(
            "the prompt is longer than the model reads",
            f"a prompt has {counts[j]:,} tokens; {model.name} reads {model.context}",
        )
        for j in np.flatnonzero(counts > model.context).tolist()
    }


def _note_skipped(
    asking: Asking,
    turns: Sequence[_Asked],
    plan: Plan,
    rows: IntArray,
    frame: Frame,
    skipped: dict[str, Skip],
) -> None:
    """Say of every example with an unanswered question why it has none."""
    for each, place in zip(turns, plan.places.tolist(), strict=True):
        if rows[place] < 0:
            image, text = plan.pairs[place].tolist()
            why = asking.skips.why(CHAT, plan.image_ids[image], plan.text_ids[text])
            skipped.setdefault(frame.ids[each.example], why or UNKNOWN)


def _usage(model: Model, question: Question, rows: IntArray) -> Usage:
    tokens_in, tokens_out = (
        question.shelf.values(rows, name) for name in ("tokens_in", "tokens_out")
    )
    prices = getattr(model, "prices", None)
    cost = None
    if prices is not None:
        cost = float(tokens_in.sum() * prices[0] + tokens_out.sum() * prices[1]) / 1e6
    uncounted = int((tokens_in + tokens_out == 0).sum())
    return Usage(len(rows), uncounted, int(tokens_in.sum()), int(tokens_out.sum()), cost)


def _sheet(
    frame: Frame,
    rounds: Sequence[tuple[Round, ...]],
    turns: Sequence[_Asked],
    replies: Sequence[str],
    usage: Usage,
    skipped: Mapping[str, Skip],
) -> Sheet:
    """The questions of the examples that have all their answers."""
    kept = [k for k, name in enumerate(frame.ids) if name not in skipped]
    new = {k: i for i, k in enumerate(kept)}
    rows = [
        (each, reply) for each, reply in zip(turns, replies, strict=True) if each.example in new
    ]
    return Sheet(
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
