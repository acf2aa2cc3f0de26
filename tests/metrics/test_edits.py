"""SIMAT's ranking and score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import best_of, rank_edits, simat_score


@given(st.integers(1, 6), st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_ranking_against_a_stable_sort(queries: int, images: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, size=(queries, images)).astype(float)
    own = rng.integers(0, images, size=queries)
    n = int(rng.integers(1, images))
    always, released = (rank_edits(scores, own, n, skip=s) for s in ("always", "if first"))
    for i in range(queries):
        order = np.argsort(-scores[i], kind="stable").tolist()
        assert always[i].tolist() == [j for j in order if j != own[i]][:n]
        first = order[1:] if order[0] == own[i] else order
        assert released[i].tolist() == first[:n]


def test_the_released_script_agrees_at_one_and_not_at_five() -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.normal(size=(200, 12)), rng.integers(0, 12, size=200)
    both = [rank_edits(scores, own, 1, skip=s) for s in ("always", "if first")]
    np.testing.assert_array_equal(both[0], both[1])
    assert (rank_edits(scores, own, 5, skip="if first") == own[:, None]).any()
    assert not (rank_edits(scores, own, 5) == own[:, None]).any()


def test_score_is_the_weighted_share() -> None:
    hits = np.array([[True, False], [False, True], [False, False]])
    assert best_of(hits, 1).values.tolist() == [1, 0, 0]
    assert best_of(hits, 2).values.tolist() == [1, 1, 0]
    weights = np.array([1.0, 2.0, 5.0])
    assert simat_score(hits, weights).value() == pytest.approx(1 / 8)
    assert simat_score(hits, weights, n=2).value() == pytest.approx(3 / 8)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.normal(size=(100, 30)), rng.integers(0, 30, size=100)
    whole = rank_edits(scores, own, 5)
    monkeypatch.setattr("contrapose.metrics.edits.CHUNK", 100)
    np.testing.assert_array_equal(rank_edits(scores, own, 5), whole)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="n must be"):
        rank_edits(np.zeros((1, 3)), [0], 3)
    with pytest.raises(InputError, match="query images must lie"):
        rank_edits(np.zeros((1, 3)), [3])
    with pytest.raises(InputError, match="do not fit"):
        rank_edits(np.zeros((1, 3)), [0, 1])
    with pytest.raises(InputError, match="skip"):
        rank_edits(np.zeros((1, 3)), [0], skip="never")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="best of 3"):
        best_of(np.zeros((2, 2)), 3)
