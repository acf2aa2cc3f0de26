"""Caption priors: the log of the mean probability under the prior's images.

Every caption is scored under every image of the prior as a pair of its own, image after image, so
that each is encoded once. Real images are scored as those of the examples are, and cached in the
same table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from contrapose.data import ImageRef, open_image, open_images
from contrapose.engine.batches import score_values
from contrapose.engine.columns import ModelError
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.plan import (
    ScoringPlan,
    compute_caption_ids,
    compute_text_ids,
    distinct_images,
)
from contrapose.engine.requests import build_image_encoder, build_pair_call, build_pair_request
from contrapose.engine.score_types import (
    DEFAULT_SAMPLE,
    FolderImages,
    NoiseImages,
    OtherImages,
    noise_statistics,
)
from contrapose.errors import InputError, NoPriorError, option
from contrapose.files import IMAGE_SUFFIXES
from contrapose.metrics import FloatArray, IntArray, log_prior
from contrapose.models import Answerer, Captioner
from contrapose.models.capabilities import PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import ImageLike

CAPTIONS_PER_BLOCK = 4096
"""Captions whose images are drawn in one step."""

IMAGES_PER_BLOCK = 64
"""Generated images that are in memory at once."""


def compute_priors(
    context: ScoringContext,
    texts: Sequence[str],
    score: str = "lm",
    examples: ScoringPlan | None = None,
) -> FloatArray:
    """Compute (n,) log P(T) of distinct captions under the images of `context.prior`.

    NaN for captions that cannot be scored.

    Args:
        context: the model, the store, and the prior's images.
        texts: distinct captions; those of `examples`, where these are given.
        score: `lm`, or `vqa` for the prior of an answer.
        examples: plan of all examples: their images must not be a prior of their own captions.
            None where the images are not known.

    Raises:
        InputError: there are no images, or one cannot be read or belongs to an example.
    """
    prior = context.prior
    if isinstance(prior, NoiseImages):
        return _log_mean(_score_under_noise(context, texts, score, prior))
    if isinstance(prior, FolderImages):
        refs, ids = load_prior_folder(prior)
        if examples is not None:
            _refuse_example_images(refs, ids, examples)
        return _log_mean(_score_under_images(context, texts, score, refs, ids))
    if examples is None or list(texts) != list(examples.texts):
        raise InputError(
            f"{option('prior', 'gallery')} is made of the examples' own images, and there are none "
            "here; take noise:3 or images:DIR."
        )
    return _compute_under_others(context, score, prior, examples)


def load_prior_folder(prior: FolderImages) -> tuple[list[ImageRef], list[str]]:
    """Draw the prior's images from a folder, each content once, with their content ids.

    Raises:
        InputError: there is no folder, too few images in it, or one that cannot be read.
    """
    folder = prior.folder
    if not folder.is_dir():
        raise InputError(f"is no folder of images for {option('prior')}.", file=folder)
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES and path.name[0] != "." and path.is_file()
    )
    count = prior.count or min(DEFAULT_SAMPLE, len(files))
    if not files or count > len(files):
        raise InputError(
            f"holds {len(files) or 'no'} images, and {option('prior')} needs "
            f"{prior.count or 'some'}.",
            file=folder,
        )
    drawn = np.sort(np.random.default_rng(prior.seed).permutation(len(files))[:count])
    images = distinct_images([ImageRef(str(files[i]), files[i]) for i in drawn.tolist()])
    if images.unreadable:
        first = next(iter(images.unreadable.values()))
        raise InputError(f"the prior cannot be made: {first.detail}.")
    return list(images.refs), list(images.ids)


def noise_key_suffix(noise: NoiseImages, model: object) -> str:
    """Return the suffix of a score's store key under noise."""
    mean, std = noise_statistics(noise, model)
    known = "" if mean is None else f":mean={mean:g}:std={std:g}"
    return f":noise:{noise.count}:seed={noise.seed}{known}"


