"""Captions asked under images that say nothing about them: what a prior is made of.

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
from contrapose.errors import InputError
from contrapose.files import IMAGE_SUFFIXES
from contrapose.metrics import FloatArray, IntArray, log_prior
from contrapose.models import Answerer, Captioner
from contrapose.scoring.ask import asked, pair_call, pair_question
from contrapose.scoring.asking import Asking
from contrapose.scoring.calls import ModelError
from contrapose.scoring.lengths import caption_ids
from contrapose.scoring.others import others_of
from contrapose.scoring.plan import Plan, distinct_images, text_ids_of
from contrapose.scoring.priors import (
    SAMPLE,
    FolderImages,
    Noise,
    OtherImages,
    noise_name,
    noise_statistics,
)
from contrapose.scoring.question import Question

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture


def prior_values(
    asking: Asking, texts: Sequence[str], score: str = "lm", examples: Plan | None = None
) -> FloatArray:
    """(n,) log P(T) of distinct captions under the images of `asking.prior`.

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
    if isinstance(prior, Noise):
        return _mean(_under_noise(asking, texts, score, prior))
    if isinstance(prior, FolderImages):
        refs, ids = folder_images(prior)
        if examples is not None:
            _refuse_own(refs, ids, examples)
        return _mean(_under_images(asking, texts, score, refs, ids))
    if examples is None or list(texts) != list(examples.texts):
        raise InputError(
            "--prior gallery is made of the examples' own images, and there are none here; take "
            "noise:3 or images:DIR."
        )
    return _under_others(asking, score, prior, examples)


def folder_images(prior: FolderImages) -> tuple[list[ImageRef], list[str]]:
    """The images of a folder that make the prior, each content once, and their content ids.

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
    wanted = prior.count or min(SAMPLE, len(files))
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


def _refuse_own(refs: Sequence[ImageRef], ids: Sequence[str], examples: Plan) -> None:
    own = set(examples.image_ids)
    for ref, name in zip(refs, ids, strict=True):
        if name in own:
            raise InputError(
                "is also an image of the examples that are asked, and a prior under an example's "
                "own images is none; take it out of the folder, or take noise:3 or gallery.",
                file=ref.path,
            )


def _under_noise(asking: Asking, texts: Sequence[str], score: str, noise: Noise) -> FloatArray:
    """(images, captions) under noise, which has a shelf of its own."""
    pairs = _every(noise.count, len(texts))
    question = Question(
        asking, "prior", f"prior of {score}: pairs",
        asking.shelf(score, noise_name(noise, asking.model)),
        (), [f"noise {k}" for k in range(noise.count)],
        texts, caption_ids(asking, texts, text_ids_of(texts)), pairs,
        pair_call(asking, score, pairs, named="prior"), Blank(asking, noise),
    )  # fmt: skip
    (rows,) = asked(question)
    return question.shelf.values(rows).reshape(noise.count, len(texts))


def _under_images(
    asking: Asking, texts: Sequence[str], score: str, refs: Sequence[ImageRef], ids: Sequence[str]
) -> FloatArray:
    """(images, captions) under real images; they stand where those of examples do."""
    pairs = _every(len(refs), len(texts))
    plan = Plan(
        tuple(refs), tuple(ids), tuple(texts), tuple(text_ids_of(texts)), pairs, np.zeros(0, int)
    )
    values = _asked(asking, score, plan).reshape(len(refs), len(texts))
    for name in ids:
        if name in asking.skips.images:
            raise InputError(f"the prior cannot be made: {asking.skips.images[name].detail}.")
    return values


def _under_others(asking: Asking, score: str, prior: OtherImages, examples: Plan) -> FloatArray:
    """(captions,) the log of the mean under other examples' images; lost ones do not count."""
    pairs = others_of(examples, prior.count, prior.seed)
    values = _asked(asking, score, _with_pairs(examples, pairs))
    found = np.full(len(examples.texts), np.nan)
    order = np.argsort(pairs[:, 1], kind="stable")
    caption, values = pairs[order, 1], values[order]
    for some in np.split(np.arange(len(caption)), np.flatnonzero(np.diff(caption)) + 1):
        known = values[some][~np.isnan(values[some])]
        if known.size:
            found[caption[some[0]]] = log_prior(known)
    return found


def _asked(asking: Asking, score: str, plan: Plan) -> FloatArray:
    question = pair_question(asking, score, plan)
    (rows,) = asked(question)
    return question.shelf.values(rows)


def _with_pairs(plan: Plan, pairs: IntArray) -> Plan:
    return Plan(plan.images, plan.image_ids, plan.texts, plan.text_ids, pairs, np.zeros(0, int))


def _every(images: int, texts: int) -> IntArray:
    """All pairs, image after image."""
    return np.stack([np.repeat(np.arange(images), texts), np.tile(np.arange(texts), images)], 1)


def _mean(values: FloatArray) -> FloatArray:
    """(captions,) the log of the mean over images; NaN where one has no answer."""
    known = ~np.isnan(values).any(axis=0)
    found = np.full(values.shape[1], np.nan)
    found[known] = log_prior(values[:, known])
    return found


class Blank:
    """Noise images, made when the first of them is asked about."""

    def __init__(self, asking: Asking, noise: Noise):
        self.asking, self.noise = asking, noise
        self.made: list[Picture] = []
        self.lock = Lock()

    def __call__(self, position: int) -> Picture:
        """The image at a position."""
        with self.lock:
            self.made = self.made or self._make()
        return self.made[position]

    def _make(self) -> list[Picture]:
        model, noise = cast(Captioner | Answerer, self.asking.model), self.noise
        made = list(model.noise_images(noise.count, noise.seed))
        if len(made) != noise.count:
            raise ModelError(f"{model.name} made {len(made)} noise images of {noise.count}.")
        if noise.mean is None and noise.std is None:
            return made
        own = noise_statistics(Noise(), model)
        new = noise_statistics(noise, model)
        return [_rescaled(image, own, new, model.name) for image in made]


def _rescaled(image: Any, own: tuple[Any, Any], new: tuple[Any, Any], name: str) -> Any:
    """Noise with another mean and standard deviation, where pixels are one tensor."""
    if None in own or not hasattr(image, "ndim"):
        raise ModelError(f"{name} has noise of its own alone; leave out mean= and std= of --prior.")
    return (image - own[0]) / own[1] * new[1] + new[0]
