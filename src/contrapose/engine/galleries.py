"""Scores of galleries and edit queries: a matrix, re-ranking of large galleries, and text priors.

Galleries too large for every pair are re-ranked as ALBEF and BLIP do it: for every image the k
captions of highest `itc`, for every caption the k images, and only those are scored. The two ways
are two rankings: a pair that is near from the caption's side alone says nothing in the image's
ranking.

As ALBEF and BLIP do it: for every image the k captions of highest `itc`, for every caption the k
images, and only those are asked. The two ways are two rankings: a pair that is near from the
caption's side alone says nothing in the image's ranking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from contrapose.data import EditSet, Gallery
from contrapose.engine.context import ScoringContext
from contrapose.engine.examples import grid_cosines, score_pairs
from contrapose.engine.plan import (
    ScoringPlan,
    compute_text_ids,
    distinct_images,
    distinct_texts,
    plan_cells,
)
from contrapose.engine.prior_images import OtherImages, Prior, describe_prior
from contrapose.engine.priors import compute_priors
from contrapose.engine.score_types import has_pooling, require_score
from contrapose.engine.scoring import compute_caption_ids, embed_distinct, truncation_notes
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, log_prior
from contrapose.models import Encoder
from contrapose.scores.skips import UNKNOWN_SKIP, Skip

DEFAULT_RERANK = 16
"""Of each query, when the user does not say."""

SMALL_GALLERY = 100_000
"""Galleries with no more pairs are asked whole, when the user does not say."""


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
    asked = scores[inside]
    lowest = asked[np.isfinite(asked)].min(initial=0.0)
    # Cosines lie in −1 … 1: two below the lowest, plus a cosine, is below it.
    return np.asarray(np.where(inside, scores, lowest - 2.0 + itc), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMatrix:
    """Scores of every image with every text, or of every edit query with every image.

    Attributes:
        scores: images × texts (queries × images); NaN in the lines that were skipped.
        from_text: the same to rank images by, where that is another ranking; None where not.
        asked: the pairs that the model was asked; None when it was all of them.
        rows: images (queries) that were skipped, and why.
        columns: texts (images) that were skipped, and why.
        notes: what the reader of the results should know.
        rerank: how many of each query were asked; 0 when it was all.
    """

    scores: FloatArray
    from_text: FloatArray | None = None
    asked: BoolArray | None = None
    rows: Mapping[int, Skip] = field(default_factory=dict)
    columns: Mapping[int, Skip] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rerank: int = 0


def score_gallery(
    asking: ScoringContext, score: str, gallery: Gallery, *, rerank: int | None = None
) -> ScoreMatrix:
    """Score images × texts; class names are averaged over the prompt templates.

    Args:
        asking: who is asked, and how.
        score: `itc` compares everything; the others ask the nearest by `itc` where `rerank` says.
        gallery: what is asked about.
        rerank: how many of each query; 0 asks every pair; None asks every pair of a small gallery,
            and 16 of each query of a large one when the model also gives `itc`.

    Raises:
        InputError: the model cannot give the score, or gives no `itc` to find the nearest by.
    """
    require_score(asking.model, score)
    if score == "itc":
        return _score_cosines(asking, gallery)
    shape = len(gallery.images), len(gallery.texts)
    if rerank is None:
        large = shape[0] * shape[1] > SMALL_GALLERY and isinstance(asking.model, Encoder)
        rerank = DEFAULT_RERANK if large else 0
    if rerank == 0 or rerank >= max(shape):
        every = np.ones(shape, dtype=np.bool_)
        return _build_matrix(asking, score, gallery, _score_selected(asking, score, gallery, every))
    if not isinstance(asking.model, Encoder):
        raise InputError(
            f"--rerank finds the nearest by itc, which {asking.model.name} does not give; "
            "--rerank 0 asks every pair."
        )
    itc = _score_cosines(asking, gallery).scores
    of_image = select_nearest(itc, rerank, axis=1)
    of_text = select_nearest(itc, rerank, axis=0) & (not gallery.templates)
    asked = of_image | of_text
    scores = _score_selected(asking, score, gallery, asked)
    grid = _build_matrix(asking, score, gallery, np.where(asked, scores, itc))
    note = (
        f"{score} orders the {rerank} of highest itc of every query "
        f"({int(asked.sum()):,} of {asked.size:,} pairs); all others stay below them, by itc"
    )
    return ScoreMatrix(
        scores=rank_below(scores, itc, of_image),
        from_text=None if gallery.templates else rank_below(scores, itc, of_text),
        asked=asked,
        rows=grid.rows,
        columns=grid.columns,
        notes=(note, *grid.notes),
        rerank=rerank,
    )


def score_edits(asking: ScoringContext, score: str, edits: EditSet) -> ScoreMatrix:
    """Score queries × database: cosine of E(image) + λ·(E(target) − E(source)) with every image.

    Raises:
        InputError: the score is not `itc`, or the model gives an image several vectors.
    """
    require_score(asking.model, score)
    if score != "itc":
        raise InputError(f"edit queries need vectors: score itc, not {score}.")
    if has_pooling(asking.model):
        raise InputError(
            f"edit queries add one vector an image, and {asking.model.name} gives several; ask "
            "another model."
        )
    seen = distinct_images(edits.images)
    asking.skips.images.update(seen.lost)
    captions, text_at = distinct_texts(
        [word for query in edits.queries for word in (query.source, query.target)]
    )
    images, words = embed_distinct(asking, seen.refs, seen.ids, captions)
    images, words = images[seen.at], words[text_at]
    text_ids = compute_caption_ids(asking, captions, compute_text_ids(captions))
    columns = {
        i: asking.skips.images.get(seen.ids[seen.at[i]], UNKNOWN_SKIP)
        for i in np.flatnonzero(_is_missing(images)).tolist()
    }
    unread = _is_missing(words)
    rows: dict[int, Skip] = {}
    for q, query in enumerate(edits.queries):
        for word in (2 * q, 2 * q + 1):
            if unread[word]:
                named = "itc", text_ids[text_at[word]]
                rows[q] = asking.skips.texts.get(named, UNKNOWN_SKIP)
        if query.image in columns:
            rows[q] = columns[query.image]
    notes = truncation_notes(asking, captions)
    shape = len(edits.queries), len(edits.images)
    if not images.size or not words.size:
        return ScoreMatrix(np.full(shape, np.nan), rows=rows, columns=columns, notes=notes)
    source, target = words.reshape(len(edits.queries), 2, -1).transpose(1, 0, 2)
    start = images[[query.image for query in edits.queries]]
    scores = np.asarray(_normalize_rows(start + edits.scale * (target - source)) @ images.T)
    return ScoreMatrix(scores, rows=rows, columns=columns, notes=notes)


def _score_cosines(asking: ScoringContext, gallery: Gallery) -> ScoreMatrix:
    """Compute cosines of all images with all texts, or with the classes' prompt ensembles."""
    seen = distinct_images(gallery.images)
    asking.skips.images.update(seen.lost)
    captions, text_at = distinct_texts(expand_prompts(gallery))
    images, words = embed_distinct(asking, seen.refs, seen.ids, captions)
    images, words = images[seen.at], words[text_at]
    shape = len(gallery.images), len(gallery.texts)
    if not images.size or not words.size:
        return _build_matrix(asking, "itc", gallery, np.full(shape, np.nan))
    ensembles = _normalize_rows(words.reshape(shape[1], -1, words.shape[1]).mean(axis=1))
    return _build_matrix(asking, "itc", gallery, grid_cosines(images, ensembles))


