"""Prior images, under which a caption's prior is taken: noise, a folder, other examples' images.

The prior of a caption is the log of its mean probability under images that say nothing about it
(Lin et al. 2024, equation 13). Never under those of its own example: at α = 1 the two comparisons
of a 2 × 2 text score would become one.

The prior of a caption is the log of its mean probability under images that say nothing about it
(Lin et al. 2024, equation 13). Never under those of its own example: at α = 1 the two comparisons
of a 2 × 2 text score would become one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrapose.engine.plan import ScoringPlan
from contrapose.errors import InputError
from contrapose.metrics import IntArray

DEFAULT_SAMPLE = 32
"""Real images of a prior, when the user does not say."""

PRIOR_FORMS = "noise:3, images:DIR[:COUNT] or gallery[:COUNT]"


@dataclass(frozen=True, slots=True)
class NoiseImages:
    """Gaussian noise images in the model's own normalized pixel space.

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
    """Images of a folder that holds none of the examples' images.

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
    """The benchmark's own images: for every caption those of other examples.

    Attributes:
        count: how many are drawn; None takes 32, or all when there are fewer.
        seed: of the draw.
    """

    count: int | None = None
    seed: int = 0


Prior = NoiseImages | FolderImages | OtherImages


def parse_prior(text: str, *, seed: int = 0) -> Prior:
    """Parse a prior such as `noise:3`, `images:photos:100` or `gallery`.

    Noise may have another mean or standard deviation: `noise:3:mean=0:std=1`.

    Raises:
        InputError: it is of another form.
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
    """Describe a prior in words that say all that decides it."""
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


def noise_key_suffix(noise: NoiseImages, model: object) -> str:
    """Return the suffix of a score's store key under noise."""
    mean, std = noise_statistics(noise, model)
    known = "" if mean is None else f":mean={mean:g}:std={std:g}"
    return f":noise:{noise.count}:seed={noise.seed}{known}"


def _parse_noise(rest: str, text: str, seed: int) -> NoiseImages:
    count, *settings = rest.split(":")
    given: dict[str, float] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            raise _prior_error(text) from None
    low = given.get("std", 1.0)
    if (
        not set(given) <= {"mean", "std"}
        or not low > 0
        or not all(map(math.isfinite, given.values()))
    ):
        raise _prior_error(text)
    return NoiseImages(_parse_count(count or "3", text), seed, given.get("mean"), given.get("std"))


def _parse_count(text: str, whole: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise _prior_error(whole)
    return int(text)


def _prior_error(text: str) -> InputError:
    return InputError(f"--prior must be {PRIOR_FORMS}, with at least one image; found {text!r}.")


CAPTIONS_PER_BLOCK = 4096
"""Captions whose images are drawn in one go."""


def draw_other_images(examples: ScoringPlan, count: int | None, seed: int) -> IntArray:
    """Draw for every caption images of other examples, as (p, 2) image and caption.

    All captions take the first that are left to them of one shuffled list, so that few images are
    looked at. A caption's own images are all that it is asked with, whether it is right or wrong
    there: nothing is told of which is which.

    Args:
        examples: the plan of all examples.
        count: how many for each caption; None takes 32, or all where there are fewer.
        seed: of the shuffle.

    Raises:
        InputError: a caption has fewer to take than it needs, or none.
    """
    seen = np.array([name not in examples.lost for name in examples.image_ids], dtype=np.bool_)
    shuffled = np.random.default_rng(seed).permutation(len(examples.images))
    shuffled = shuffled[seen[shuffled]]
    own = np.bincount(examples.pairs[:, 1], minlength=len(examples.texts))
    most = DEFAULT_SAMPLE if count is None else count
    window = shuffled[: most + int(own.max(initial=0))]
    taken = examples.pairs[:, 0] * len(examples.texts) + examples.pairs[:, 1]
    found = []
    for start in range(0, len(examples.texts), CAPTIONS_PER_BLOCK):
        captions = np.arange(start, min(start + CAPTIONS_PER_BLOCK, len(examples.texts)))
        free = ~np.isin(window * len(examples.texts) + captions[:, None], taken)
        chosen = free & (np.cumsum(free, axis=1) <= most)
        fewest = int(chosen.sum(axis=1).argmin())
        _require_enough(int(chosen[fewest].sum()), count, examples.texts[start + fewest])
        caption, place = np.nonzero(chosen)
        found.append(np.stack([window[place], captions[caption]], axis=1))
    return np.concatenate(found)


def _require_enough(found: int, count: int | None, caption: str) -> None:
    if found >= (count or 1):
        return
    shown = caption if len(caption) <= 40 else f"{caption[:40]}…"
    raise InputError(
        f"--prior gallery needs {count or 'some'} images of other examples, and {shown!r} has "
        f"{found or 'none'}; ask more examples, or take noise:3 or images:DIR."
    )
