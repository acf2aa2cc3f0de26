"""The priors of a gallery's texts."""

from __future__ import annotations

import numpy as np

from contrapose.data import Gallery
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, log_prior
from contrapose.scoring.asking import Asking
from contrapose.scoring.grids import Grid, prompts_of
from contrapose.scoring.plan import Plan, distinct_images, distinct_texts, text_ids_of
from contrapose.scoring.prior_values import prior_values
from contrapose.scoring.priors import OtherImages, Prior, prior_words

FEWEST = 10
"""Images of a gallery that can be a prior: of fewer, too much of it is each image's own."""


def gallery_prior(asking: Asking, score: str, gallery: Gallery, grid: Grid) -> FloatArray:
    """(texts,) log P(T); of class names the mean over the templates.

    The gallery's own images cost nothing, every pair is known. All of them count for every text: to
    leave out the image that a text belongs to would tell which it is.

    Raises:
        InputError: not every pair was asked, there are too few images, or a text has no prior.
    """
    if grid.asked is not None:
        raise InputError(
            "a prior is taken out of every text of a gallery, and only the nearest were asked; "
            "pass --rerank all."
        )
    prior = asking.prior
    if isinstance(prior, OtherImages):
        if len(gallery.images) < max(FEWEST, prior.count or 0):
            raise InputError(
                f"--prior gallery needs {max(FEWEST, prior.count or 0)} images, and {gallery.id} "
                f"has {len(gallery.images)}; take noise:3 or images:DIR."
            )
        shuffled = np.random.default_rng(prior.seed).permutation(len(gallery.images))
        return log_prior(grid.scores[shuffled[: prior.count]])
    images = distinct_images(gallery.images)
    captions, at = distinct_texts(prompts_of(gallery))
    nothing = np.zeros((0, 2), dtype=np.int64)
    own = Plan(
        tuple(images.refs), tuple(images.ids), tuple(captions), tuple(text_ids_of(captions)),
        nothing, nothing,
    )  # fmt: skip
    flat = prior_values(asking, captions, score, own)[at]
    found = flat.reshape(len(gallery.texts), -1).mean(axis=1)
    if np.isnan(found).any():
        raise InputError(f"the text {gallery.texts[int(np.isnan(found).argmax())]!r} has no prior.")
    return np.asarray(found)


def gallery_prior_words(prior: Prior, model: object, gallery: Gallery) -> str:
    """The prior in words that say all that decides it."""
    if not isinstance(prior, OtherImages):
        return prior_words(prior, model)
    if prior.count is None:
        return f"all {len(gallery.images):,} images of the gallery"
    return f"{prior.count:,} images of the gallery, seed {prior.seed}"
