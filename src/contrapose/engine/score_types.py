"""Score types by name: definition, required capability, store key, options, checked model call.

What a model returns is checked for shape, finiteness and sign before it is stored; a fault is a
`ModelError` of one sentence.

The prior of a caption is the log of its mean probability under images that say nothing about it
(Lin et al. 2024, equation 13). Never under those of its own example: at α = 1 the two comparisons
of a 2 × 2 text score would become one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from contrapose.engine.score_names import (
    EDIT_SCORES,
    FUSION_SCORES,
    base_score,
    require_known_score,
)
from contrapose.errors import InputError, option
from contrapose.files import parse_count
from contrapose.models import (
    Answerer,
    Captioner,
    Chat,
    Encoder,
    Language,
    Matcher,
    Model,
    QuestionTemplate,
)
from contrapose.models.sides import require_side

REQUIRED_CAPABILITY: Mapping[str, type] = {
    "itc": Encoder,
    "itm": Matcher,
    "lm": Captioner,
    "vqa": Answerer,
    "prior": Captioner,
    "blind": Language,
    "chat": Chat,
    "chat:eqben": Chat,
    "chat:sugarcrepe": Chat,
    "chat:yes-no": Chat,
    **dict.fromkeys((*EDIT_SCORES, *FUSION_SCORES), Encoder),
}

TEXT_ONLY_SCORES = ("prior", "blind")
"""Scores of a caption alone: one number, whatever the image."""

LIKELIHOOD_SCORES = ("lm", "vqa")
"""Log-probabilities under an image, from which a prior can be taken out."""

Progress = Callable[[str, int, int], None]
"""Progress callback, called after each batch: label of the request, scored so far, total."""


def has_pooling(model: Model) -> bool:
    """Whether a model gives an image several vectors, of which the nearest to a caption counts.

    Raises:
        InputError: the model names an unknown pooling.
    """
    pool = getattr(model, "pool", None)
    if pool not in (None, "max"):
        raise InputError(f"{model.name} has the pool {pool!r}; 'max' is the only one there is.")
    return pool is not None


def default_scores(model: Model) -> tuple[str, ...]:
    """Return the default scores of a model: all it can give that see the image.

    A model that can give none of those gets all it can give. Chat takes long and may cost money: it
    is a default only where the model's own `default_scores` says so, or there is no other score.
    """
    preferred: tuple[str, ...] | None = getattr(model, "default_scores", None)
    if preferred:
        return preferred
    able = tuple(
        name
        for name, needed in REQUIRED_CAPABILITY.items()
        if isinstance(model, needed) and ":" not in name
    )
    return tuple(name for name in able if name not in (*TEXT_ONLY_SCORES, "chat")) or able


DEFAULT_SAMPLE = 32
"""Real images of a prior by default."""

PRIOR_FORMS = "noise:3, images:DIR[:COUNT] or gallery[:COUNT]"


@dataclass(frozen=True, slots=True)
class NoiseImages:
    """Gaussian noise images in the model's own normalized pixel space.

    Attributes:
        count: how many images.
        seed: of the noise.
        mean: of the pixels; None is the model's default.
        std: standard deviation of the pixels; None is the model's default.
    """

    count: int = 3
    seed: int = 0
    mean: float | None = None
    std: float | None = None


@dataclass(frozen=True, slots=True)
class FolderImages:
    """Images of a folder that holds none of the examples' images.

    Attributes:
        folder: the folder, searched recursively.
        count: how many are drawn; None is 32, or all when there are fewer.
        seed: of the draw.
    """

    folder: Path
    count: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class OtherImages:
    """The benchmark's own images: for every caption those of other examples.

    Attributes:
        count: how many are drawn; None is 32, or all when there are fewer.
        seed: of the draw.
    """

    count: int | None = None
    seed: int = 0


Prior = NoiseImages | FolderImages | OtherImages


def parse_prior(text: str, *, seed: int = 0) -> Prior:
    """Parse a prior such as `noise:3`, `images:photos:100` or `gallery`.

    Noise may have another mean or standard deviation: `noise:3:mean=0:std=1`.

    Raises:
        InputError: it has another form.
    """
    kind, _, rest = text.partition(":")
    if kind == "noise":
        return _parse_noise(rest, text, seed)
    if kind == "images" and rest:
        folder, colon, count = rest.rpartition(":")
        if colon and count.isdecimal() and folder:
            return FolderImages(Path(folder), _parse_count(count, text), seed)
        return FolderImages(Path(rest), None, seed)
    if kind == "gallery":
        return OtherImages(_parse_count(rest, text) if rest else None, seed)
    raise _prior_error(text)


def describe_prior(prior: Prior, model: object) -> str:
    """Describe a prior with all that determines its value."""
    if isinstance(prior, FolderImages):
        count = prior.count or f"up to {DEFAULT_SAMPLE}"
        return f"{count} images of {prior.folder}, seed {prior.seed}"
    if isinstance(prior, OtherImages):
        return (
            f"{prior.count or f'up to {DEFAULT_SAMPLE}'} of the benchmark's own images, never an "
            f"example's own, seed {prior.seed}"
        )
    mean, std = noise_statistics(prior, model)
    words = f"{prior.count} noise image{'s' * (prior.count > 1)}, seed {prior.seed}"
    return words if mean is None else f"{words}, mean {mean:g}, standard deviation {std:g}"


def noise_statistics(noise: NoiseImages, model: object) -> tuple[float | None, float | None]:
    """Return mean and standard deviation of the noise; None where the model does not say."""
    mean, std = getattr(model, "noise_mean", None), getattr(model, "noise_std", None)
    return (
        mean if noise.mean is None else noise.mean,
        std if noise.std is None else noise.std,
    )


def _parse_noise(rest: str, text: str, seed: int) -> NoiseImages:
    count, *settings = rest.split(":")
    values: dict[str, float] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise _prior_error(text) from None
    if (
        not set(values) <= {"mean", "std"}
        or not values.get("std", 1.0) > 0
        or not all(map(math.isfinite, values.values()))
    ):
        raise _prior_error(text)
    return NoiseImages(
        _parse_count(count or "3", text), seed, values.get("mean"), values.get("std")
    )


def _parse_count(text: str, prior: str) -> int:
    number = parse_count(text)
    if not number:
        raise _prior_error(prior)
    return number


def _prior_error(text: str) -> InputError:
    return InputError(
        f"{option('prior')} must be {PRIOR_FORMS}, with at least one image; found {text!r}."
    )


def require_score(model: Model, score: str) -> None:
    """Require that a model can give a score.

    Raises:
        InputError: there is no such score, or the model cannot give it.
    """
    require_known_score(score)
    if not isinstance(model, REQUIRED_CAPABILITY[base_score(score)]):
        able = [name for name, needed in REQUIRED_CAPABILITY.items() if isinstance(model, needed)]
        able = [name for name in able if not name.startswith("itc:")]
        raise InputError(
            f"{model.name} cannot give {score!r}; it gives {', '.join(able) or 'no score'}."
        )
    if isinstance(model, Encoder) and base_score(score).startswith("itc"):
        for side in ("image", "text"):
            require_side(model, side)


def parse_question_template(text: str | None, answer: str | None) -> QuestionTemplate:
    """Parse the question template and answer of `vqa`.

    Raises:
        InputError: `{}`, which stands for the caption, is not there exactly once, or the answer is
            empty.
    """
    default = QuestionTemplate()
    template = default.text if text is None else text
    if template.count("{}") != 1:
        raise InputError(
            f"{option('question')} must hold {{}} once, where the caption goes; found {template!r}."
        )
    expected = default.answer if answer is None else answer.strip()
    if not expected:
        raise InputError(f"{option('answer')} must not be empty; left out it is Yes.")
    return QuestionTemplate(template, expected)


def store_key(model: Model, score: str, question: QuestionTemplate | None = None) -> str:
    """Return the score's key in the store, with everything that would change its value."""
    if score in ("lm", "blind"):
        if not isinstance(model, Captioner if score == "lm" else Language):
            raise InputError(f"{model.name} gives no likelihoods.")
        return f"{score}:mean:{model.lm_tokens}"
    if score == "vqa":
        template = question or QuestionTemplate()
        return f"vqa:log:{json.dumps([template.text, template.answer], ensure_ascii=False)}"
    if score.partition(":")[0] == "chat":
        return "chat:reply"
    if score.partition(":")[0] == "itc":
        return "itc:max-cosine" if has_pooling(model) else "itc:cosine"
    return "itm:logit"
