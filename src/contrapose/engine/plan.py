"""Scoring plan: every distinct image, caption and pair once, however many examples share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from contrapose.data import Example, ImageRef, content_id, text_id
from contrapose.data.images import IMAGE_WORKERS
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.scores.answers import find_distinct
from contrapose.scores.skips import Skip, unreadable_skip

FILES_PER_TASK = 32
"""Files that one thread reads in one go."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoringPlan:
    """Distinct images and captions, and the distinct pairs of them that examples need.

    Attributes:
        images: one reference for each distinct content.
        image_ids: their content ids.
        texts: distinct captions.
        text_ids: their content ids.
        pairs: (p, 2) positions in `images` and `texts`, in order of first appearance.
        places: for each asked cell the position of its pair; shaped as whoever made the plan
            laid it out, −1 where there is no pair.
        lost: images whose files cannot be read, by the ids they have here.
    """

    images: tuple[ImageRef, ...]
    image_ids: tuple[str, ...]
    texts: tuple[str, ...]
    text_ids: tuple[str, ...]
    pairs: IntArray
    places: IntArray
    lost: Mapping[str, Skip] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class DistinctImages:
    """Distinct images by content.

    Attributes:
        refs: one reference a content.
        ids: the contents' ids; an image that cannot be read has one that no content has.
        at: for each given reference its position.
        lost: what cannot be read, by id.
    """

    refs: list[ImageRef]
    ids: list[str]
    at: IntArray
    lost: Mapping[str, Skip]


def distinct_images(refs: Sequence[ImageRef]) -> DistinctImages:
    """Find the distinct images by content; unreadable ones are recorded as skips."""
    unique, slot_of = find_distinct(refs)
    files = [i for i, ref in enumerate(unique) if ref.source is None]
    parts = [
        [unique[i] for i in files[k : k + FILES_PER_TASK]]
        for k in range(0, len(files), FILES_PER_TASK)
    ]
    with ThreadPoolExecutor(IMAGE_WORKERS) as pool:
        read = [found for part in pool.map(_content_ids, parts) for found in part]
    of_file = dict(zip(files, read, strict=True))
    lost: dict[str, Skip] = {}
    position: dict[str, int] = {}
    kept: list[ImageRef] = []
    content = np.zeros(len(unique), dtype=np.int64)
    for i, ref in enumerate(unique):
        found = of_file[i] if ref.source is None else _content_id_or_skip(ref)
        if isinstance(found, Skip):
            lost[name := f"unreadable {ref.path} {ref.cell}"] = found
        else:
            name = found
        if name not in position:
            position[name] = len(kept)
            kept.append(ref)
        content[i] = position[name]
    return DistinctImages(kept, list(position), content[slot_of], lost)


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], IntArray]:
    """Find the distinct captions, and the index of each given one."""
    position = dict.fromkeys(texts)
    if len(position) == len(texts):
        return list(position), np.arange(len(texts))
    position = dict(zip(position, range(len(position)), strict=True))
    at = np.fromiter(map(position.__getitem__, texts), np.int64, len(texts))
    return list(position), at


def compute_text_ids(texts: Sequence[str]) -> list[str]:
    """Compute the captions' content ids."""
    return list(map(text_id, texts))


def plan_examples(examples: Sequence[Example]) -> ScoringPlan:
    """Plan the scores of examples; its places are k × m × n, padded to the largest shape."""
    images = distinct_images([ref for example in examples for ref in example.images])
    captions, text_at = distinct_texts([text for example in examples for text in example.texts])
    sizes = [len(example.images) for example in examples], [len(e.texts) for e in examples]
    shapes = np.array(sizes, dtype=np.int64).T
    before = np.cumsum(shapes, axis=0) - shapes
    cells = np.full((len(examples), *shapes.max(axis=0)), -1, dtype=np.int64)
    for m, n in np.unique(shapes, axis=0).tolist():
        alike = np.flatnonzero((shapes == (m, n)).all(axis=1))
        image = images.at[before[alike, 0, None] + np.arange(m)]
        text = text_at[before[alike, 1, None] + np.arange(n)]
        cells[alike, :m, :n] = image[:, :, None] * len(captions) + text[:, None, :]
    return _build_plan(images, captions, cells)


def plan_cells(refs: Sequence[ImageRef], texts: Sequence[str], pairs: IntArray) -> ScoringPlan:
    """Plan the scores of (p, 2) pairs of images and captions; its places are (p,)."""
    images = distinct_images(refs)
    captions, text_at = distinct_texts(texts)
    return _build_plan(
        images, captions, images.at[pairs[:, 0]] * len(captions) + text_at[pairs[:, 1]]
    )


def _content_ids(refs: Sequence[ImageRef]) -> list[str | Skip]:
    return [_content_id_or_skip(ref) for ref in refs]


def _content_id_or_skip(ref: ImageRef) -> str | Skip:
    try:
        return content_id(ref)
    except InputError as error:
        return unreadable_skip(error)


def _build_plan(images: DistinctImages, captions: list[str], cells: IntArray) -> ScoringPlan:
    """Number the distinct cells in order of first appearance."""
    there = cells >= 0
    asked = cells[there]
    places = np.full(cells.shape, -1, dtype=np.int64)
    texts = asked % max(len(captions), 1)
    if (texts[1:] > texts[:-1]).all():  # every caption is asked about once
        places[there] = np.arange(len(asked))
    else:
        codes, first, inverse = np.unique(asked, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        places[there] = rank[inverse]
        asked = codes[order]
    pairs = np.stack(np.divmod(asked, max(len(captions), 1)), axis=1)
    return ScoringPlan(
        images=tuple(images.refs),
        image_ids=tuple(images.ids),
        texts=tuple(captions),
        text_ids=tuple(compute_text_ids(captions)),
        pairs=pairs,
        places=places,
        lost=images.lost,
    )
