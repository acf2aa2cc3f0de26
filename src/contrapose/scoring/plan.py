"""What must be asked: every image, caption and pair once, however many examples share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data import Example, ImageRef, content_ids, text_id
from contrapose.metrics import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Distinct images and captions, and the distinct pairs of them that examples ask about.

    Attributes:
        images: one reference for each distinct content.
        image_ids: their content ids.
        texts: distinct captions.
        text_ids: their content ids.
        pairs: (p, 2) positions in `images` and `texts`, in order of first appearance.
        places: for each asked cell the position of its pair; shaped as whoever made the plan
            laid it out, −1 where there is no pair.
    """

    images: tuple[ImageRef, ...]
    image_ids: tuple[str, ...]
    texts: tuple[str, ...]
    text_ids: tuple[str, ...]
    pairs: IntArray
    places: IntArray


def distinct_images(refs: Sequence[ImageRef]) -> tuple[list[ImageRef], list[str], IntArray]:
    """One reference a content, the contents' ids, and for each reference its position."""
    ids = content_ids(refs)
    position = {name: i for i, name in enumerate(dict.fromkeys(ids))}
    first = {name: ref for ref, name in zip(reversed(refs), reversed(ids), strict=True)}
    where = np.array([position[name] for name in ids], dtype=np.int64)
    return [first[name] for name in position], list(position), where


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], IntArray]:
    """Each caption once, and for each given one its position."""
    position = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(position), np.array([position[text] for text in texts], dtype=np.int64)


def plan_examples(examples: Sequence[Example]) -> Plan:
    """The plan of examples; its places are k × m × n, padded to the largest shape."""
    refs = [ref for example in examples for ref in example.images]
    texts = [text for example in examples for text in example.texts]
    images, image_ids, image_at = distinct_images(refs)
    captions, text_at = distinct_texts(texts)
    m = max(example.shape[0] for example in examples)
    n = max(example.shape[1] for example in examples)
    cells = np.full((len(examples), m, n), -1, dtype=np.int64)
    row = column = 0
    for k, example in enumerate(examples):
        rows, columns = example.shape
        cells[k, :rows, :columns] = (
            image_at[row : row + rows, None] * len(captions)
            + text_at[None, column : column + columns]
        )
        row, column = row + rows, column + columns
    return _planned(images, image_ids, captions, cells)


def plan_grid(refs: Sequence[ImageRef], texts: Sequence[str]) -> Plan:
    """The plan of every image with every caption; its places are images × captions."""
    images, image_ids, image_at = distinct_images(refs)
    captions, text_at = distinct_texts(texts)
    cells = image_at[:, None] * len(captions) + text_at[None, :]
    return _planned(images, image_ids, captions, cells)


def _planned(
    images: list[ImageRef], image_ids: list[str], captions: list[str], cells: IntArray
) -> Plan:
    """Number the distinct cells in order of first appearance."""
    asked = cells[cells >= 0]
    codes, first, inverse = np.unique(asked, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    places = np.full(cells.shape, -1, dtype=np.int64)
    places[cells >= 0] = rank[inverse]
    pairs = np.stack(np.divmod(codes[order], max(len(captions), 1)), axis=1)
    return Plan(
        images=tuple(images),
        image_ids=tuple(image_ids),
        texts=tuple(captions),
        text_ids=tuple(text_id(text) for text in captions),
        pairs=pairs,
        places=places,
    )
