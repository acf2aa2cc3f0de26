"""What a check is, what it finds, and what it is asked of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from contrapose.models.capabilities import Model, QuestionTemplate
from contrapose.models.conformance.arrays import FloatArray, array
from contrapose.models.options import DTYPES

TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
"""The largest relative difference by which two answers to the same pair may differ: in half
precision sums of another order differ in the second or third figure."""

METHODS = {
    "itc": ("embed_images", "embed_texts"),
    "itm": ("match",),
    "lm": ("token_logprobs", "noise_images", "lm_tokens"),
    "vqa": ("answer_logprobs", "noise_images"),
    "blind": ("text_logprobs", "lm_tokens"),
    "chat": ("reply",),
}
"""What a model must have to be asked for a score."""
SHARED = ("noise_images", "lm_tokens")
"""What several scores need: by itself it promises none of them."""
LOGPROBS = ("token_logprobs", "answer_logprobs", "text_logprobs")
"""Answers that are logarithms of probabilities."""
QUESTION = QuestionTemplate()
"""What answerers are asked in the checks."""

Outcome = Literal["passed", "failed", "not applicable", "not checked"]


class ConformanceError(AssertionError):
    """What a model does is not what it should do; says what was found."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One kind of answer, asked of pairs whatever it looks at.

    Attributes:
        method: the model's method.
        images: whether it looks at the images.
        texts: whether it looks at the captions.
        ask: images and captions → an array a pair.
    """

    method: str
    images: bool
    texts: bool
    ask: Callable[[Sequence[Any], Sequence[str]], list[FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A model under test.

    Attributes:
        model: it; of any type, since what it lacks is for the checks to say.
        dtype: what it computes in.
        load: loads it anew; None when only the model itself was given.
    """

    model: Any
    dtype: str = "fp32"
    load: Callable[[], Model] | None = None

    @property
    def tolerance(self) -> float:
        """How far apart two answers to the same pair may be."""
        return TOLERANCE[self.dtype]

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What the model can be asked."""
        found = (
            Answer("embed_images", True, False, lambda shown, _: self._each("embed_images", shown)),
            Answer("embed_texts", False, True, lambda _, texts: self._each("embed_texts", texts)),
            Answer("match", True, True, lambda images, texts: self._each("match", images, texts)),
            Answer("token_logprobs", True, True, lambda images, texts: self._ragged(
                self.model.token_logprobs(images, texts))),
            Answer("answer_logprobs", True, True, lambda images, texts: list(array(
                self.model.answer_logprobs(images, texts, QUESTION)))),
            Answer("text_logprobs", False, True, lambda _, texts: self._ragged(
                self.model.text_logprobs(texts))),
        )  # fmt: skip
        return tuple(answer for answer in found if hasattr(self.model, answer.method))

    def reading(self) -> tuple[Answer, ...]:
        """The answers that depend on a caption."""
        return tuple(answer for answer in self.answers if answer.texts)

    def looking(self) -> tuple[Answer, ...]:
        """The answers that depend on an image."""
        return tuple(answer for answer in self.answers if answer.images)

    def pairing(self) -> tuple[Answer, ...]:
        """The answers that depend on both."""
        return tuple(answer for answer in self.answers if answer.images and answer.texts)

    def _each(self, method: str, *given: Sequence[Any]) -> list[FloatArray]:
        return list(array(getattr(self.model, method)(*given)))

    @staticmethod
    def _ragged(ragged: Any) -> list[FloatArray]:
        values, offsets = array(ragged.values), array(ragged.offsets).astype(int).tolist()
        return [values[a:b] for a, b in pairwise(offsets)]


def _always(subject: Subject) -> str:
    return ""


def without(answers: Callable[[Subject], Sequence[Answer]], why: str) -> Callable[[Subject], str]:
    """Why a check does not apply to a model that gives none of some answers."""
    return lambda subject: "" if answers(subject) else why


NUMBERS = without(lambda subject: subject.answers, "it gives no numbers")
READING = without(Subject.reading, "no answer is of a caption")
LOOKING = without(Subject.looking, "no answer is of an image")
PAIRING = without(Subject.pairing, "no answer is of a pair")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a model must do.

    Attributes:
        name: short, for a list.
        sentence: what must be so.
        run: raises `ConformanceError` when it is not so.
        unfit: why it does not apply to a model; empty when it does.
        base: whether the later checks mean nothing when this one fails.
        leans: whether it means nothing when a base check failed.
    """

    name: str
    sentence: str
    run: Callable[[Subject], None]
    unfit: Callable[[Subject], str] = _always
    base: bool = False
    leans: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        name: of the check.
        sentence: what must be so.
        outcome: whether it is so, or why that was not looked at.
        detail: what was found, or why not; empty when it passed.
    """

    name: str
    sentence: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What all checks found.

    Attributes:
        model: its name, as far as it has one.
        dtype: what it computed in.
        tolerance: the largest relative difference that was allowed.
        findings: one a check, in order.
    """

    model: str
    dtype: str
    tolerance: float
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What failed."""
        return tuple(finding for finding in self.findings if finding.outcome == "failed")


def dtype_of(model: Any, dtype: str | None = None) -> str:
    """What a model computes in: as said, else as its card says, else float32."""
    said = dtype or getattr(getattr(model, "card", None), "dtype", None)
    return said if said in DTYPES else "fp32"
