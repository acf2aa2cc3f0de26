"""In which order captions are learnt: each once an epoch, those of one image far apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def batches(owners: Rows, size: int, epochs: int, seed: int) -> Iterator[Rows]:
    """Rows of captions, `size` at a time, each `epochs` times in all.

    An epoch goes round the images, in a new order each time, and takes another caption of each: no
    image stands twice in a batch where there are at least `size` of them with captions left. So all
    other captions are negatives. What does not fill the last batch is left out.

    Args:
        owners: (m,) the image of each caption.
        size: captions a batch; at most m.
        epochs: how often each caption is seen.
        seed: of the order.
    """
    draw = np.random.default_rng(seed)
    size = min(size, len(owners))
    held: Rows = np.zeros(0, dtype=np.int64)
    for _ in range(epochs):
        for turn in _rounds(owners, draw):
            held = np.concatenate([held, _apart(turn, owners, held, size, draw)])
            while len(held) >= size:
                yield held[:size]
                held = held[size:]


def steps(captions: int, size: int, epochs: int) -> int:
    """How many batches there are."""
    return captions * epochs // min(size, captions)


def epochs_of(captions: int, size: int, count: int) -> int:
    """The fewest epochs that have so many batches."""
    return -(-count * min(size, captions) // captions)


def _rounds(owners: Rows, draw: np.random.Generator) -> Iterator[Rows]:
    """Each image's captions in a random order: all first ones, all second ones …, each shuffled."""
    shuffled = draw.permutation(len(owners))
    by_image = shuffled[np.argsort(owners[shuffled], kind="stable")]
    counts = np.bincount(owners)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.arange(len(owners)) - starts
    for turn in range(int(counts.max())):
        yield draw.permutation(by_image[places == turn])


def _apart(turn: Rows, owners: Rows, held: Rows, size: int, draw: np.random.Generator) -> Rows:
    """A round with the images that wait for the same batch put behind the others."""
    if not len(held):
        return turn
    twice = np.isin(owners[turn], owners[held])
    fresh, again = turn[~twice], turn[twice]
    room = size - len(held)
    # The rest is mixed again, so that the images that had to wait do not stay together.
    rest = draw.permutation(np.concatenate([fresh[room:], again]))
    return np.concatenate([fresh[:room], rest])