def _refuse_example_images(
    refs: Sequence[ImageRef], ids: Sequence[str], examples: ScoringPlan
) -> None:
    """Refuse images that are also those of examples.

    Files are compared by their bytes, and with generated images by their pixels: a generated image
    that was saved to a file is still the same image.
    """
    example_ids = set(examples.image_ids)
    generated = [ref for ref in examples.images if ref.source is not None]
    pixels: set[bytes] = set()
    for start in range(0, len(generated), IMAGES_PER_BLOCK):
        pixels.update(map(_hash_pixels, open_images(generated[start : start + IMAGES_PER_BLOCK])))
    for ref, name in zip(refs, ids, strict=True):
        if name in example_ids or (pixels and _shows_any(ref, pixels)):
            raise NoPriorError(
                "is also an image of the examples that are asked, and a prior under an example's "
                "own images is none; take it out of the folder, or take noise:3 or gallery.",
                file=ref.path,
            )


def _shows_any(ref: ImageRef, pixels: set[bytes]) -> bool:
    """Whether an image has pixels that are known; one that cannot be decoded has none."""
    try:
        return _hash_pixels(open_image(ref)) in pixels
    except InputError:
        return False


def _hash_pixels(image: Image) -> bytes:
    content = f"{image.size}".encode() + image.convert("RGB").tobytes()
    return hashlib.blake2b(content, digest_size=16).digest()


def _score_under_noise(
    context: ScoringContext, texts: Sequence[str], score: str, noise: NoiseImages
) -> FloatArray:
    """Score captions under noise, (images, captions), in a table of its own."""
    pairs = _all_pairs(noise.count, len(texts))
    request = ScoreRequest(
        context, "prior", f"prior of {score}: pairs",
        context.table(score, noise_key_suffix(noise, context.model)),
        (), [f"noise {k}" for k in range(noise.count)],
        texts, compute_caption_ids(context, texts), pairs,
        build_pair_call(context, score), NoiseSource(context, noise),
        build_image_encoder(context, score, pairs),
    )  # fmt: skip
    return score_values(request).reshape(noise.count, len(texts))


def _score_under_images(
    context: ScoringContext,
    texts: Sequence[str],
    score: str,
    refs: Sequence[ImageRef],
    ids: Sequence[str],
) -> FloatArray:
    """Score captions under real images, (images, captions), in the examples' table."""
    pairs = _all_pairs(len(refs), len(texts))
    plan = ScoringPlan(tuple(refs), tuple(ids), tuple(texts), tuple(compute_text_ids(texts)), pairs)
    values = score_values(build_pair_request(context, score, plan))
    for name in ids:
        if name in context.skips.images:
            raise InputError(f"the prior cannot be made: {context.skips.images[name].detail}.")
    return values.reshape(len(refs), len(texts))


def _compute_under_others(
    context: ScoringContext, score: str, prior: OtherImages, examples: ScoringPlan
) -> FloatArray:
    """Compute (captions,) log mean under other examples' images, skipped ones left out."""
    pairs = draw_other_images(examples, prior.count, prior.seed)
    values = score_values(build_pair_request(context, score, replace(examples, pairs=pairs)))
    priors = np.full(len(examples.texts), np.nan)
    order = np.argsort(pairs[:, 1], kind="stable")
    caption, values = pairs[order, 1], values[order]
    for some in np.split(np.arange(len(caption)), np.flatnonzero(np.diff(caption)) + 1):
        known = values[some][~np.isnan(values[some])]
        if known.size:
            priors[caption[some[0]]] = log_prior(known)
    return priors


def _all_pairs(images: int, texts: int) -> IntArray:
    """Build all pairs, image after image."""
    return np.stack([np.repeat(np.arange(images), texts), np.tile(np.arange(texts), images)], 1)


