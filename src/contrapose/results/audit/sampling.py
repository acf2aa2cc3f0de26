"""A fair sample of a large benchmark: the first examples of a file are seldom like the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from contrapose.data import Example
from contrapose.errors import InputError
from contrapose.results.selection import Selection


def sampled(selection: Selection, count: int, seed: int) -> Selection:
    """At most so many examples of each subset, drawn at random, in the order of the files.

    Raises:
        InputError: it is less than one.
    """
    if count < 1:
        raise InputError(f"--sample must be at least 1, found {count}.")
    parts = {
        name: (benchmark, _drawn(data, count, seed) if isinstance(data, list) else data)
        for name, (benchmark, data) in selection.parts.items()
    }
    return replace(selection, parts=parts)


def _drawn(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    places: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        places.setdefault(str(example.tags.get("subset", "")), []).append(i)
    random = np.random.default_rng(seed)
    chosen = [int(i) for some in places.values() for i in random.permutation(some)[:count].tolist()]
    return [examples[i] for i in sorted(chosen)]
