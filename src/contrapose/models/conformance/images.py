"""Checks of the images a model takes, its preprocessing, and its noise images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from contrapose.models.capabilities import PIXELS
from contrapose.models.conformance.batches import require_same
from contrapose.models.conformance.check import (
    CAPTIONS,
    LOGPROB_METHODS,
    NEEDS_IMAGES,
    Check,
    ConformanceError,
    Subject,
    needs_any,
    odd_images,
    pixel_arrays,
    same_pixels,
    sample_images,
)
from contrapose.models.video_reader import FrameTiming

THREADS = 4
ROUNDS = 4
"""Times that each image is prepared."""
NOISE_COUNT = 4
"""Noise images whose mean and standard deviation are checked."""
SIGMAS = 6
"""Largest deviation, in standard errors of a mean."""


def _check_odd_images(subject: Subject) -> None:
    for method in subject.image_methods():
        for what, image in odd_images().items():
            try:
                (numbers,) = method.score([image], CAPTIONS[:1])
            except Exception as error:
                raise ConformanceError(
                    f"{method.name} raised {type(error).__name__} for an image that is {what}: "
                    f"{error}"
                ) from None
            if not np.isfinite(numbers).all():
                raise ConformanceError(
                    f"{method.name} gave NaN or infinity for an image that is {what}"
                )


def _check_prepared_images(subject: Subject) -> None:
    images = sample_images(len(CAPTIONS))
    for method in subject.image_methods():
        plain = method.score(images, CAPTIONS)
        ready = method.score([subject.model.prepare_image(image) for image in images], CAPTIONS)
        require_same(subject, method, plain, ready, "for images and for prepared ones")


def _check_threads(subject: Subject) -> None:
    images = sample_images(len(CAPTIONS)) * ROUNDS
    alone = [subject.model.prepare_image(image) for image in images]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(subject.model.prepare_image, images))
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
    for method in subject.pair_methods():
        if method.name in LOGPROB_METHODS and len(method.score(drawn, CAPTIONS[:2])) != 2:
            raise ConformanceError(f"{method.name} does not take the noise as images")


def _require_statistics(model: Any, drawn: Sequence[Any]) -> None:
    """Raise unless noise has the mean and standard deviation that the model states."""
    pixels = [image.get(PIXELS) if isinstance(image, Mapping) else image for image in drawn]
    if not all(hasattr(image, "detach") for image in pixels):
        return  # an image that is not normalized yet
    values = np.concatenate([part.reshape(-1) for image in pixels for part in pixel_arrays(image)])
    statistics = {"noise_mean": float(values.mean()), "noise_std": float(values.std())}
    for name, value in statistics.items():
        stated = getattr(model, name, None)
        spread = SIGMAS * float(values.std()) / values.size**0.5
        if stated is not None and abs(value - float(stated)) > spread:
            raise ConformanceError(f"{name} is {stated}, and that of {len(drawn)} is {value:.4g}")


def _check_encoded_images(subject: Subject) -> None:
    """Check that an encoded image scores as the image does, alone, mixed and repeated."""
    images = sample_images(len(CAPTIONS))
    for method in subject.pair_methods():
        if method.name not in LOGPROB_METHODS:
            continue
        plain = method.score(images, CAPTIONS)
        encoded = list(subject.model.encode_images(images))
        if len(encoded) != len(images):
            raise ConformanceError(f"encode_images gave {len(encoded)} for {len(images)} images")
        for inputs in (encoded, [encoded[0], *images[1:]], encoded):
            scores = method.score(inputs, CAPTIONS)
            require_same(subject, method, plain, scores, "for images and for encoded ones")
        again = method.score([encoded[0]] * len(CAPTIONS), CAPTIONS)
        alone = method.score([images[0]] * len(CAPTIONS), CAPTIONS)
        require_same(subject, method, alone, again, "for one encoded image and several captions")


def _check_videos(subject: Subject) -> None:
    """Check that all frames of a video count, beside other videos and images in any order."""
    model = subject.model
    count = int(getattr(model, "frame_count", 2))
    if model.max_frames < count or getattr(model, "video_obstacle", ""):
        return
    first, *others = sample_images(3)
    second, third = (other.resize(first.size) for other in others)
    timing = FrameTiming(tuple(map(float, range(count))), count, 1.0)
    clips = [
        model.prepare_video([*[first] * (count - 1), other], timing) for other in (second, third)
    ]
    captions = [CAPTIONS[0]] * 3
    for method in subject.image_methods():
        scores = method.score([*clips, first], captions)
        reverse = method.score([first, *clips[::-1]], captions)[::-1]
        require_same(subject, method, scores, reverse, "for videos in another order")
        images = method.score([second, third, first], captions)
        tells_images = not np.array_equal(images[0], images[1])
        if tells_images and np.array_equal(scores[0], scores[1]):
            raise ConformanceError(
                f"{method.name} gives the same for two videos that differ in the last frame"
            )


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
        needs_any("prepare_image"),
    ),
    Check(
        "threads",
        "prepare_image gives the same in several threads at once.",
        _check_threads,
        needs_any("prepare_image"),
    ),
    Check(
        "noise-images",
        "noise_images gives finite noise that follows from the seed, as it is said to be.",
        _check_noise,
        needs_any("noise_images"),
    ),
    Check(
        "encoded-images",
        "An image and what encode_images makes of it get the same number.",
        _check_encoded_images,
        needs_any("encode_images"),
    ),
    Check(
        "videos",
        "All frames that prepare_video is given count, in any batch.",
        _check_videos,
        needs_any("prepare_video"),
    ),
)
