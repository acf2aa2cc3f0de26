"""Scoring plan: every distinct image, caption and pair once, however many examples share it.

Token counts are kept in the store, so that a second run need not tokenize. A caption that the model
truncates has a content id of its own: its score is never taken for one of the full caption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.data import Example, ImageRef, text_id
from contrapose.data.example_columns import ExampleColumns, first_appearances
from contrapose.data.ref_columns import FileColumn, RefColumn, take_refs
from contrapose.data.text_columns import ContentIds, TextColumn
from contrapose.engine.content_ids import ContentIdReader, content_id_or_skip
from contrapose.engine.pair_index import PairIds
from contrapose.errors import option
from contrapose.metrics import IntArray
from contrapose.models import TokenCounter
from contrapose.models.masking.text import full_caption
from contrapose.scores import Skip

if TYPE_CHECKING:
    from contrapose.engine.context import ScoringContext

IMAGES_PER_BLOCK, MOST_BLOCKS = 1 << 16, 256
"""Images of a column that are objects at a time, and the largest number of such blocks: each may
read the table of content ids, which is not held whole when it is very large."""

FILES_PER_BLOCK = 1 << 20
"""Files of a column whose ids are texts at a time."""

TOKEN_COUNTS = "tokens"  # noqa: S105 - a name in the store
"""Name of the table of token counts."""

CAPTIONS_AHEAD = 1 << 16
"""Captions whose tokens are counted while images are scored; of more the counting takes long."""

CAPTIONS_PER_COUNT = 4096
"""Captions that are tokenized in one call."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoringPlan:
    """Distinct images and captions, and the distinct pairs of them that examples need.

    Attributes:
        images: one reference for each distinct content.
        image_ids: their content ids.
        texts: distinct captions.
        text_ids: their content ids.
        pairs: (p, 2) positions in `images` and `texts`, in order of first appearance.
        pair_index: for each cell of the examples the position of its pair in `pairs`; −1 where
            the cell is padding.
        unreadable: images whose files cannot be read, by the ids they have here.
    """

    images: Sequence[ImageRef]
    image_ids: Sequence[str]
    texts: Sequence[str]
    text_ids: Sequence[str]
    pairs: IntArray
    pair_index: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unreadable: Mapping[str, Skip] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class DistinctImages:
    """Distinct images by content.

    Attributes:
        refs: one reference for each content.
        ids: content ids; an image that cannot be read has an id that no content has.
        index: for each given reference the position of its content.
        unreadable: images that cannot be read, by id.
    """

    refs: Sequence[ImageRef]
    ids: Sequence[str]
    index: IntArray
    unreadable: Mapping[str, Skip]


def distinct_images(
    refs: Sequence[ImageRef], reader: ContentIdReader | None = None
) -> DistinctImages:
    """Find the distinct images by content; unreadable ones are recorded as skips.

    Args:
        refs: the images.
        reader: reads the content ids of files; None computes all.
    """
    reader = reader or ContentIdReader()
    if isinstance(refs, RefColumn):
        return _distinct_contents(refs, _read_ids(refs, reader))
    unique, unique_of = find_distinct(refs)
    files = [ref for ref in unique if ref.source is None]
    of_files = iter(reader.content_ids(files))
    names = [next(of_files) if ref.source is None else content_id_or_skip(ref) for ref in unique]
    images = _distinct_contents(unique, names)
    return replace(images, index=images.index[unique_of])


