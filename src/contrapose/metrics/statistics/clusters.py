"""Examples that share an image are not independent: they are drawn together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from contrapose.metrics.types import IntArray


def clusters_of(keys: Sequence[Iterable[Hashable]]) -> IntArray:
    """Cluster codes 0 … C − 1, in order of first appearance, for examples linked by shared keys.

    Two examples that share any key are in one cluster, and so are those linked through others: the
    connected components, found by union-find with path halving. An example without keys is a
    cluster of its own.

    Args:
        keys: for each example what it may share, such as its images' ids.
    """
    parent = list(range(len(keys)))
    owner: dict[Hashable, int] = {}
    for example, shared in enumerate(keys):
        root = example
        for key in shared:
            other = owner.setdefault(key, example)
            if other == root:
                continue
            while parent[other] != other:
                parent[other] = other = parent[parent[other]]
            while parent[root] != root:
                parent[root] = root = parent[parent[root]]
            # The earlier example leads, so that roots are first appearances.
            if other < root:
                parent[root] = root = other
            else:
                parent[other] = root
    roots = np.array(parent, dtype=np.int64)
    while not np.array_equal(above := roots[roots], roots):
        roots = above
    _, codes = np.unique(roots, return_inverse=True)
    return np.asarray(codes)


def are_repeated(codes: IntArray) -> bool:
    """Whether any cluster holds more than one example."""
    return bool(codes.size) and bool(np.unique(codes).size < codes.size)
