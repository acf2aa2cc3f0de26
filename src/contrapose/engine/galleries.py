"""Scores of galleries: a matrix, re-ranking of large galleries, and text priors.

Galleries too large for every pair are re-ranked as ALBEF and BLIP do it: for every image the k
captions of highest `itc`, for every caption the k images, and only those are scored. The two ways
are two rankings: a pair that is near from the caption's side alone says nothing in the image's
ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from contrapose.arrays import find_distinct, normalize_rows
from contrapose.data import Gallery
from contrapose.engine.context import ScoringContext
from contrapose.engine.embeddings import MAX_CELLS, embed_distinct
from contrapose.engine.examples import score_pairs
from contrapose.engine.plan import (
    ScoringPlan,
    compute_caption_ids,
    compute_text_ids,
    distinct_images,
    plan_cells,
    truncation_notes,
)
from contrapose.engine.priors import compute_priors
from contrapose.engine.score_types import (
    OtherImages,
    Prior,
    describe_prior,
    require_score,
)
from contrapose.engine.videos import expand_gallery
from contrapose.errors import InputError, NoPriorError, option
from contrapose.metrics import BoolArray, FloatArray, log_prior
from contrapose.models import Encoder
from contrapose.scores import UNKNOWN_SKIP, ScoreMatrix, Skip

DEFAULT_RERANK = 16
"""Candidates of each query of a large gallery by default."""

SMALL_GALLERY = 100_000
"""Galleries with no more pairs are scored in full by default."""

MIN_PRIOR_IMAGES = 10
"""Images of a gallery that can be a prior: of fewer, too much of it is each image's own."""


def select_nearest(itc: FloatArray, k: int, axis: int) -> BoolArray:
    """Select for each query the k of highest score along the axis; ties go to the earlier.

    Where a row or a column is NaN there is nothing to rank, and nothing is chosen.
    """
    scores = np.moveaxis(np.where(np.isnan(itc), -np.inf, itc), axis, 1)
    k = min(k, scores.shape[1])
    chosen = np.zeros(scores.shape, dtype=np.bool_)
    for start in range(0, len(scores), 256):
        some = scores[start : start + 256]
        last = -np.partition(-some, k - 1, axis=1)[:, k - 1, None]
        above, equal = some > last, some == last
        room = k - above.sum(axis=1, keepdims=True)
        chosen[start : start + 256] = above | (equal & (np.cumsum(equal, axis=1) <= room))
    return np.asarray(np.moveaxis(chosen & np.isfinite(scores), 1, axis))


def rank_below(scores: FloatArray, itc: FloatArray, inside: BoolArray) -> FloatArray:
    """Keep selected scores, and rank everything else below the lowest of them by `itc`."""
    selected = scores[inside]
    lowest = selected[np.isfinite(selected)].min(initial=0.0)
    # Cosines lie in −1 … 1: two below the lowest, plus a cosine, is below it.
    return np.asarray(np.where(inside, scores, lowest - 2.0 + itc), dtype=np.float64)


