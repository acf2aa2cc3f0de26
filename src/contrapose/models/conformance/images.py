"""Checks of the images a model takes, its preprocessing, and its noise images."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from contrapose.models.conformance.batches import require_same
from contrapose.models.conformance.check import (
    CAPTIONS,
    LOGPROB_METHODS,
    NEEDS_IMAGES,
    Check,
    ConformanceError,
    Subject,
    odd_images,
    pixel_arrays,
    same_pixels,
    sample_images,
)

THREADS = 4
ROUNDS = 4
"""How often each thread prepares every image."""
NOISE_COUNT = 4
"""Noise images whose mean and spread are looked at."""
SIGMAS = 6
"""How far off they may be, in standard errors of a mean."""


def _check_odd_images(subject: Subject) -> None:
    for answer in subject.image_methods():
        for what, image in odd_images().items():
            try:
                (numbers,) = answer.ask([image], CAPTIONS[:1])
            except Exception as error:
                raise ConformanceError(
                    f"{answer.method} raised {type(error).__name__} for an image that is {what}: "
                    f"{error}"
                ) from None
            if not np.isfinite(numbers).all():
                raise ConformanceError(
                    f"{answer.method} gave NaN or infinity for an image that is {what}"
                )


def _check_prepared_images(subject: Subject) -> None:
    shown = sample_images(len(CAPTIONS))
    for answer in subject.image_methods():
        plain = answer.ask(shown, CAPTIONS)
        ready = answer.ask([subject.model.prepare_image(image) for image in shown], CAPTIONS)
        require_same(subject, answer, plain, ready, "for images and for prepared ones")


def _check_threads(subject: Subject) -> None:
    shown = sample_images(len(CAPTIONS)) * ROUNDS
    alone = [subject.model.prepare_image(image) for image in shown]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(subject.model.prepare_image, shown))
    if not all(map(same_pixels, alone, together)):
        raise ConformanceError(
            f"prepare_image gives other numbers in {THREADS} threads than in one"
        )


def _check_noise(subject: Subject) -> None:
    make = subject.model.noise_images
    drawn, again, other = list(make(2, 0)), list(make(2, 0)), list(make(2, 1))
    if len(drawn) != 2:
        raise ConformanceError(f"noise_images gave {len(drawn)} images for 2")
    if not all(map(same_pixels, drawn, again)):
        raise ConformanceError("the same seed gives other noise")
    if same_pixels(drawn[0], other[0]) or same_pixels(*drawn):
        raise ConformanceError("another seed, or the next image, gives the same noise")
    if not all(np.isfinite(part).all() for image in drawn for part in pixel_arrays(image)):
        raise ConformanceError("the noise is not finite")
    _require_statistics(subject.model, list(make(NOISE_COUNT, 0)))
    for answer in subject.pair_methods():
        if answer.method in LOGPROB_METHODS and len(answer.ask(drawn, CAPTIONS[:2])) != 2:
            raise ConformanceError(f"{answer.method} does not take the noise as images")


def _require_statistics(model: Any, drawn: Sequence[Any]) -> None:
    """Raise unless noise has the mean and standard deviation that the model states."""
    if not all(hasattr(image, "detach") for image in drawn):
        return  # a picture that is not normalised yet, or more than pixels
    values = np.concatenate([part.reshape(-1) for image in drawn for part in pixel_arrays(image)])
    found = {"noise_mean": float(values.mean()), "noise_std": float(values.std())}
    for name, value in found.items():
        said = getattr(model, name, None)
        spread = SIGMAS * float(values.std()) / values.size**0.5
        if said is not None and abs(value - float(said)) > spread:
            raise ConformanceError(f"{name} is {said}, and that of {len(drawn)} is {value:.4g}")


def _check_encoded_images(subject: Subject) -> None:
    """Check that an encoded image scores as the image does, alone, mixed and repeated."""
    shown = sample_images(len(CAPTIONS))
    for answer in subject.pair_methods():
        if answer.method not in LOGPROB_METHODS:
            continue
        plain = answer.ask(shown, CAPTIONS)
        looked = list(subject.model.look(shown))
        if len(looked) != len(shown):
            raise ConformanceError(f"look gave {len(looked)} for {len(shown)} images")
        for given in (looked, [looked[0], *shown[1:]], looked):
            found = answer.ask(given, CAPTIONS)
            require_same(subject, answer, plain, found, "for images and for looked-at ones")
        again = answer.ask([looked[0]] * len(CAPTIONS), CAPTIONS)
        alone = answer.ask([shown[0]] * len(CAPTIONS), CAPTIONS)
        require_same(subject, answer, alone, again, "for one looked-at image and several captions")


def _require_method(method: str, subject: Subject) -> str:
    return "" if hasattr(subject.model, method) else f"the model has no {method}"


IMAGE_CHECKS = (
    Check(
        "odd-images",
        "Images that are grey, tall, flat or one pixel are taken.",
        _check_odd_images,
        NEEDS_IMAGES,
    ),
    Check(
        "prepared-images",
        "An image and what prepare_image makes of it get the same number.",
        _check_prepared_images,
        lambda subject: _require_method("prepare_image", subject),
    ),
    Check(
        "threads",
        "prepare_image gives the same in several threads at once.",
        _check_threads,
        lambda subject: _require_method("prepare_image", subject),
    ),
    Check(
        "noise-images",
        "noise_images gives finite noise that follows from the seed, as it is said to be.",
        _check_noise,
        lambda subject: _require_method("noise_images", subject),
    ),
    Check(
        "looked-images",
        "An image and what look makes of it get the same number.",
        _check_encoded_images,
        lambda subject: _require_method("look", subject),
    ),
)
