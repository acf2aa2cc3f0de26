"""Checks of captions, masked words, questions and chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrapose.errors import InputError
from contrapose.models.capabilities import Prompt, QuestionTemplate, Reply
from contrapose.models.conformance.batches import SAME_TOLERANCE, require_same
from contrapose.models.conformance.check import (
    CAPTIONS,
    NEEDS_CAPTIONS,
    ODD_CAPTIONS,
    QUESTION,
    Check,
    Condition,
    ConformanceError,
    ScoreMethod,
    Subject,
    count_words,
    needs_any,
    relative_difference,
    repeat_word,
    sample_images,
    to_array,
)
from contrapose.models.masking.text import DELETE, TEXT_MASKS, MaskedText

LONG_WORDS = 1_200
"""Words of a long caption for a model that states no context length."""

EXTRA_WORDS = 16
"""Words of a long caption beyond the context."""


def _check_empty(subject: Subject) -> None:
    for method in subject.caption_methods():
        for text in ("", " "):
            if not _is_refused(method, text):
                raise ConformanceError(f"{method.name} gave an answer for {text!r}")


def _is_refused(method: ScoreMethod, text: str) -> bool:
    """Whether a caption is refused with an InputError when batched with a valid one."""
    try:
        method.score(sample_images(2), [CAPTIONS[0], text])
    except InputError:
        return True
    except Exception as error:
        raise ConformanceError(
            f"{method.name} raised {type(error).__name__} for {text[:20]!r}, not an InputError"
        ) from None
    return False


def _check_counts(subject: Subject) -> None:
    model = subject.model
    texts = [CAPTIONS[0], repeat_word(1), repeat_word(9)]
    counts = list(model.token_counts(texts))
    if len(counts) != len(texts) or not all(float(count).is_integer() for count in counts):
        raise ConformanceError(f"token_counts gave {counts} for {len(texts)} captions")
    if not 1 <= counts[1] < counts[2]:
        raise ConformanceError(
            f"token_counts gave {counts[1]} for one word and {counts[2]} for nine"
        )
    if not isinstance(model.cuts, bool):
        raise ConformanceError(f"cuts is {model.cuts!r}, neither True nor False")


def _check_context(subject: Subject) -> None:
    """Check that a caption of exactly the context length is read."""
    model = subject.model
    if not isinstance(model.context, int) or model.context < 1:
        raise ConformanceError(f"context is {model.context!r}")
    text = repeat_word(_count_context_words(subject))
    (count,) = model.token_counts([text])
    if count > model.context:
        raise ConformanceError(
            f"token_counts does not grow evenly with equal words: {count} tokens"
        )
    for method in subject.caption_methods():
        try:
            method.score(sample_images(1), [text])
        except InputError as error:
            raise ConformanceError(
                f"{method.name} refused a caption of {count} tokens; its context is "
                f"{model.context} ({error})"
            ) from None


def _check_long(subject: Subject) -> None:
    """Check that an over-long caption is refused, or read to its end if no limit is stated."""
    if hasattr(subject.model, "token_counts"):
        text = repeat_word(_count_context_words(subject) + EXTRA_WORDS)
        (count,) = subject.model.token_counts([text])
        for method in subject.caption_methods():
            if not _is_refused(method, text):
                raise ConformanceError(
                    f"{method.name} gave an answer for {count} tokens; its context is "
                    f"{subject.model.context}"
                )
        return
    for method in subject.caption_methods():
        scores = []
        for tail in ("cube", "sphere"):
            text = repeat_word(LONG_WORDS, tail)
            if not _is_refused(method, text):
                scores += method.score(sample_images(1), [text])
        if len(scores) == 2 and np.array_equal(scores[0], scores[1]):
            raise ConformanceError(f"{method.name} does not see the last of {LONG_WORDS:,} words")


def _check_truncation(subject: Subject) -> None:
    most = _count_context_words(subject)
    long, other = repeat_word(most + EXTRA_WORDS), repeat_word(most + EXTRA_WORDS, "cube", "sphere")
    (count,) = subject.model.token_counts([long])
    if count <= subject.model.context:
        raise ConformanceError(
            f"token_counts says {count} of a caption that must be cut: count before"
        )
    fits = repeat_word(most)
    exact = list(subject.model.token_counts([fits])) == [subject.model.context]
    for method in subject.caption_methods():
        (one,), (two,) = (method.score(sample_images(1), [text]) for text in (long, other))
        require_same(subject, method, [one], [two], "for captions that differ after the cut")
        if exact:
            full = method.score(sample_images(1), [fits])
            require_same(subject, method, full, [one], "for a caption and for a longer one, cut")


def _check_odd_captions(subject: Subject) -> None:
    for method in subject.caption_methods():
        for text in ODD_CAPTIONS:
            try:
                (numbers,) = method.score(sample_images(1), [text])
            except Exception as error:
                raise ConformanceError(
                    f"{method.name} raised {type(error).__name__} for {text!r}: {error}"
                ) from None
            if not np.isfinite(numbers).all():
                raise ConformanceError(f"{method.name} gave NaN or infinity for {text!r}")


def _count_context_words(subject: Subject) -> int:
    """Number of equal words that fill the context."""
    model = subject.model
    return count_words(model.context, model.token_counts([repeat_word(1), repeat_word(2)]))


def _require_token_counts(*, cuts: bool | None = None) -> Condition:
    """Build the reason for skipping a length check, by whether the model truncates."""

    def condition(subject: Subject) -> str:
        there = hasattr(subject.model, "token_counts")
        if cuts is False:
            return "it cuts captions, as it was asked to" if there and subject.model.cuts else ""
        if not there:
            return "the model does not say how much it reads (token_counts, context, cuts)"
        return "it refuses captions that are too long" if cuts and not subject.model.cuts else ""

    return condition


CAPTION_CHECKS = (
    Check(
        "empty-caption",
        "An empty caption is refused with an InputError.",
        _check_empty,
        NEEDS_CAPTIONS,
    ),
    Check(
        "odd-captions",
        "Captions in any script, with breaks and marks, are read.",
        _check_odd_captions,
        NEEDS_CAPTIONS,
    ),
    Check(
        "token-counts", "It counts the tokens of captions.", _check_counts, _require_token_counts()
    ),
    Check(
        "context",
        "A caption of just as many tokens as it reads is read.",
        _check_context,
        _require_token_counts(),
    ),
    Check(
        "long-caption",
        "A caption that is too long is refused with an InputError, never cut in silence.",
        _check_long,
        _require_token_counts(cuts=False),
    ),
    Check(
        "cut-caption",
        "A caption that is too long counts in full, and gets the number of the cut one.",
        _check_truncation,
        _require_token_counts(cuts=True),
    ),
)


MASKABLE_METHODS = ("embed_texts", "match", "token_logprobs")
"""Methods that accept masked captions."""
SAMPLE_WORDS = ("red", "tan", "big", "old", "hot", "wet", "raw", "new")
"""Exchangeable words, some of them of equal token count."""


def _check_mask_kinds(subject: Subject) -> None:
    kinds = subject.model.text_masks
    strange = [kind for kind in kinds if kind not in TEXT_MASKS or kind == DELETE]
    if not isinstance(kinds, tuple) or strange:
        known = ", ".join(kind for kind in TEXT_MASKS if kind != DELETE)
        raise ConformanceError(f"text_masks is {kinds!r}; it may hold {known}")


def _check_masked_words(subject: Subject) -> None:
    for method in _find_maskable(subject):
        for kind in subject.model.text_masks:
            _check_mask_kind(subject, method, kind)


def _check_mask_kind(subject: Subject, method: ScoreMethod, kind: str) -> None:
    """Check one kind of masking in a batch with plain captions."""
    first, second = (_make_caption(word) for word in _pick_words(subject))
    images = sample_images(1) * 5
    nothing = MaskedText(first, (), kind)
    one, other = (_mask_second_word(text, kind) for text in (first, second))
    captions = [first, nothing, one, other, first]
    plain, unmasked, hidden, again, beside = method.score(images, captions)
    name = f"by {kind!r}"
    require_same(subject, method, [plain], [unmasked], f"when nothing is hidden {name}")
    require_same(subject, method, [plain], [beside], f"beside a caption with words hidden {name}")
    _, few = method.score(images[:2], [second, one])
    require_same(subject, method, [hidden], [few], f"in another batch, with a word hidden {name}")
    require_same(subject, method, [hidden], [again], f"by what a word hidden {name} was")
    if relative_difference([plain], [hidden]) <= SAME_TOLERANCE:
        raise ConformanceError(f"{method.name} does not notice that a word is hidden {name}")
    if method.name == "token_logprobs" and not np.any(hidden == 0.0):
        raise ConformanceError(f"token_logprobs gives a token that is hidden {name} a probability")


def _make_caption(word: str) -> str:
    return f"a {word} cube and a blue sphere"


def _mask_second_word(caption: str, kind: str) -> MaskedText:
    """Mask the second word of a caption."""
    start = caption.index(" ") + 1
    return MaskedText(caption, [(start, caption.index(" ", start))], kind)


def _pick_words(subject: Subject) -> tuple[str, str]:
    """Two words of equal token count where the model counts tokens; else one word twice."""
    if hasattr(subject.model, "token_counts"):
        counts = [
            int(n)
            for n in subject.model.token_counts([_make_caption(word) for word in SAMPLE_WORDS])
        ]
        for i, count in enumerate(counts):
            if count in counts[i + 1 :]:
                return SAMPLE_WORDS[i], SAMPLE_WORDS[counts.index(count, i + 1)]
    return SAMPLE_WORDS[0], SAMPLE_WORDS[0]


def _find_maskable(subject: Subject) -> Sequence[ScoreMethod]:
    return [method for method in subject.methods if method.name in MASKABLE_METHODS]


def _require_masks(subject: Subject) -> str:
    there = bool(getattr(subject.model, "text_masks", ()))
    return "" if there and _find_maskable(subject) else "it takes no captions with hidden words"


MASK_CHECKS = (
    Check(
        "text-masks",
        "It says in known words how it hides words.",
        _check_mask_kinds,
        _require_masks,
    ),
    Check(
        "hidden-words",
        "Of a hidden word nothing tells but its place, and hiding nothing changes nothing.",
        _check_masked_words,
        _require_masks,
    ),
)


OTHER_QUESTIONS = {
    "another question": QuestionTemplate("Is this no picture of {} at all?", QUESTION.answer),
    "another answer": QuestionTemplate(QUESTION.text, "no"),
}


def _check_templates(subject: Subject) -> None:
    """Check that both the question and the answer change the score."""
    score = subject.model.answer_logprobs
    images = sample_images(len(CAPTIONS))
    usual = to_array(score(images, CAPTIONS, QUESTION))
    for what, question in OTHER_QUESTIONS.items():
        other = to_array(score(images, CAPTIONS, question))
        if relative_difference([usual], [other]) <= SAME_TOLERANCE:
            raise ConformanceError(f"{what} gets the same numbers")


def _make_prompts(subject: Subject) -> list[Prompt]:
    """Prompts with one image, and with two unless the model refuses that."""
    one, other, third = sample_images(3)
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


def _request_replies(subject: Subject, prompts: Sequence[Prompt]) -> list[Reply]:
    replies: list[Any] = list(subject.model.reply(prompts))
    if len(replies) != len(prompts):
        raise ConformanceError(f"{len(replies)} replies to {len(prompts)} prompts")
    for reply in replies:
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise ConformanceError(f"a reply is {reply!r}, not a Reply with a text")
        if any(value > 1e-6 for value in reply.first.values()):
            raise ConformanceError("a first token's log-probability is above 0")
        if reply.tokens_in < 0 or reply.tokens_out < 0:
            raise ConformanceError("a reply has fewer than no tokens")
    return replies


def _check_replies(subject: Subject) -> None:
    prompts = _make_prompts(subject)
    for some in (prompts, prompts[:1]):
        _request_replies(subject, some)


def _check_steady_replies(subject: Subject) -> None:
    prompts = _make_prompts(subject)
    first, again = (_request_replies(subject, prompts) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        if one.text != other.text:
            raise ConformanceError(f"it says {one.text!r} and, asked again, {other.text!r}")


def _check_reply_order(subject: Subject) -> None:
    prompts = _make_prompts(subject)
    there = _request_replies(subject, prompts)
    back = _request_replies(subject, prompts[::-1])[::-1]
    alone = [_request_replies(subject, [prompt])[0] for prompt in prompts]
    for when, others in (("when the prompts are reversed", back), ("alone", alone)):
        for one, other in zip(there, others, strict=True):
            if one.text != other.text:
                raise ConformanceError(f"it says {one.text!r} and, {when}, {other.text!r}")


CHAT_CHECKS = (
    Check(
        "templates",
        "Another question, or another answer, gets other numbers.",
        _check_templates,
        needs_any("answer_logprobs"),
    ),
    Check(
        "replies",
        "reply gives one Reply a prompt.",
        _check_replies,
        needs_any("reply"),
        base=True,
    ),
    Check(
        "steady-replies",
        "Asked twice, it says the same.",
        _check_steady_replies,
        needs_any("reply"),
    ),
    Check(
        "replies-in-order",
        "The i-th reply is to the i-th prompt, whatever else is asked.",
        _check_reply_order,
        needs_any("reply"),
    ),
)