def grid_cosines(images: FloatArray, texts: FloatArray) -> FloatArray:
    """Cosine of all images with all texts in float32, (n, m), blockwise in bounded memory."""
    width = texts.shape[1]
    several = images.shape[1] // width
    if several == 1:
        return np.asarray(images @ texts.T)
    cosines = np.empty((len(images), len(texts)), dtype=np.float32)
    step = max(1, MAX_CELLS // (several * len(texts)))
    for start in range(0, len(images), step):
        some = images[start : start + step]
        block = some.reshape(-1, width) @ texts.T
        cosines[start : start + step] = block.reshape(len(some), several, -1).max(axis=1)
    return cosines


def score_gallery(
    context: ScoringContext, score: str, gallery: Gallery, *, rerank: int | None = None
) -> ScoreMatrix:
    """Score images × texts; class names are averaged over the prompt templates.

    Args:
        context: the model, the store and the options.
        score: `itc` scores every pair; the others only the nearest by `itc` where `rerank` says so.
        gallery: the images and texts.
        rerank: candidates of each query; 0 scores every pair; None scores every pair of a small
            gallery, and 16 candidates of a large one when the model also gives `itc`.

    Raises:
        InputError: the model cannot give the score, or gives no `itc` to find the nearest by.
    """
    require_score(context.model, score)
    if score == "itc":
        return _score_cosines(context, gallery)
    rerank = _count_candidates(context, gallery, rerank)
    if not rerank:
        every = np.ones((len(gallery.images), len(gallery.texts)), dtype=np.bool_)
        return _build_matrix(
            context, score, gallery, _score_selected(context, score, gallery, every)
        )
    itc = _score_cosines(context, gallery).scores
    of_image, of_text = _select_candidates(itc, rerank, gallery)
    selected = of_image | of_text
    scores = _score_selected(context, score, gallery, selected)
    matrix = _build_matrix(context, score, gallery, np.where(selected, scores, itc))
    note = (
        f"{score} orders the {rerank} of highest itc of every query "
        f"({int(selected.sum()):,} of {selected.size:,} pairs); all others stay below them, by itc"
    )
    return ScoreMatrix(
        scores=rank_below(scores, itc, of_image),
        from_text=None if gallery.templates else rank_below(scores, itc, of_text),
        scored=selected,
        skipped_rows=matrix.skipped_rows,
        skipped_columns=matrix.skipped_columns,
        notes=(note, *matrix.notes),
        rerank=rerank,
    )


def score_gallery_share(
    context: ScoringContext, score: str, gallery: Gallery, *, rerank: int | None = None
) -> bool:
    """Score the shard's share of the batches that `score_gallery` cuts.

    Returns:
        Whether the whole share is scored. Which pairs are to be re-ranked is known only when the
        vectors of all shards are stored; where they are computed again, nobody knows it.

    Raises:
        InputError: as `score_gallery`.
    """
    require_score(context.model, score)
    if score == "itc":
        _embed_gallery(context, gallery)
        return True
    rerank = _count_candidates(context, gallery, rerank)
    if not rerank:
        selected = np.ones((len(gallery.images), len(gallery.texts)), dtype=np.bool_)
    else:
        vectors = _embed_gallery(context, gallery)
        if context.shard is not None and context.shard.waits_for("itc"):
            return False
        of_image, of_text = _select_candidates(
            _cosines(context, gallery, *vectors), rerank, gallery
        )
        selected = of_image | of_text
    _score_selected(context, score, gallery, selected)
    return not rerank or context.cache_use != "refresh"


def _count_candidates(context: ScoringContext, gallery: Gallery, rerank: int | None) -> int:
    """Candidates of each query that are re-ranked; 0 where every pair is scored.

    Raises:
        InputError: the model gives no `itc` to find the nearest by.
    """
    shape = len(gallery.images), len(gallery.texts)
    if rerank is None:
        large = shape[0] * shape[1] > SMALL_GALLERY and isinstance(context.model, Encoder)
        rerank = DEFAULT_RERANK if large else 0
    if rerank == 0 or rerank >= max(shape):
        return 0
    if not isinstance(context.model, Encoder):
        raise InputError(
            f"{option('rerank')} finds the nearest by itc, which {context.model.name} does not "
            f"give; {option('rerank', 0)} asks every pair."
        )
    return rerank


def _select_candidates(
    itc: FloatArray, rerank: int, gallery: Gallery
) -> tuple[BoolArray, BoolArray]:
    """Select the pairs to re-rank from the side of the images and from that of the texts."""
    of_text = select_nearest(itc, rerank, axis=0) & (not gallery.templates)
    return select_nearest(itc, rerank, axis=1), of_text


def _embed_gallery(context: ScoringContext, gallery: Gallery) -> tuple[FloatArray, FloatArray]:
    """Embed all images, or frames of videos, and all texts, class names in every template."""
    distinct = distinct_images(
        expand_gallery(context.model, gallery.images).images, context.content_id_reader()
    )
    context.skips.images.update(distinct.unreadable)
    captions, text_index = find_distinct(expand_prompts(gallery))
    images, words = embed_distinct(context, distinct.refs, distinct.ids, captions)
    return images[distinct.index], words[text_index]


def _cosines(
    context: ScoringContext, gallery: Gallery, images: FloatArray, words: FloatArray
) -> FloatArray:
    """Compute cosines of all images with all texts, or with the classes' prompt ensembles.

    That of a video is the mean of its frames' cosines, which is the cosine of their mean vector
    where a frame has one vector.
    """
    shape = len(gallery.images), len(gallery.texts)
    if not images.size or not words.size:
        return np.full(shape, np.nan)
    ensembles = normalize_rows(words.reshape(shape[1], -1, words.shape[1]).mean(axis=1))
    frames = expand_gallery(context.model, gallery.images)
    if images.shape[1] == ensembles.shape[1]:
        return grid_cosines(frames.average(images), ensembles)
    return frames.average(grid_cosines(images, ensembles))


def _score_cosines(context: ScoringContext, gallery: Gallery) -> ScoreMatrix:
    scores = _cosines(context, gallery, *_embed_gallery(context, gallery))
    return _build_matrix(context, "itc", gallery, scores)


def _score_selected(
    context: ScoringContext, score: str, gallery: Gallery, selected: BoolArray
) -> FloatArray:
    """Score the selected pairs, NaN elsewhere; frames and templates are averaged."""
    templates = len(gallery.templates or ("{}",))
    frames = expand_gallery(context.model, gallery.images)
    pairs, begins = frames.expand_pairs(np.argwhere(selected))
    texts = pairs[:, 1, None] * templates + np.arange(templates)
    cells = np.stack([np.repeat(pairs[:, 0], templates), texts.reshape(-1)], axis=1)
    plan = plan_cells(frames.images, expand_prompts(gallery), cells, context.content_id_reader())
    values = score_pairs(context, score, plan)[plan.pair_index].reshape(-1, templates).mean(axis=1)
    scores = np.full(selected.shape, np.nan)
    if len(begins):
        counts = np.diff([*begins, len(values)])
        scores[selected] = np.add.reduceat(values, begins) / counts
    return scores


def _build_matrix(
    context: ScoringContext, score: str, gallery: Gallery, scores: FloatArray
) -> ScoreMatrix:
    """Build the matrix with its skipped images and texts."""
    notes = truncation_notes(context, expand_prompts(gallery))
    holes = np.isnan(scores)
    if not holes.any():
        return ScoreMatrix(scores, notes=notes)
    frames = expand_gallery(context.model, gallery.images)
    distinct = distinct_images(frames.images, context.content_id_reader())
    frame_ids = [distinct.ids[i] for i in distinct.index.tolist()]
    image_ids = [_find_skipped(context, frame_ids[a:b]) for a, b in pairwise(frames.starts)]
    prompts = expand_prompts(gallery)
    templates = len(prompts) // len(gallery.texts)
    text_ids = compute_caption_ids(context, prompts)
    rows = {
        i: context.skips.images[image_ids[i]]
        for i in np.flatnonzero(holes.any(axis=1)).tolist()
        if image_ids[i] in context.skips.images
    }
    columns: dict[int, Skip] = {}
    for i, j in np.argwhere(holes).tolist():
        if i in rows or j in columns:
            continue
        of_text = text_ids[j * templates : (j + 1) * templates]
        reasons = (context.skips.why(score, image_ids[i], text) for text in of_text)
        columns[j] = next((skip for skip in reasons if skip is not None), UNKNOWN_SKIP)
    return ScoreMatrix(scores, skipped_rows=rows, skipped_columns=columns, notes=notes)


def _find_skipped(context: ScoringContext, ids: Sequence[str]) -> str:
    """First id that was skipped, or else the first: that of an image, or of a video's frames."""
    return next((name for name in ids if name in context.skips.images), ids[0])


def expand_prompts(gallery: Gallery) -> list[str]:
    """Expand a gallery's texts: class names in every template, captions unchanged."""
    templates = gallery.templates or ("{}",)
    return [template.replace("{}", text) for text in gallery.texts for template in templates]


def compute_gallery_prior(
    context: ScoringContext, score: str, full: Gallery, gallery: Gallery, matrix: ScoreMatrix
) -> FloatArray:
    """Compute (texts,) log P(T) of a gallery; class names are averaged over the templates.

    The gallery's own images cost nothing, since every pair is scored. All of them count for every
    text: to leave out the matching image would reveal which it is.

    Args:
        context: the model, the store, and the prior's images.
        score: `lm` or `vqa`.
        full: the gallery with what was skipped. All its texts are scored, so that batches do not
            depend on what was skipped.
        gallery: the gallery without it.
        matrix: the scores of the gallery.

    Raises:
        NoPriorError: not every pair was scored, there are too few images, or a text has no prior.
    """
    if matrix.scored is not None:
        raise NoPriorError(
            "a prior is taken out of every text of a gallery, and only the nearest were asked; "
            f"pass {option('rerank', 'all')}."
        )
    prior = context.prior
    if isinstance(prior, OtherImages):
        least = max(MIN_PRIOR_IMAGES, prior.count or 0)
        if len(gallery.images) < least:
            raise NoPriorError(
                f"{option('prior', 'gallery')} needs {least} images, and {gallery.id} has "
                f"{len(gallery.images)}; take noise:3 or images:DIR."
            )
        shuffled = np.random.default_rng(prior.seed).permutation(len(gallery.images))
        return log_prior(matrix.scores[shuffled[: prior.count]])
    flat = score_gallery_texts(context, score, full)
    every = flat.reshape(len(full.texts), -1).mean(axis=1)
    position = {text: i for i, text in enumerate(full.texts)}
    priors: FloatArray = every[[position[text] for text in gallery.texts]]
    if np.isnan(priors).any():
        text = gallery.texts[int(np.isnan(priors).argmax())]
        raise NoPriorError(f"the text {text!r} has no prior.")
    return priors


def score_gallery_texts(context: ScoringContext, score: str, gallery: Gallery) -> FloatArray:
    """Compute log P(T) of a gallery's texts in every template, under noise or a folder's images."""
    images = distinct_images(
        expand_gallery(context.model, gallery.images).images, context.content_id_reader()
    )
    captions, index = find_distinct(expand_prompts(gallery))
    plan = ScoringPlan(
        tuple(images.refs), tuple(images.ids), tuple(captions), tuple(compute_text_ids(captions)),
        pairs=np.zeros((0, 2), dtype=np.int64),
    )  # fmt: skip
    return compute_priors(context, captions, score, plan)[index]


def describe_gallery_prior(prior: Prior, model: object, gallery: Gallery) -> str:
    """Describe a gallery's prior with all that determines its value."""
    if not isinstance(prior, OtherImages):
        return describe_prior(prior, model)
    if prior.count is None:
        return f"all {len(gallery.images):,} images of the gallery"
    return f"{prior.count:,} images of the gallery, seed {prior.seed}"
