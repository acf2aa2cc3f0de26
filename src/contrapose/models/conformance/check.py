"""Checks, their results, the model under test, and the sample inputs it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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

    An item near zero is compared with the mean size of the outputs instead of its own.
    """
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return float("inf")
    sizes = [float(np.linalg.norm(item)) for item in one]
    usual = float(np.mean(sizes)) if sizes else 0.0
    worst = 0.0
    for a, b, size in zip(one, other, sizes, strict=True):
        distance = float(np.linalg.norm(a - b))
        if distance:
            scale = max(size, usual)
            worst = max(worst, distance / scale if scale else float("inf"))
    return worst


def pixel_arrays(image: Any) -> tuple[FloatArray, ...]:
    """Numbers of an image, a tensor, or named tensors in sorted order."""
    if isinstance(image, Mapping):
        return tuple(to_array(image[name]) for name in sorted(image))
    return (to_array(image),)


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
"""Equal in length and sorted, so that a batch of them needs no padding or sorting."""

ODD_CAPTIONS = (
    "Ein grüner Würfel",
    "红色的球",
    "a red cube 🟥",
    "a red cube\non a table\t!",
    '"red", it said; (cube) 2/3 & more',
    "x",
)
"""Other scripts, four-byte characters, line breaks, punctuation, a single letter."""

WORD = "red"


def sample_images(count: int) -> list[Image]:
    """Sample images: color blocks in several shapes; new copies each time."""
    return [_sample_image(i).copy() for i in range(count)]


@cache
def _sample_image(number: int) -> Image:
    from PIL import Image as Images

    blocks = np.random.default_rng(number).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    size = (64 + 16 * (number % 3), 64 + 24 * (number % 2))
    return Images.fromarray(blocks).resize(size, Images.Resampling.NEAREST)


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
        tokens: most tokens.
        counts: tokens of a caption of one such word, and of two.
    """
    one, two = counts
    return 1 + (tokens - one) // max(two - one, 1)


TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
"""Largest relative difference of two scores of the same pair: in half precision, sums in another
order differ in the second or third digit."""

SCORE_METHODS = {
    "itc": ("embed_images", "embed_texts"),
    "itm": ("match",),
    "lm": ("token_logprobs", "noise_images", "lm_tokens"),
    "vqa": ("answer_logprobs", "noise_images"),
    "blind": ("text_logprobs", "lm_tokens"),
    "chat": ("reply",),
}
"""Methods and attributes that each score needs."""
SHARED_METHODS = ("noise_images", "lm_tokens")
"""Methods that several scores need, so that one of them implies no score."""
LOGPROB_METHODS = ("token_logprobs", "answer_logprobs", "text_logprobs")
"""Methods that return log-probabilities."""
QUESTION = QuestionTemplate()
"""Question template of the checks."""

CheckOutcome = Literal["passed", "failed", "not applicable", "not checked"]


class ConformanceError(AssertionError):
    """A failed check; the message says what was found."""


@dataclass(frozen=True, slots=True)
class ScoreMethod:
    """One scoring method of a model, called on pairs whichever inputs it reads.

    Attributes:
        name: of the model's method.
        images: whether it reads the images.
        texts: whether it reads the captions.
        score: images and captions → one array per pair.
    """

    name: str
    images: bool
    texts: bool
    score: Callable[[Sequence[Any], Sequence[str]], list[FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A model under test.

    Attributes:
        model: of any type, since the checks report what it lacks.
        dtype: of its computation.
        load: loads the model again; None if only the model was given.
    """

    model: Any
    dtype: str = "fp32"
    load: Callable[[], Model] | None = None

    @property
    def tolerance(self) -> float:
        """Largest relative difference allowed between two outputs for the same pair."""
        return TOLERANCE[self.dtype]

    @property
    def methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that the model has."""
        model = self.model
        methods = (
            ScoreMethod("embed_images", True, False, lambda images, _: _rows(
                model.embed_images(images))),
            ScoreMethod("embed_texts", False, True, lambda _, texts: _rows(
                model.embed_texts(texts))),
            ScoreMethod("match", True, True, lambda images, texts: _rows(
                model.match(images, texts))),
            ScoreMethod("token_logprobs", True, True, lambda images, texts: _ragged_rows(
                model.token_logprobs(images, texts))),
            ScoreMethod("answer_logprobs", True, True, lambda images, texts: _rows(
                model.answer_logprobs(images, texts, QUESTION))),
            ScoreMethod("text_logprobs", False, True, lambda _, texts: _ragged_rows(
                model.text_logprobs(texts))),
        )  # fmt: skip
        return tuple(method for method in methods if hasattr(model, method.name))

    def caption_methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that depend on a caption."""
        return tuple(method for method in self.methods if method.texts)

    def image_methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that depend on an image."""
        return tuple(method for method in self.methods if method.images)

    def pair_methods(self) -> tuple[ScoreMethod, ...]:
        """Scoring methods that depend on both."""
        return tuple(method for method in self.methods if method.images and method.texts)


def _rows(values: Any) -> list[FloatArray]:
    return list(to_array(values))


def _ragged_rows(ragged: Any) -> list[FloatArray]:
    values, offsets = to_array(ragged.values), to_array(ragged.offsets).astype(int).tolist()
    return [values[a:b] for a, b in pairwise(offsets)]


Condition: TypeAlias = Callable[[Subject], str]
"""Reason why a check does not apply to a model; empty when it does."""


def _always(subject: Subject) -> str:
    return ""


def needs(methods: Callable[[Subject], Sequence[ScoreMethod]], reason: str) -> Condition:
    """Condition of a check that needs one of some scoring methods."""
    return lambda subject: "" if methods(subject) else reason


def needs_any(*names: str) -> Condition:
    """Condition of a check that needs one of some attributes of the model."""
    return lambda subject: (
        ""
        if any(hasattr(subject.model, name) for name in names)
        else f"the model has no {' or '.join(names)}"
    )


NEEDS_NUMBERS = needs(lambda subject: subject.methods, "it gives no numbers")
NEEDS_CAPTIONS = needs(Subject.caption_methods, "no answer is of a caption")
NEEDS_IMAGES = needs(Subject.image_methods, "no answer is of an image")
NEEDS_PAIRS = needs(Subject.pair_methods, "no answer is of a pair")


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement on a model, and the function that checks it.

    Attributes:
        name: short name for tables.
        sentence: the requirement.
        run: raises `ConformanceError` when the model does not meet it.
        condition: reason why it does not apply to a model; empty when it does.
        base: whether later checks are skipped when this one fails.
        depends: whether it is skipped when a base check failed.
    """

    name: str
    sentence: str
    run: Callable[[Subject], None]
    condition: Condition = _always
    base: bool = False
    depends: bool = True


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check.

    Attributes:
        name: of the check.
        sentence: the requirement.
        outcome: passed, failed, or not run.
        detail: what was wrong, or why it was not run; empty when it passed.
    """

    name: str
    sentence: str
    outcome: CheckOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Results of all checks of one model.

    Attributes:
        model: its name, or its class where it has none.
        dtype: of its computation.
        tolerance: largest relative difference allowed.
        findings: results of the checks, in order.
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
        return tuple(result for result in self.findings if result.outcome == "failed")


def find_dtype(model: Any, dtype: str | None = None) -> str:
    """Dtype of a model: as given, else as on its card, else float32."""
    stated = dtype or getattr(getattr(model, "card", None), "dtype", None)
    return stated if stated in DTYPES else "fp32"