def _log_mean(values: FloatArray) -> FloatArray:
    """Compute (captions,) log of the mean over images; NaN where a score is missing."""
    known = ~np.isnan(values).any(axis=0)
    priors = np.full(values.shape[1], np.nan)
    priors[known] = log_prior(values[:, known])
    return priors


class NoiseSource:
    """Noise images of a model, generated on first use."""

    def __init__(self, context: ScoringContext, noise: NoiseImages):
        self.context, self.noise = context, noise
        self.images: list[ImageLike] = []
        self.lock = Lock()

    def __call__(self, position: int) -> ImageLike:
        """Return the image at a position."""
        with self.lock:
            self.images = self.images or self._generate()
        return self.images[position]

    def _generate(self) -> list[ImageLike]:
        model, noise = cast(Captioner | Answerer, self.context.model), self.noise
        images = list(model.noise_images(noise.count, noise.seed))
        if len(images) != noise.count:
            raise ModelError(f"{model.name} made {len(images)} noise images of {noise.count}.")
        if noise.mean is None and noise.std is None:
            return images
        old, new = noise_statistics(NoiseImages(), model), noise_statistics(noise, model)
        return [_rescale_noise(image, old, new, model.name) for image in images]


def _rescale_noise(image: Any, old: tuple[Any, Any], new: tuple[Any, Any], name: str) -> Any:
    """Rescale noise to another mean and standard deviation, where it is normalized pixels."""
    if isinstance(image, Mapping) and PIXELS in image:
        return {**image, PIXELS: _rescale_noise(image[PIXELS], old, new, name)}
    if None in old or not hasattr(image, "ndim"):
        raise ModelError(
            f"{name} has noise of its own alone; leave out mean= and std= of {option('prior')}."
        )
    return (image - old[0]) / old[1] * new[1] + new[0]


def draw_other_images(examples: ScoringPlan, count: int | None, seed: int) -> IntArray:
    """Draw for every caption images of other examples, as (p, 2) image and caption.

    All captions take the first images of one shuffled list that are not excluded for them, so that
    few images are encoded. Excluded are all images that a caption is paired with in an example,
    matching or not: what is drawn does not reveal which of them match.

    Args:
        examples: plan of all examples.
        count: images per caption; None is 32, or all where there are fewer.
        seed: of the shuffle.

    Raises:
        NoPriorError: a caption has fewer images to draw from than it needs, or none.
    """
    readable = np.array(
        [name not in examples.unreadable for name in examples.image_ids], dtype=np.bool_
    )
    shuffled = np.random.default_rng(seed).permutation(len(examples.images))
    shuffled = shuffled[readable[shuffled]]
    excluded = np.bincount(examples.pairs[:, 1], minlength=len(examples.texts))
    most = DEFAULT_SAMPLE if count is None else count
    window = shuffled[: most + int(excluded.max(initial=0))]
    paired = examples.pairs[:, 0] * len(examples.texts) + examples.pairs[:, 1]
    pairs = []
    for start in range(0, len(examples.texts), CAPTIONS_PER_BLOCK):
        captions = np.arange(start, min(start + CAPTIONS_PER_BLOCK, len(examples.texts)))
        free = ~np.isin(window * len(examples.texts) + captions[:, None], paired)
        chosen = free & (np.cumsum(free, axis=1) <= most)
        fewest = int(chosen.sum(axis=1).argmin())
        _require_enough(int(chosen[fewest].sum()), count, examples.texts[start + fewest])
        caption, image = np.nonzero(chosen)
        pairs.append(np.stack([window[image], captions[caption]], axis=1))
    return np.concatenate(pairs)


def _require_enough(available: int, count: int | None, caption: str) -> None:
    if available >= (count or 1):
        return
    short = caption if len(caption) <= 40 else f"{caption[:40]}…"
    raise NoPriorError(
        f"{option('prior', 'gallery')} needs {count or 'some'} images of other examples, and "
        f"{short!r} has {available or 'none'}; ask more examples, or take noise:3 or images:DIR."
    )
