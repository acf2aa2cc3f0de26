"""Top-k against plain ranking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import top_k


@given(st.integers(1, 12), st.integers(1, 7), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_against_plain_ranking(n: int, classes: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=(n, classes))
    labels = rng.integers(0, classes, size=n)
    outcome = top_k(scores, labels, k)
    for i in range(n):
        others = [scores[i, c] for c in range(classes) if c != labels[i]]
        own = scores[i, labels[i]]
        loose, strict = sum(o >= own for o in others), sum(o > own for o in others)
        assert outcome.values[i] == float(loose < k)
        assert outcome.ties[i] == (strict < k <= loose)
    assert outcome.chance == pytest.approx(min(1, k / classes))


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(100, 30)), rng.integers(0, 30, size=100)
    whole = top_k(scores, labels, 5).values
    monkeypatch.setattr("contrapose.metrics.classify.CHUNK", 100)
    np.testing.assert_array_equal(top_k(scores, labels, 5).values, whole)


def test_bad_labels_are_refused() -> None:
    with pytest.raises(InputError, match="labels must lie"):
        top_k(np.zeros((2, 3)), [0, 3])
    with pytest.raises(InputError, match="do not fit"):
        top_k(np.zeros((2, 3)), [0])
    with pytest.raises(InputError, match="at least 1"):
        top_k(np.zeros((2, 3)), [0, 1], 0)
    assert top_k(np.zeros((0, 3)), []).chance is None