def _score_selected(
    asking: ScoringContext, score: str, gallery: Gallery, asked: BoolArray
) -> FloatArray:
    """Score the selected pairs, NaN elsewhere; class names are averaged over the templates."""
    each = len(gallery.templates or ("{}",))
    pairs = np.argwhere(asked)
    texts = pairs[:, 1, None] * each + np.arange(each)
    cells = np.stack([np.repeat(pairs[:, 0], each), texts.reshape(-1)], axis=1)
    plan = plan_cells(gallery.images, expand_prompts(gallery), cells)
    asking.skips.images.update(plan.lost)
    values = score_pairs(asking, score, plan)[plan.places]
    found = np.full(asked.shape, np.nan)
    found[asked] = values.reshape(-1, each).mean(axis=1)
    return found


def _build_matrix(
    asking: ScoringContext, score: str, gallery: Gallery, scores: FloatArray
) -> ScoreMatrix:
    """Build the matrix with its skipped images and texts."""
    notes = truncation_notes(asking, expand_prompts(gallery))
    holes = np.isnan(scores)
    if not holes.any():
        return ScoreMatrix(scores, notes=notes)
    seen = distinct_images(gallery.images)
    prompts = expand_prompts(gallery)
    each = len(prompts) // len(gallery.texts)
    ids = compute_caption_ids(asking, prompts, compute_text_ids(prompts))
    rows = {
        i: asking.skips.images[seen.ids[seen.at[i]]]
        for i in np.flatnonzero(holes.any(axis=1)).tolist()
        if seen.ids[seen.at[i]] in asking.skips.images
    }
    columns: dict[int, Skip] = {}
    for i, j in np.argwhere(holes).tolist():
        if i in rows or j in columns:
            continue
        image = seen.ids[seen.at[i]]
        named = ids[j * each : (j + 1) * each]
        found = (asking.skips.why(score, image, text) for text in named)
        columns[j] = next((skip for skip in found if skip is not None), UNKNOWN_SKIP)
    return ScoreMatrix(scores, rows=rows, columns=columns, notes=notes)


