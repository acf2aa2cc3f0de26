"""Caption priors: the log of the mean probability under the prior's images.

Every caption is scored under every image of the prior as a pair of its own, image after image, so
that each is encoded once. Real images are scored as those of the examples are, and cached in the
same table.

Every caption is asked under every image of the prior as a pair of its own, image after image, so
that each is looked at once; the log of the mean probability is taken from the answers. Real images
are asked as those of the examples are, and found in the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.plan import ScoringPlan, compute_text_ids, distinct_images
from contrapose.engine.prior_images import (
    DEFAULT_SAMPLE,
    FolderImages,
    NoiseImages,
    OtherImages,
    draw_other_images,
    noise_key_suffix,
    noise_statistics,
)
from contrapose.engine.score_types import ModelError
from contrapose.engine.scoring import (
    build_pair_call,
    build_pair_request,
    compute_caption_ids,
    score_missing,
)
from contrapose.errors import InputError
from contrapose.files import IMAGE_SUFFIXES
from contrapose.metrics import FloatArray, IntArray, log_prior
from contrapose.models import Answerer, Captioner

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike


def compute_priors(
    asking: ScoringContext,
    texts: Sequence[str],
    score: str = "lm",
    examples: ScoringPlan | None = None,
) -> FloatArray:
    """Compute (n,) log P(T) of distinct captions under the images of `asking.prior`.

    NaN for captions that cannot be asked.

    Args:
        asking: who is asked, and how.
        texts: distinct captions; those of `examples`, where these are given.
        score: `lm`, or `vqa` for the prior of an answer.
        examples: the plan of all that is asked, whose images are not to be a prior of their own
            captions. Where it is left out, the images are not known.

    Raises:
        InputError: there are no images, one cannot be read or is an example's own.
    """
    prior = asking.prior
    if isinstance(prior, NoiseImages):
        return _log_mean(_score_under_noise(asking, texts, score, prior))
    if isinstance(prior, FolderImages):
        refs, ids = load_prior_folder(prior)
        if examples is not None:
            _refuse_example_images(refs, ids, examples)
        return _log_mean(_score_under_images(asking, texts, score, refs, ids))
    if examples is None or list(texts) != list(examples.texts):
        raise InputError(
            "--prior gallery is made of the examples' own images, and there are none here; take "
            "noise:3 or images:DIR."
        )
    return _compute_under_others(asking, score, prior, examples)


def load_prior_folder(prior: FolderImages) -> tuple[list[ImageRef], list[str]]:
    """Draw the prior's images from a folder, each content once, with their content ids.

    Raises:
        InputError: there is no folder, too few images in it, or one that cannot be read.
    """
    folder = prior.folder
    if not folder.is_dir():
        raise InputError("is no folder of images for --prior.", file=folder)
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES and path.name[0] != "." and path.is_file()
    )
    wanted = prior.count or min(DEFAULT_SAMPLE, len(files))
    if not files or wanted > len(files):
        raise InputError(
            f"holds {len(files) or 'no'} images, and --prior needs {prior.count or 'some'}.",
            file=folder,
        )
    drawn = np.sort(np.random.default_rng(prior.seed).permutation(len(files))[:wanted])
    found = distinct_images([ImageRef(str(files[i]), files[i]) for i in drawn.tolist()])
    if found.lost:
        raise InputError(f"the prior cannot be made: {next(iter(found.lost.values())).detail}.")
    return found.refs, found.ids


def _refuse_example_images(
    refs: Sequence[ImageRef], ids: Sequence[str], examples: ScoringPlan
) -> None:
    own = set(examples.image_ids)
    for ref, name in zip(refs, ids, strict=True):
        if name in own:
            raise InputError(
                "is also an image of the examples that are asked, and a prior under an example's "
                "own images is none; take it out of the folder, or take noise:3 or gallery.",
                file=ref.path,
            )


def _score_under_noise(
    asking: ScoringContext, texts: Sequence[str], score: str, noise: NoiseImages
) -> FloatArray:
    """Score captions under noise, (images, captions), in a table of its own."""
    pairs = _all_pairs(noise.count, len(texts))
    question = ScoreRequest(
        asking, "prior", f"prior of {score}: pairs",
        asking.answer_table(score, noise_key_suffix(noise, asking.model)),
        (), [f"noise {k}" for k in range(noise.count)],
        texts, compute_caption_ids(asking, texts, compute_text_ids(texts)), pairs,
        build_pair_call(asking, score, pairs, named="prior"), NoiseSource(asking, noise),
    )  # fmt: skip
    (rows,) = score_missing(question)
    return question.answer_table.values(rows).reshape(noise.count, len(texts))


def _score_under_images(
    asking: ScoringContext,
    texts: Sequence[str],
    score: str,
    refs: Sequence[ImageRef],
    ids: Sequence[str],
) -> FloatArray:
    """Score captions under real images, (images, captions), in the examples' table."""
    pairs = _all_pairs(len(refs), len(texts))
    plan = ScoringPlan(
        tuple(refs),
        tuple(ids),
        tuple(texts),
        tuple(compute_text_ids(texts)),
        pairs,
        np.zeros(0, int),
    )
    values = _score_plan(asking, score, plan).reshape(len(refs), len(texts))
    for name in ids:
        if name in asking.skips.images:
            raise InputError(f"the prior cannot be made: {asking.skips.images[name].detail}.")
    return values


