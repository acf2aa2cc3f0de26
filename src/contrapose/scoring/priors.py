"""Under which images a caption's prior is taken: noise, other photographs, the benchmark's own.

The prior of a caption is the log of its mean probability under images that say nothing about it
(Lin et al. 2024, equation 13). Never under those of its own example: at α = 1 the two comparisons
of a 2 × 2 text score would become one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from contrapose.errors import InputError

SAMPLE = 32
"""Real images of a prior, when the user does not say."""

FORMS = "noise:3, images:DIR[:COUNT] or gallery[:COUNT]"


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise in the model's own normalised pixel space.

    Attributes:
        count: how many images.
        seed: of the noise.
        mean: None takes the model's own.
        std: None takes the model's own.
    """

    count: int = 3
    seed: int = 0
    mean: float | None = None
    std: float | None = None


@dataclass(frozen=True, slots=True)
class FolderImages:
    """Images of a folder that has none of the examples' own.

    Attributes:
        folder: where they lie, also in folders below it.
        count: how many are drawn; None takes 32, or all when there are fewer.
        seed: of the draw.
    """

    folder: Path
    count: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class OtherImages:
    """The benchmark's own images: for every caption those of examples that it does not stand in.

    Attributes:
        count: how many are drawn; None takes 32, or all when there are fewer.
        seed: of the draw.
    """

    count: int | None = None
    seed: int = 0


Prior = Noise | FolderImages | OtherImages


def parse_prior(text: str, *, seed: int = 0) -> Prior:
    """The prior that a text such as `noise:3`, `images:photos:100` or `gallery` asks for.

    Noise may have another mean or standard deviation: `noise:3:mean=0:std=1`.

    Raises:
        InputError: it is of another form.
    """
    kind, _, rest = text.partition(":")
    if kind == "noise":
        return _noise(rest, text, seed)
    if kind == "images" and rest:
        folder, colon, count = rest.rpartition(":")
        if colon and count.isdecimal() and folder:
            return FolderImages(Path(folder), _count(count, text), seed)
        return FolderImages(Path(rest), None, seed)
    if kind == "gallery":
        return OtherImages(_count(rest, text) if rest else None, seed)
    raise _malformed(text)


def prior_words(prior: Prior, model: object) -> str:
    """The prior in words that say all that decides it."""
    if isinstance(prior, FolderImages):
        return f"{prior.count or f'up to {SAMPLE}'} images of {prior.folder}, seed {prior.seed}"
    if isinstance(prior, OtherImages):
        return (
            f"{prior.count or f'up to {SAMPLE}'} of the benchmark's own images, never an "
            f"example's own, seed {prior.seed}"
        )
    mean, std = noise_statistics(prior, model)
    words = f"{prior.count} noise image{'s' * (prior.count > 1)}, seed {prior.seed}"
    return words if mean is None else f"{words}, mean {mean:g}, standard deviation {std:g}"


def noise_statistics(noise: Noise, model: object) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the noise; None where the model does not say."""
    mean, std = getattr(model, "noise_mean", None), getattr(model, "noise_std", None)
    return (
        mean if noise.mean is None else noise.mean,
        std if noise.std is None else noise.std,
    )


def noise_name(noise: Noise, model: object) -> str:
    """What is added to a score's name in the store when it is asked under noise."""
    mean, std = noise_statistics(noise, model)
    known = "" if mean is None else f":mean={mean:g}:std={std:g}"
    return f":noise:{noise.count}:seed={noise.seed}{known}"


def _noise(rest: str, text: str, seed: int) -> Noise:
    count, *settings = rest.split(":")
    given: dict[str, float] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            raise _malformed(text) from None
    low = given.get("std", 1.0)
    if (
        not set(given) <= {"mean", "std"}
        or not low > 0
        or not all(map(math.isfinite, given.values()))
    ):
        raise _malformed(text)
    return Noise(_count(count or "3", text), seed, given.get("mean"), given.get("std"))


def _count(text: str, whole: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise _malformed(whole)
    return int(text)


def _malformed(text: str) -> InputError:
    return InputError(f"--prior must be {FORMS}, with at least one image; found {text!r}.")