def _read_ids(refs: RefColumn, reader: ContentIdReader) -> Sequence[str | Skip]:
    """Content ids of a column of images, of which few are objects at a time."""
    most = FILES_PER_BLOCK if isinstance(refs, FileColumn) else IMAGES_PER_BLOCK
    size = max(most, -(-len(refs) // MOST_BLOCKS))
    blocks: list[Sequence[str | Skip]] = []
    for start in range(0, len(refs), size):
        names: Sequence[str | Skip]
        if isinstance(refs, FileColumn):
            names = reader.content_ids(refs.span(start, start + size))
        else:
            some = refs[start : start + size]
            made = any(ref.source is not None for ref in some)
            names = list(map(content_id_or_skip, some)) if made else reader.content_ids(some)
        blocks.append(_as_column(names))
    words = [block.words for block in blocks if isinstance(block, ContentIds)]
    if len(words) == len(blocks):
        return ContentIds(np.concatenate(words))
    return list(chain.from_iterable(blocks))


def _as_column(names: Sequence[str | Skip]) -> Sequence[str | Skip]:
    """Content ids as a column; as they are where one is a skip."""
    if isinstance(names, ContentIds):
        return names
    ids = [name for name in names if isinstance(name, str)]
    return ContentIds.of(ids) if len(ids) == len(names) else names


def _distinct_contents(refs: Sequence[ImageRef], names: Sequence[str | Skip]) -> DistinctImages:
    """Distinct images by the content ids of all."""
    if isinstance(names, ContentIds):
        first, index = names.find_distinct()
        if first is None:
            return DistinctImages(refs, names, index, {})
        return DistinctImages(take_refs(refs, first), names.take(first), index, {})
    unreadable: dict[str, Skip] = {}
    ids: list[str] = []
    for i, name in enumerate(names):
        if isinstance(name, Skip):
            ref = refs[i]
            ids.append(f"unreadable {ref.path or ref.source} {ref.cell}")
            unreadable[ids[-1]] = name
        else:
            ids.append(name)
    distinct, of_distinct = find_distinct(ids)
    index = of_distinct.astype(np.int64)
    return DistinctImages(take_refs(refs, first_appearances(index)), distinct, index, unreadable)


def compute_text_ids(texts: Sequence[str]) -> Sequence[str]:
    """Compute the captions' content ids; those of a column are computed once."""
    if isinstance(texts, TextColumn):
        return texts.ids
    blake2b = hashlib.blake2b  # as `text_id`, without a call for each of a million captions
    return [blake2b(text.encode(), digest_size=16).hexdigest() for text in texts]


def plan_examples(
    examples: Sequence[Example], reader: ContentIdReader | None = None
) -> ScoringPlan:
    """Plan the scores of examples; the pair index is k × m × n, padded to the largest shape.

    Args:
        examples: the examples.
        reader: reads the content ids of image files; None computes all.
    """
    if isinstance(examples, ExampleColumns):
        images = distinct_images(examples.refs, reader)
        images = replace(images, index=images.index[examples.images])
        captions, text_index = _distinct_texts(examples.texts)
        shapes = examples.shapes()
    else:
        images = distinct_images([ref for example in examples for ref in example.images], reader)
        texts = [text for example in examples for text in example.texts]
        captions, text_index = find_distinct(texts)
        sizes = [len(example.images) for example in examples], [len(e.texts) for e in examples]
        shapes = np.array(sizes, dtype=np.int64).T
    before = np.cumsum(shapes, axis=0) - shapes
    cells = np.full((len(examples), *shapes.max(axis=0)), -1, dtype=np.int64)
    codes = shapes[:, 0] * (shapes[:, 1].max() + 1) + shapes[:, 1]
    for code in np.unique(codes).tolist():
        alike = np.flatnonzero(codes == code)
        m, n = shapes[alike[0]].tolist()
        image = images.index[before[alike, 0, None] + np.arange(m)]
        text = text_index[before[alike, 1, None] + np.arange(n)]
        cells[alike, :m, :n] = image[:, :, None] * len(captions) + text[:, None, :]
    return _build_plan(images, captions, cells)


def plan_cells(
    refs: Sequence[ImageRef],
    texts: Sequence[str],
    pairs: IntArray,
    reader: ContentIdReader | None = None,
) -> ScoringPlan:
    """Plan the scores of (p, 2) pairs of images and captions; the pair index is (p,)."""
    images = distinct_images(refs, reader)
    captions, text_index = _distinct_texts(texts)
    cells = images.index[pairs[:, 0]]
    cells *= len(captions)
    cells += pairs[:, 1] if captions is texts else text_index[pairs[:, 1]]
    del text_index
    return _build_plan(images, captions, cells)


def _distinct_texts(texts: Sequence[str]) -> tuple[Sequence[str], IntArray]:
    """Distinct captions in order of first appearance, and which of them each caption is."""
    return texts.find_distinct() if isinstance(texts, TextColumn) else find_distinct(texts)


def _build_plan(images: DistinctImages, captions: Sequence[str], cells: IntArray) -> ScoringPlan:
    """Number the distinct cells in order of first appearance."""
    present = cells >= 0
    everywhere = bool(present.all())  # few arrays are made of a hundred million cells
    codes = cells.reshape(-1) if everywhere else cells[present]
    width = max(len(captions), 1)
    if _increases(codes) or _increases(codes % width):  # no pair occurs twice
        if everywhere:
            pair_index = np.arange(len(codes)).reshape(cells.shape)
        else:
            pair_index = np.full(cells.shape, -1, dtype=np.int64)
            pair_index[present] = np.arange(len(codes))
    else:
        pair_index = np.full(cells.shape, -1, dtype=np.int64)
        distinct, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        pair_index[present] = rank[inverse]
        codes = distinct[order]
    pairs = np.empty((len(codes), 2), dtype=np.int64)
    np.floor_divide(codes, width, out=pairs[:, 0])
    np.remainder(codes, width, out=pairs[:, 1])
    return ScoringPlan(
        images=images.refs,
        image_ids=images.ids,
        texts=captions,
        text_ids=compute_text_ids(captions),
        pairs=pairs,
        pair_index=pair_index,
        unreadable=images.unreadable,
    )


def _increases(numbers: IntArray) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def text_only_pairs(count: int) -> IntArray:
    """Build the pairs of position 0 with each of so many captions."""
    return np.stack([np.zeros(count, dtype=np.int64), np.arange(count)], axis=1)


def count_tokens(context: ScoringContext, texts: Sequence[str]) -> IntArray:
    """Count the tokens of each caption, or words where the model does not count tokens."""
    model = context.model
    if not isinstance(model, TokenCounter):
        return np.array([len(text.split()) for text in texts], dtype=np.int64)
    table = context.store.table(model.fingerprint, TOKEN_COUNTS)
    ids, pairs = compute_text_ids(texts), text_only_pairs(len(texts))
    rows = table.find(("",), ids, pairs)
    missing = np.flatnonzero(rows < 0).tolist()
    counts: list[int] = []
    for start in range(0, len(missing), CAPTIONS_PER_COUNT):
        # Blank captions are refused elsewhere, and not every tokenizer takes them.
        some = [
            texts[i] if texts[i].strip() else "."
            for i in missing[start : start + CAPTIONS_PER_COUNT]
        ]
        counts += map(int, model.token_counts(some))
    result = np.zeros(len(texts), dtype=np.int64)
    result[rows >= 0] = table.values(rows[rows >= 0])
    result[missing] = counts
    if missing and context.cache_use != "only":  # the store may not be writable then
        new = PairIds.take(("",), ids, pairs[missing])
        table.add_rows(new, {"value": np.array(counts, np.float64)})
    return result


@contextmanager
def counting_tokens(
    context: ScoringContext, texts: Sequence[str]
) -> Iterator[Future[IntArray] | None]:
    """Count the tokens of captions in a thread meanwhile; `count_tokens` finds them afterwards.

    Of very many captions none is counted: an interrupted program would wait for the thread.

    Yields:
        The counts when they are known; None where nothing is counted.
    """
    if len(texts) > CAPTIONS_AHEAD:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(count_tokens, context, texts)
        yield counting
        counting.result()


def find_truncated(context: ScoringContext, texts: Sequence[str]) -> list[int]:
    """Find the captions that the model truncates."""
    model = context.model
    if not isinstance(model, TokenCounter) or not model.cuts:
        return []
    return np.flatnonzero(count_tokens(context, texts) > model.context).tolist()


def truncation_notes(context: ScoringContext, texts: Iterable[str]) -> tuple[str, ...]:
    """Return a note on truncated captions for the results; each distinct caption counts once."""
    model = context.model
    if not isinstance(model, TokenCounter) or not model.cuts:
        return ()
    distinct = list(dict.fromkeys(texts))
    count = len(find_truncated(context, distinct))
    if not count:
        return ()
    were = "were" if count > 1 else "was"
    return (f"{count:,} of {len(distinct):,} captions {were} cut to {model.context} tokens",)


def compute_caption_ids(
    context: ScoringContext, texts: Sequence[str], ids: Sequence[str] | None = None
) -> Sequence[str]:
    """Compute the captions' ids in the store; truncated captions have ids of their own.

    Args:
        context: the model and the store.
        texts: the captions.
        ids: their content ids, where these are computed already.
    """
    ids = compute_text_ids(texts) if ids is None else ids
    truncated = find_truncated(context, texts)
    if not truncated or not isinstance(context.model, TokenCounter):
        return ids
    stored = list(ids)
    for i in truncated:
        stored[i] = text_id(f"{texts[i]}\0cut to {context.model.context}")
    return stored


def find_unreadable_captions(
    context: ScoringContext, texts: Sequence[str], lengths: IntArray
) -> dict[int, Skip]:
    """Find captions that cannot be scored: empty, or too long and not to be truncated."""
    skips = {
        i: Skip("the caption is empty", "a caption is empty")
        for i, text in enumerate(texts)
        if not text.strip()
    }
    model = context.model
    if isinstance(model, TokenCounter) and not model.cuts:
        for i in np.flatnonzero(lengths > model.context).tolist():
            skip = Skip(
                "the caption is longer than the model reads",
                f"the caption {full_caption(texts[i])[:40]!r}… has {lengths[i]:,} tokens; "
                f"{model.name} reads {model.context} ({option('long', 'cut')} cuts it)",
            )
            skips.setdefault(i, skip)
    return skips
