"""Embeddings of distinct images and captions, and the cosines of pairs of them.

Several vectors of an image lie end to end in one row, q · d numbers; a caption has d, which gives
their number. Cosines are computed in blocks of bounded memory, however many vectors there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine.batches import prepare_early, score_images_first, score_missing
from contrapose.engine.context import ScoringContext
from contrapose.engine.pace import report_phase
from contrapose.engine.part_origins import DamagedVectorsError
from contrapose.engine.plan import ScoringPlan, counting_tokens
from contrapose.engine.requests import build_caption_request, build_image_request
from contrapose.engine.store import AnswerTable
from contrapose.metrics import FloatArray, IntArray

T = TypeVar("T")

MAX_CELLS = 1 << 23
"""Numbers that one block of the work holds at the most."""

CACHED_CELLS = 1 << 18
"""The same where each is used once: what a processor's cache holds."""

HELD_CELLS = 1 << 27
"""Numbers of the vectors of images that are held while those of captions pass by."""


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Embeddings in the store.

    Attributes:
        table: the table that holds them.
        rows: the row of each; −1 for what was skipped.
    """

    table: AnswerTable
    rows: IntArray

    def read(self, start: int = 0, stop: int | None = None) -> FloatArray:
        """Read the unit vectors of some, (n, d); NaN for what was skipped."""
        return self.table.values(self.rows[start:stop], "vector")


def embed_distinct(
    context: ScoringContext, refs: Sequence[ImageRef], ids: Sequence[str], texts: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Embed distinct images and captions as (n, d) unit vectors; NaN for skipped ones.

    Several vectors of an image lie end to end, (n, q · d).
    """
    return _with_embeddings(
        context, refs, ids, texts, lambda images, captions: (images.read(), captions.read())
    )


def score_cosines(context: ScoringContext, plan: ScoringPlan) -> FloatArray:
    """Cosine of each pair of the plan, (p,); NaN for skipped pairs."""

    def compute(images: Embeddings, captions: Embeddings) -> FloatArray:
        with report_phase(context.progress, "cosines"):
            return pair_cosines(images, captions, plan.pairs)

    return _with_embeddings(context, plan.images, plan.image_ids, plan.texts, compute)


def _with_embeddings(
    context: ScoringContext,
    refs: Sequence[ImageRef],
    ids: Sequence[str],
    texts: Sequence[str],
    use: Callable[[Embeddings, Embeddings], T],
) -> T:
    """Embed what is missing, and use the embeddings of images and captions.

    Where a part turns out to be damaged, what it held is planned and embedded again, though an
    earlier request of the run has planned it.
    """
    while True:
        images, captions = _embed(context, refs, ids, texts)
        with suppress(DamagedVectorsError):
            return use(images, captions)
        if context.requests is not None:
            for embeddings in (images, captions):
                context.requests.pop(embeddings.table.folder, None)


def _embed(
    context: ScoringContext, refs: Sequence[ImageRef], ids: Sequence[str], texts: Sequence[str]
) -> tuple[Embeddings, Embeddings]:
    """Embed what is missing.

    Captions are embedded first: meanwhile threads decode images. Where processes do, images are
    first: meanwhile captions are tokenized, and embedded whenever the next images are not decoded
    yet.
    """
    of_images = build_image_request(context, refs, ids)
    if prepare_early(of_images):
        with counting_tokens(context, texts) as counted:
            image_rows, of_texts, text_rows = score_images_first(
                of_images, partial(build_caption_request, context, texts), counted
            )
    else:
        of_texts = build_caption_request(context, texts)
        text_rows, image_rows = score_missing(of_texts, of_images)
    return Embeddings(of_images.table, image_rows), Embeddings(of_texts.table, text_rows)


def pair_cosines(images: Embeddings, captions: Embeddings, pairs: IntArray) -> FloatArray:
    """Cosine of each pair in float64, (p,); the largest where an image has several vectors.

    Images are held block by block, while the vectors of their captions pass by.

    Args:
        images: n images.
        captions: m captions.
        pairs: (p, 2) positions in them.

    Raises:
        DamagedVectorsError: a vector is not as it was written.
    """
    cosines = np.full(len(pairs), np.nan)
    width = images.table.vector_width
    if not width or not captions.table.vector_width:  # not one of them has a vector
        return cosines
    step = max(1, HELD_CELLS // width)
    for start in range(0, len(images.rows), step):
        held = images.read(start, start + step)
        image = pairs[:, 0] - start
        order = np.flatnonzero((image >= 0) & (image < step))
        order = order[np.argsort(pairs[order, 1], kind="stable")]
        _fill_cosines(cosines, held, image, captions, pairs[:, 1], order)
    return cosines


def _fill_cosines(
    cosines: FloatArray,
    images: FloatArray,
    image: IntArray,
    captions: Embeddings,
    caption: IntArray,
    order: IntArray,
) -> None:
    """Fill in the cosines of pairs with the images that are held.

    Args:
        cosines: (p,) what is filled in.
        images: (n, q · d) the vectors of the images.
        image: (p,) row of each pair's image in them.
        captions: all captions.
        caption: (p,) position of each pair's caption in them.
        order: the pairs to fill in, sorted by caption.
    """
    asked, begins = np.unique(caption[order], return_index=True)
    ends = np.append(begins[1:], len(order))

    def fill(positions: IntArray, vectors: FloatArray) -> None:
        sizes = ends[positions] - begins[positions]
        row = np.repeat(np.arange(len(positions)), sizes)
        first = np.cumsum(sizes) - sizes
        chosen = order[np.arange(len(row)) + (begins[positions] - first)[row]]
        step = max(1, CACHED_CELLS // images.shape[1])
        for start in range(0, len(chosen), step):
            some, texts = chosen[start : start + step], vectors[row[start : start + step]]
            several = images[image[some]].astype(np.float64).reshape(len(some), -1, texts.shape[1])
            right = texts.astype(np.float64)
            cosines[some] = np.einsum("pqd,pd->pq", several, right).max(axis=1)

    captions.table.read_vectors(captions.rows[asked], fill)