def expand_prompts(gallery: Gallery) -> list[str]:
    """Expand a gallery's texts: class names in every template, captions unchanged."""
    templates = gallery.templates or ("{}",)
    return [template.replace("{}", text) for text in gallery.texts for template in templates]


def _is_missing(vectors: FloatArray) -> BoolArray:
    """Return which vectors are missing (NaN)."""
    if not vectors.shape[1]:
        return np.ones(len(vectors), dtype=np.bool_)
    return np.asarray(np.isnan(vectors).any(axis=1))


def _normalize_rows(vectors: FloatArray) -> FloatArray:
    length = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)


MIN_PRIOR_IMAGES = 10
"""Images of a gallery that can be a prior: of fewer, too much of it is each image's own."""


def compute_gallery_prior(
    asking: ScoringContext, score: str, gallery: Gallery, grid: ScoreMatrix
) -> FloatArray:
    """Compute (texts,) log P(T) of a gallery; class names are averaged over the templates.

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
        if len(gallery.images) < max(MIN_PRIOR_IMAGES, prior.count or 0):
            raise InputError(
                f"--prior gallery needs {max(MIN_PRIOR_IMAGES, prior.count or 0)} images, and "
                f"{gallery.id} "
                f"has {len(gallery.images)}; take noise:3 or images:DIR."
            )
        shuffled = np.random.default_rng(prior.seed).permutation(len(gallery.images))
        return log_prior(grid.scores[shuffled[: prior.count]])
    images = distinct_images(gallery.images)
    captions, at = distinct_texts(expand_prompts(gallery))
    nothing = np.zeros((0, 2), dtype=np.int64)
    own = ScoringPlan(
        tuple(images.refs), tuple(images.ids), tuple(captions), tuple(compute_text_ids(captions)),
        nothing, nothing,
    )  # fmt: skip
    flat = compute_priors(asking, captions, score, own)[at]
    found = flat.reshape(len(gallery.texts), -1).mean(axis=1)
    if np.isnan(found).any():
        raise InputError(f"the text {gallery.texts[int(np.isnan(found).argmax())]!r} has no prior.")
    return np.asarray(found)


def describe_gallery_prior(prior: Prior, model: object, gallery: Gallery) -> str:
    """Describe a gallery's prior in words that say all that decides it."""
    if not isinstance(prior, OtherImages):
        return describe_prior(prior, model)
    if prior.count is None:
        return f"all {len(gallery.images):,} images of the gallery"
    return f"{prior.count:,} images of the gallery, seed {prior.seed}"
