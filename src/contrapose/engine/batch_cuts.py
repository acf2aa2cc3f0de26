"""Order and cuts of batches: pure functions of the pairs that a plan holds."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np

from contrapose.metrics import BoolArray, IntArray

GROUPS_PER_BLOCK = 1 << 18
"""Groups whose ends are Python numbers at a time."""


def sort_pairs(pairs: IntArray, lengths: IntArray) -> IntArray:
    """Sort pairs for scoring: by image, images with captions of like length next to each other.

    The captions of one image stand together, so that it is encoded once; images whose captions are
    of like length stand together, so that little is padded.

    Args:
        pairs: (p, 2) image and caption.
        lengths: of the captions.
    """
    if not len(pairs):
        return np.zeros(0, dtype=np.int64)
    image, text = pairs.T
    longest = np.zeros(image.max() + 1, dtype=np.int64)
    np.maximum.at(longest, image, lengths[text])
    rank = np.empty_like(longest)
    rank[np.argsort(-longest, kind="stable")] = np.arange(len(rank))
    top = int(longest.max())
    if len(rank) * (top + 1) * len(lengths) >= 1 << 63:
        return np.lexsort((text, -lengths[text], rank[image]))
    key = rank[image]  # one number for each pair: a sort of several columns takes far more memory
    key *= top + 1
    key += top
    key -= lengths[text]
    key *= len(lengths)
    key += text
    if (key[1:] >= key[:-1]).all():
        return np.arange(len(key))
    return np.argsort(key, kind="stable")


def cut_batches(groups: IntArray, size: int) -> list[IntArray]:
    """Cut a list into batches of at most `size`, keeping a group in one batch where it fits.

    Args:
        groups: for each item of the list its group; members stand together.
        size: largest batch.

    Returns:
        Positions in the list, batch by batch. Two successive batches hold more than `size`.
    """
    ends = np.append(np.flatnonzero(groups[1:] != groups[:-1]) + 1, len(groups))
    blocks = (
        ends[k : k + GROUPS_PER_BLOCK].tolist() for k in range(0, len(ends), GROUPS_PER_BLOCK)
    )
    cuts = [0]
    start = last = 0  # where the batch begins, and the end of the last group that fits in it
    for end in chain.from_iterable(blocks):
        if end - start > size and last > start:
            cuts.append(last)
            start = last
        while end - start > size:
            start += size
            cuts.append(start)
        last = end
    if len(groups) > cuts[-1]:
        cuts.append(len(groups))
    return [np.arange(a, b) for a, b in pairwise(cuts)]


def pack_missing(
    batches: list[IntArray], missing: BoolArray, size: int, stored: BoolArray | None = None
) -> list[IntArray]:
    """Keep what is missing of each batch; merge what is left of those that are stored in part.

    Batches of which nothing is stored stay as they are, whichever others are done. Where another
    benchmark has filled most of them, what is left would make many small ones.

    Args:
        batches: positions, batch by batch.
        missing: for each position whether it must be scored.
        size: largest batch.
        stored: for each position whether its score is stored; None where all that is not missing
            is. A pair that is skipped is neither.
    """
    stored = ~missing if stored is None else stored
    packed: list[list[IntArray]] = []
    rests: list[IntArray] = []
    for batch in batches:
        rest = batch[missing[batch]]
        if not rest.size:
            continue
        if not stored[batch].any():
            packed.append([rest])
        elif rests and sum(map(len, rests)) + rest.size <= size:
            rests.append(rest)
        else:
            rests = [rest]
            packed.append(rests)
    return [np.concatenate(parts) for parts in packed]
