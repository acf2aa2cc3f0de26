"""Checks, their results, the model under test, and the sample inputs it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contrapose.models.capabilities import Model, QuestionTemplate
from contrapose.models.options import DTYPES

if TYPE_CHECKING:
    from PIL.Image import Image

FloatArray: TypeAlias = NDArray[np.float64]


def to_array(values: Any) -> FloatArray:
    """Convert a tensor of any device and dtype, or an array-like, to a float64 array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
        values = values.numpy()
    return np.asarray(values, dtype=np.float64)


def relative_difference(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    """Largest relative difference between two lists of outputs, item by item.

    An item near zero is measured against the usual size of the answers instead of its own.
    """
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return float("inf")
    sizes = [float(np.linalg.norm(each)) for each in one]
    usual = float(np.mean(sizes)) if sizes else 0.0
    worst = 0.0
    for a, b, size in zip(one, other, sizes, strict=True):
        distance = float(np.linalg.norm(a - b))
        if distance:
            scale = max(size, usual)
            worst = max(worst, distance / scale if scale else float("inf"))
    return worst


def pixel_arrays(picture: Any) -> tuple[FloatArray, ...]:
    """Numbers of an image, a tensor, or named tensors in sorted order."""
    if isinstance(picture, Mapping):
        return tuple(to_array(picture[name]) for name in sorted(picture))
    return (to_array(picture),)


def same_pixels(one: Any, other: Any) -> bool:
    """Whether two images hold the same numbers."""
    pairs = zip(pixel_arrays(one), pixel_arrays(other), strict=False)
    return len(pixel_arrays(one)) == len(pixel_arrays(other)) and all(
        a.shape == b.shape and np.array_equal(a, b) for a, b in pairs
    )


CAPTIONS = (
    "a blue cube",
    "a green sphere",
    "a red cone",
    "two red cubes",
)
"""Like in length and in order, so that a batch of them asks nothing of padding or sorting."""

ODD_CAPTIONS = (
    "Ein grüner Würfel",
    "红色的球",
    "a red cube 🟥",
    "a red cube\non a table\t!",
    '"red", it said; (cube) 2/3 & more',
    "x",
)
"""Other scripts, characters of four bytes, line breaks, marks, a single letter."""

WORD = "red"


def sample_images(count: int) -> list[Image]:
    """Sample images: color blocks in several shapes."""
    from PIL import Image as Images

    drawn = []
    for i in range(count):
        blocks = np.random.default_rng(i).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        size = (64 + 16 * (i % 3), 64 + 24 * (i % 2))
        drawn.append(Images.fromarray(blocks).resize(size, Images.Resampling.NEAREST))
    return drawn


def odd_images() -> dict[str, Image]:
    """Images of shapes and colors on which preprocessing often fails."""
    from PIL import Image as Images

    return {
        "all grey": Images.new("RGB", (48, 48), (127, 127, 127)),
        "200 high and 8 wide": Images.new("RGB", (8, 200), (200, 30, 30)),
        "8 high and 200 wide": Images.new("RGB", (200, 8), (30, 200, 30)),
        "3 high and 40 wide": Images.new("RGB", (40, 3), (30, 30, 200)),
        "1 × 1": Images.new("RGB", (1, 1), (250, 10, 10)),
    }


def repeat_word(words: int, *tail: str) -> str:
    """A caption of one word repeated, followed by the tail words."""
    return " ".join((*(WORD,) * words, *tail))


def count_words(tokens: int, counts: Sequence[int]) -> int:
    """Number of equal words that make at most so many tokens.

    Args:
        tokens: the most there may be.
        counts: tokens of a caption of one such word and of two.
    """
    one, two = counts
    return 1 + (tokens - one) // max(two - one, 1)


TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
"""The largest relative difference by which two answers to the same pair may differ: in half
precision sums of another order differ in the second or third figure."""

SCORE_METHODS = {
    "itc": ("embed_images", "embed_texts"),
    "itm": ("match",),
    "lm": ("token_logprobs", "noise_images", "lm_tokens"),
    "vqa": ("answer_logprobs", "noise_images"),
    "blind": ("text_logprobs", "lm_tokens"),
    "chat": ("reply",),
}
"""What a model must have to be asked for a score."""
SHARED_METHODS = ("noise_images", "lm_tokens")
"""What several scores need: by itself it promises none of them."""
LOGPROB_METHODS = ("token_logprobs", "answer_logprobs", "text_logprobs")
"""Answers that are logarithms of probabilities."""
QUESTION = QuestionTemplate()
"""What answerers are asked in the checks."""

CheckOutcome = Literal["passed", "failed", "not applicable", "not checked"]


class ConformanceError(AssertionError):
    """A failed check; the message says what was found."""


@dataclass(frozen=True, slots=True)
class ScoreMethod:
    """One scoring method of a model, called on pairs whichever inputs it reads.

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
        """Largest relative difference allowed between two outputs for the same pair."""
        return TOLERANCE[self.dtype]

    @property
    def answers(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that the model has."""
        found = (
            ScoreMethod("embed_images", True, False, lambda shown, _: self._each("embed_images",
            shown)),
            ScoreMethod("embed_texts", False, True, lambda _, texts: self._each("embed_texts",
            texts)),
            ScoreMethod("match", True, True, lambda images, texts: self._each("match", images,
            texts)),
            ScoreMethod("token_logprobs", True, True, lambda images, texts: self._ragged(
                self.model.token_logprobs(images, texts))),
            ScoreMethod("answer_logprobs", True, True, lambda images, texts: list(to_array(
                self.model.answer_logprobs(images, texts, QUESTION)))),
            ScoreMethod("text_logprobs", False, True, lambda _, texts: self._ragged(
                self.model.text_logprobs(texts))),
        )  # fmt: skip
        return tuple(answer for answer in found if hasattr(self.model, answer.method))

    def caption_methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that depend on a caption."""
        return tuple(answer for answer in self.answers if answer.texts)

    def image_methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that depend on an image."""
        return tuple(answer for answer in self.answers if answer.images)

    def pair_methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that depend on both."""
        return tuple(answer for answer in self.answers if answer.images and answer.texts)

    def _each(self, method: str, *given: Sequence[Any]) -> list[FloatArray]:
        return list(to_array(getattr(self.model, method)(*given)))

    @staticmethod
    def _ragged(ragged: Any) -> list[FloatArray]:
        values, offsets = to_array(ragged.values), to_array(ragged.offsets).astype(int).tolist()
        return [values[a:b] for a, b in pairwise(offsets)]


def _always_applies(subject: Subject) -> str:
    return ""


def require_methods(
    answers: Callable[[Subject], Sequence[ScoreMethod]], why: str
) -> Callable[[Subject], str]:
    """Build the reason for skipping a check when the model has none of some methods."""
    return lambda subject: "" if answers(subject) else why


NEEDS_NUMBERS = require_methods(lambda subject: subject.answers, "it gives no numbers")
NEEDS_CAPTIONS = require_methods(Subject.caption_methods, "no answer is of a caption")
NEEDS_IMAGES = require_methods(Subject.image_methods, "no answer is of an image")
NEEDS_PAIRS = require_methods(Subject.pair_methods, "no answer is of a pair")


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement on a model, and the function that checks it.

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
    unfit: Callable[[Subject], str] = _always_applies
    base: bool = False
    leans: bool = True


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check.

    Attributes:
        name: of the check.
        sentence: what must be so.
        outcome: whether it is so, or why that was not looked at.
        detail: what was found, or why not; empty when it passed.
    """

    name: str
    sentence: str
    outcome: CheckOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Results of all checks of one model.

    Attributes:
        model: its name, as far as it has one.
        dtype: what it computed in.
        tolerance: the largest relative difference that was allowed.
        findings: one a check, in order.
    """

    model: str
    dtype: str
    tolerance: float
    findings: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Results of the failed checks."""
        return tuple(finding for finding in self.findings if finding.outcome == "failed")


def find_dtype(model: Any, dtype: str | None = None) -> str:
    """Dtype of a model: as given, else as on its card, else float32."""
    said = dtype or getattr(getattr(model, "card", None), "dtype", None)
    return said if said in DTYPES else "fp32"
