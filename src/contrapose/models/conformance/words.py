"""Checks of what is asked in words: questions about a caption, and chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contrapose.errors import InputError
from contrapose.models.capabilities import Prompt, QuestionTemplate, Reply
from contrapose.models.conformance.arrays import apart, array
from contrapose.models.conformance.batches import TOLD_APART
from contrapose.models.conformance.check import QUESTION, Check, ConformanceError, Subject
from contrapose.models.conformance.samples import CAPTIONS, images

OTHERS = {
    "another question": QuestionTemplate("Is this no picture of {} at all?", QUESTION.answer),
    "another answer": QuestionTemplate(QUESTION.text, "no"),
}


def _templates(subject: Subject) -> None:
    """Both the words of the question and the answer tell."""
    ask = subject.model.answer_logprobs
    shown = images(len(CAPTIONS))
    usual = array(ask(shown, CAPTIONS, QUESTION))
    for what, question in OTHERS.items():
        if apart([usual], [array(ask(shown, CAPTIONS, question))]) <= TOLD_APART:
            raise ConformanceError(f"{what} gets the same numbers")


def _prompts(subject: Subject) -> list[Prompt]:
    """Of one image, and of two unless the model refuses that."""
    one, other, third = images(3)
    two = Prompt((other, third), f'Which picture shows "{CAPTIONS[1]}"? Answer 1 or 2.')
    prompts = [
        Prompt((one,), f'Does this picture show "{CAPTIONS[0]}"? Answer yes or no.'),
        Prompt((other,), f"A) {CAPTIONS[0]} B) {CAPTIONS[2]}. Which fits? Answer A or B."),
        Prompt((one,), f'Does this picture show "{CAPTIONS[3]}"? Answer yes or no.'),
    ]
    try:
        subject.model.reply([two])
    except InputError:
        return prompts
    return [prompts[0], two, *prompts[1:]]


def _replies(subject: Subject, prompts: Sequence[Prompt]) -> list[Reply]:
    found: Any = list(subject.model.reply(prompts))
    if len(found) != len(prompts):
        raise ConformanceError(f"{len(found)} replies to {len(prompts)} prompts")
    for reply in found:
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise ConformanceError(f"a reply is {reply!r}, not a Reply with a text")
        if any(value > 1e-6 for value in reply.first.values()):
            raise ConformanceError("a first token's log-probability is above 0")
        if reply.tokens_in < 0 or reply.tokens_out < 0:
            raise ConformanceError("a reply has fewer than no tokens")
    return found  # type: ignore[no-any-return]


def _one_each(subject: Subject) -> None:
    prompts = _prompts(subject)
    for some in (prompts, prompts[:1]):
        _replies(subject, some)


def _steady(subject: Subject) -> None:
    prompts = _prompts(subject)
    first, again = (_replies(subject, prompts) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        if one.text != other.text:
            raise ConformanceError(f"it says {one.text!r} and, asked again, {other.text!r}")


def _in_order(subject: Subject) -> None:
    prompts = _prompts(subject)
    there = _replies(subject, prompts)
    back = _replies(subject, prompts[::-1])[::-1]
    alone = [_replies(subject, [prompt])[0] for prompt in prompts]
    for when, others in (("when the prompts are reversed", back), ("alone", alone)):
        for one, other in zip(there, others, strict=True):
            if one.text != other.text:
                raise ConformanceError(f"it says {one.text!r} and, {when}, {other.text!r}")


def _unfit(method: str, subject: Subject) -> str:
    return "" if hasattr(subject.model, method) else f"the model has no {method}"


CHECKS = (
    Check(
        "templates",
        "Another question, or another answer, gets other numbers.",
        _templates,
        lambda subject: _unfit("answer_logprobs", subject),
    ),
    Check(
        "replies",
        "reply gives one Reply a prompt.",
        _one_each,
        lambda subject: _unfit("reply", subject),
        base=True,
    ),
    Check(
        "steady-replies",
        "Asked twice, it says the same.",
        _steady,
        lambda subject: _unfit("reply", subject),
    ),
    Check(
        "replies-in-order",
        "The i-th reply is to the i-th prompt, whatever else is asked.",
        _in_order,
        lambda subject: _unfit("reply", subject),
    ),
)
