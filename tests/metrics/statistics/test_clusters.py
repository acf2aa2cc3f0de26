"""Clusters are the connected components of examples that share a key."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from contrapose.metrics import are_repeated, clusters_of

KEYS = st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=3), max_size=30)


def by_scipy(keys: list[list[str]]) -> list[int]:
    names = sorted({key for own in keys for key in own})
    size = len(keys) + len(names)
    edges = [(i, len(keys) + names.index(key)) for i, own in enumerate(keys) for key in own]
    rows, columns = [e[0] for e in edges], [e[1] for e in edges]
    graph = coo_array((np.ones(len(edges)), (rows, columns)), shape=(size, size))
    _, labels = connected_components(graph, directed=False)
    order: dict[int, int] = {}
    return [order.setdefault(int(label), len(order)) for label in labels[: len(keys)]]


@given(KEYS)
def test_against_scipy(keys: list[list[str]]) -> None:
    codes = clusters_of(keys)
    assert codes.tolist() == (by_scipy(keys) if keys else [])
    assert are_repeated(codes) == (len(set(codes.tolist())) < len(keys))


def test_chains_are_one_cluster_however_they_are_ordered() -> None:
    links = [[str(i), str(i + 1)] for i in range(2000)]
    order = np.random.default_rng(0).permutation(2000)
    assert clusters_of([links[i] for i in order]).max() == 0
    assert clusters_of(links[::-1]).max() == 0
    assert not are_repeated(clusters_of(links[::2]))


def test_a_quarter_of_a_million_examples_in_seconds() -> None:
    rng = np.random.default_rng(0)
    images = [f"video{i // 40}/frame{i}" for i in range(400_000)]
    first = rng.integers(0, 400_000, size=250_000)
    keys = [(images[i], images[i ^ 1]) for i in first]
    start = time.process_time()
    codes = clusters_of(keys)
    assert time.process_time() - start < 5
    assert codes.max() + 1 == len(set((first // 2).tolist()))