def _compute_under_others(
    asking: ScoringContext, score: str, prior: OtherImages, examples: ScoringPlan
) -> FloatArray:
    """Compute (captions,) log mean under other examples' images, skipped ones left out."""
    pairs = draw_other_images(examples, prior.count, prior.seed)
    values = _score_plan(asking, score, _replace_pairs(examples, pairs))
    found = np.full(len(examples.texts), np.nan)
    order = np.argsort(pairs[:, 1], kind="stable")
    caption, values = pairs[order, 1], values[order]
    for some in np.split(np.arange(len(caption)), np.flatnonzero(np.diff(caption)) + 1):
        known = values[some][~np.isnan(values[some])]
        if known.size:
            found[caption[some[0]]] = log_prior(known)
    return found


def _score_plan(asking: ScoringContext, score: str, plan: ScoringPlan) -> FloatArray:
    question = build_pair_request(asking, score, plan)
    (rows,) = score_missing(question)
    return question.answer_table.values(rows)


def _replace_pairs(plan: ScoringPlan, pairs: IntArray) -> ScoringPlan:
    return ScoringPlan(
        plan.images, plan.image_ids, plan.texts, plan.text_ids, pairs, np.zeros(0, int)
    )


def _all_pairs(images: int, texts: int) -> IntArray:
    """Build all pairs, image after image."""
    return np.stack([np.repeat(np.arange(images), texts), np.tile(np.arange(texts), images)], 1)


def _log_mean(values: FloatArray) -> FloatArray:
    """Compute (captions,) log of the mean over images; NaN where a score is missing."""
    known = ~np.isnan(values).any(axis=0)
    found = np.full(values.shape[1], np.nan)
    found[known] = log_prior(values[:, known])
    return found


class NoiseSource:
    """Noise images of a model, generated on first use."""

    def __init__(self, asking: ScoringContext, noise: NoiseImages):
        self.asking, self.noise = asking, noise
        self.made: list[ImageLike] = []
        self.lock = Lock()

    def __call__(self, position: int) -> ImageLike:
        """Return the image at a position."""
        with self.lock:
            self.made = self.made or self._make()
        return self.made[position]

    def _make(self) -> list[ImageLike]:
        model, noise = cast(Captioner | Answerer, self.asking.model), self.noise
        made = list(model.noise_images(noise.count, noise.seed))
        if len(made) != noise.count:
            raise ModelError(f"{model.name} made {len(made)} noise images of {noise.count}.")
        if noise.mean is None and noise.std is None:
            return made
        own = noise_statistics(NoiseImages(), model)
        new = noise_statistics(noise, model)
        return [_rescale_noise(image, own, new, model.name) for image in made]


def _rescale_noise(image: Any, own: tuple[Any, Any], new: tuple[Any, Any], name: str) -> Any:
    """Rescale noise to another mean and standard deviation, where pixels are one tensor."""
    if None in own or not hasattr(image, "ndim"):
        raise ModelError(f"{name} has noise of its own alone; leave out mean= and std= of --prior.")
    return (image - own[0]) / own[1] * new[1] + new[0]
