"""Which of a benchmark's own images a caption's prior is taken under: never its own example's."""

from __future__ import annotations

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.scoring.plan import Plan
from contrapose.scoring.priors import SAMPLE

AT_ONCE = 4096
"""Captions whose images are drawn in one go."""


def others_of(examples: Plan, count: int | None, seed: int) -> IntArray:
    """(p, 2) image and caption: for every caption images of examples that it does not stand in.

    All captions take the first that are left to them of one shuffled list, so that few images are
    looked at. A caption's own images are all that it is asked with, whether it is right or wrong
    there: nothing is told of which is which.

    Args:
        examples: the plan of all examples.
        count: how many for each caption; None takes 32, or all where there are fewer.
        seed: of the shuffle.

    Raises:
        InputError: a caption has fewer to take than it needs, or none.
    """
    seen = np.array([name not in examples.lost for name in examples.image_ids], dtype=np.bool_)
    shuffled = np.random.default_rng(seed).permutation(len(examples.images))
    shuffled = shuffled[seen[shuffled]]
    own = np.bincount(examples.pairs[:, 1], minlength=len(examples.texts))
    most = SAMPLE if count is None else count
    window = shuffled[: most + int(own.max(initial=0))]
    taken = examples.pairs[:, 0] * len(examples.texts) + examples.pairs[:, 1]
    found = []
    for start in range(0, len(examples.texts), AT_ONCE):
        captions = np.arange(start, min(start + AT_ONCE, len(examples.texts)))
        free = ~np.isin(window * len(examples.texts) + captions[:, None], taken)
        chosen = free & (np.cumsum(free, axis=1) <= most)
        fewest = int(chosen.sum(axis=1).argmin())
        _require(int(chosen[fewest].sum()), count, examples.texts[start + fewest])
        caption, place = np.nonzero(chosen)
        found.append(np.stack([window[place], captions[caption]], axis=1))
    return np.concatenate(found)


def _require(found: int, count: int | None, caption: str) -> None:
    if found >= (count or 1):
        return
    shown = caption if len(caption) <= 40 else f"{caption[:40]}…"
    raise InputError(
        f"--prior gallery needs {count or 'some'} images of other examples, and {shown!r} has "
        f"{found or 'none'}; ask more examples, or take noise:3 or images:DIR."
    )
