"""In which order things are asked, and which of them together.

Batches are cut from all that the plan holds, not from what happens to be missing: a run that was
killed and taken up again asks the same batches, so that its numbers are the same to the last bit.
The longest captions come first: should memory run out, it does so at once.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from contrapose.metrics import BoolArray, IntArray


def order_of(pairs: IntArray, lengths: IntArray) -> IntArray:
    """Positions of the pairs in the order of asking.

    The captions of one image stand together, so that it is encoded once; images whose captions are
    of like length stand together, so that little is padded.

    Args:
        pairs: (p, 2) image and caption.
        lengths: of the captions.
    """
    if not len(pairs):
        return np.zeros(0, dtype=np.int64)
    image, length = pairs[:, 0], lengths[pairs[:, 1]]
    longest = np.zeros(image.max() + 1, dtype=np.int64)
    np.maximum.at(longest, image, length)
    return np.lexsort((pairs[:, 1], -length, image, -longest[image]))


def cut(groups: IntArray, size: int) -> list[IntArray]:
    """Cut a list into batches of at most `size`, a group's members in one batch where they fit.

    Args:
        groups: for each place in the list its group; members stand together.
        size: the most of a batch.

    Returns:
        Places, batch by batch. Two batches that follow each other hold more than `size`.
    """
    ends = [*(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
    cuts = [0]
    start = last = 0  # where the batch begins, and the end of the last group that fits in it
    for end in ends:
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


def left(batches: list[IntArray], missing: BoolArray, size: int) -> list[IntArray]:
    """What is missing of each batch; neighbours that fit together are asked together.

    Batches of which nothing was asked yet stay as they are. Where another benchmark has filled
    most of them, what is left would make many small ones.

    Args:
        batches: positions, batch by batch.
        missing: for each position whether it must be asked.
        size: the most of a batch.
    """
    packed: list[list[IntArray]] = []
    held = 0
    for batch in batches:
        rest = batch[missing[batch]]
        if not rest.size:
            continue
        if not packed or held + rest.size > size:
            packed.append([])
            held = 0
        packed[-1].append(rest)
        held += rest.size
    return [np.concatenate(parts) for parts in packed]
