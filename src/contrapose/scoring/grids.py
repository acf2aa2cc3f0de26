"""A model's answers to galleries and edit queries: a matrix, and what is missing in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from contrapose.data import EditSet, Gallery
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray
from contrapose.models import Encoder
from contrapose.scoring.ask import vectors
from contrapose.scoring.asking import Asking
from contrapose.scoring.cosines import grid_cosines
from contrapose.scoring.lengths import caption_ids, cut_note
from contrapose.scoring.plan import distinct_images, distinct_texts, plan_cells, text_ids_of
from contrapose.scoring.rerank import DEFAULT, SMALL, below, nearest
from contrapose.scoring.scores import pools, require_score
from contrapose.scoring.skips import UNKNOWN, Skip
from contrapose.scoring.values import pair_values


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
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


def ask_gallery(asking: Asking, score: str, gallery: Gallery, *, rerank: int | None = None) -> Grid:
    """Images × texts. Class names stand in every template, whose vectors or scores are averaged.

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
        return _cosines(asking, gallery)
    shape = len(gallery.images), len(gallery.texts)
    if rerank is None:
        large = shape[0] * shape[1] > SMALL and isinstance(asking.model, Encoder)
        rerank = DEFAULT if large else 0
    if rerank == 0 or rerank >= max(shape):
        every = np.ones(shape, dtype=np.bool_)
        return _grid(asking, score, gallery, _pair_scores(asking, score, gallery, every))
    if not isinstance(asking.model, Encoder):
        raise InputError(
            f"--rerank finds the nearest by itc, which {asking.model.name} does not give; "
            "--rerank 0 asks every pair."
        )
    itc = _cosines(asking, gallery).scores
    of_image = nearest(itc, rerank, axis=1)
    of_text = nearest(itc, rerank, axis=0) & (not gallery.templates)
    asked = of_image | of_text
    scores = _pair_scores(asking, score, gallery, asked)
    grid = _grid(asking, score, gallery, np.where(asked, scores, itc))
    note = (
        f"{score} orders the {rerank} of highest itc of every query "
        f"({int(asked.sum()):,} of {asked.size:,} pairs); all others stay below them, by itc"
    )
    return Grid(
        scores=below(scores, itc, of_image),
        from_text=None if gallery.templates else below(scores, itc, of_text),
        asked=asked,
        rows=grid.rows,
        columns=grid.columns,
        notes=(note, *grid.notes),
        rerank=rerank,
    )


def ask_edits(asking: Asking, score: str, edits: EditSet) -> Grid:
    """Queries × database: cosine of E(image) + E(target) − E(source) with every image.

    Raises:
        InputError: the score is not `itc`, or the model gives an image several vectors.
    """
    require_score(asking.model, score)
    if score != "itc":
        raise InputError(f"edit queries need vectors: score itc, not {score}.")
    if pools(asking.model):
        raise InputError(
            f"edit queries add one vector an image, and {asking.model.name} gives several; ask "
            "another model."
        )
    seen = distinct_images(edits.images)
    asking.skips.images.update(seen.lost)
    captions, text_at = distinct_texts(
        [word for query in edits.queries for word in (query.source, query.target)]
    )
    images, words = vectors(asking, seen.refs, seen.ids, captions)
    images, words = images[seen.at], words[text_at]
    text_ids = caption_ids(asking, captions, text_ids_of(captions))
    columns = {
        i: asking.skips.images.get(seen.ids[seen.at[i]], UNKNOWN)
        for i in np.flatnonzero(_absent(images)).tolist()
    }
    unread = _absent(words)
    rows: dict[int, Skip] = {}
    for q, query in enumerate(edits.queries):
        for word in (2 * q, 2 * q + 1):
            if unread[word]:
                named = "itc", text_ids[text_at[word]]
                rows[q] = asking.skips.texts.get(named, UNKNOWN)
        if query.image in columns:
            rows[q] = columns[query.image]
    notes = cut_note(asking, captions)
    shape = len(edits.queries), len(edits.images)
    if not images.size or not words.size:
        return Grid(np.full(shape, np.nan), rows=rows, columns=columns, notes=notes)
    source, target = words.reshape(len(edits.queries), 2, -1).transpose(1, 0, 2)
    start = images[[query.image for query in edits.queries]]
    scores = np.asarray(_unit(start + (target - source)) @ images.T)
    return Grid(scores, rows=rows, columns=columns, notes=notes)


def _cosines(asking: Asking, gallery: Gallery) -> Grid:
    """Cosines of all images with all texts, or with the ensembles of the classes' prompts."""
    seen = distinct_images(gallery.images)
    asking.skips.images.update(seen.lost)
    captions, text_at = distinct_texts(prompts_of(gallery))
    images, words = vectors(asking, seen.refs, seen.ids, captions)
    images, words = images[seen.at], words[text_at]
    shape = len(gallery.images), len(gallery.texts)
    if not images.size or not words.size:
        return _grid(asking, "itc", gallery, np.full(shape, np.nan))
    ensembles = _unit(words.reshape(shape[1], -1, words.shape[1]).mean(axis=1))
    return _grid(asking, "itc", gallery, grid_cosines(images, ensembles))


def _pair_scores(asking: Asking, score: str, gallery: Gallery, asked: BoolArray) -> FloatArray:
    """The score of the chosen pairs, NaN elsewhere; of class names the mean over the templates."""
    each = len(gallery.templates or ("{}",))
    pairs = np.argwhere(asked)
    texts = pairs[:, 1, None] * each + np.arange(each)
    cells = np.stack([np.repeat(pairs[:, 0], each), texts.reshape(-1)], axis=1)
    plan = plan_cells(gallery.images, prompts_of(gallery), cells)
    asking.skips.images.update(plan.lost)
    values = pair_values(asking, score, plan)[plan.places]
    found = np.full(asked.shape, np.nan)
    found[asked] = values.reshape(-1, each).mean(axis=1)
    return found


def _grid(asking: Asking, score: str, gallery: Gallery, scores: FloatArray) -> Grid:
    """The grid, and what was skipped in it: images, texts, and where neither, the text."""
    notes = cut_note(asking, prompts_of(gallery))
    holes = np.isnan(scores)
    if not holes.any():
        return Grid(scores, notes=notes)
    seen = distinct_images(gallery.images)
    prompts = prompts_of(gallery)
    each = len(prompts) // len(gallery.texts)
    ids = caption_ids(asking, prompts, text_ids_of(prompts))
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
        columns[j] = next((skip for skip in found if skip is not None), UNKNOWN)
    return Grid(scores, rows=rows, columns=columns, notes=notes)


def prompts_of(gallery: Gallery) -> list[str]:
    """What is read of a gallery's texts: class names in every template, captions as they are."""
    templates = gallery.templates or ("{}",)
    return [template.replace("{}", text) for text in gallery.texts for template in templates]


def _absent(vectors: FloatArray) -> BoolArray:
    """Which of the vectors are none."""
    if not vectors.shape[1]:
        return np.ones(len(vectors), dtype=np.bool_)
    return np.asarray(np.isnan(vectors).any(axis=1))


def _unit(vectors: FloatArray) -> FloatArray:
    length = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)
