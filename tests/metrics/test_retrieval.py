"""Recalls against plain ranking, and the chance level against simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import (
    best_of,
    count_edit_rivals,
    edit_chance,
    interval,
    mean_recall,
    rank_edits,
    recall_chance,
    recalls,
    simat_score,
    top_k,
)


def hits_by_loop(scores: np.ndarray, match: np.ndarray, k: int) -> list[tuple[float, bool]]:
    """Image → text hits at k, for the images that have a match."""
    found = []
    for row, right in zip(scores, match, strict=True):
        if not right.any():
            continue
        best = row[right].max()
        wrong = row[~right]
        strict, loose = int((wrong > best).sum()), int((wrong >= best).sum())
        found.append((float(loose < k), strict < k <= loose))
    return found


@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_retrieval_against_plain_ranking(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, size=(n, m)).astype(np.float32)
    match = rng.random((n, m)) < 0.4
    match[rng.integers(n), rng.integers(m)] = True
    pairs = np.argwhere(match)
    pairs = np.concatenate([pairs, pairs[:1]])  # a pair given twice counts once
    found = recalls(scores, pairs, ks=(1, 2, 5))
    for k in (1, 2, 5):
        for way, s, right in (
            ("image_to_text", scores, match),
            ("text_to_image", scores.T, match.T),
        ):
            outcome = found[f"{way}_r{k}"]
            expected = hits_by_loop(s, right, k)
            assert outcome.values.tolist() == [hit for hit, _ in expected]
            assert outcome.ties.tolist() == [tied for _, tied in expected]
            levels = [recall_chance(s.shape[1], [int(r.sum())], k) for r in right if r.any()]
            assert outcome.chance == pytest.approx(np.mean(levels))


def test_retrieval_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(50, 250)).astype(np.float16)
    pairs = np.stack([np.repeat(np.arange(50), 5), np.arange(250)], axis=1)
    whole = recalls(scores, pairs)
    monkeypatch.setattr("contrapose.metrics.retrieval.CHUNK", 700)
    for name, outcome in recalls(scores, pairs).items():
        np.testing.assert_array_equal(outcome.values, whole[name].values)
        np.testing.assert_array_equal(outcome.ties, whole[name].ties)
    assert list(whole) == [
        f"{way}_r{k}" for way in ("image_to_text", "text_to_image") for k in (1, 5, 10)
    ]


@pytest.mark.parametrize(("others", "right", "k"), [(10, 1, 3), (10, 5, 3), (25, 5, 10), (4, 2, 5)])
def test_chance_by_simulation(others: int, right: int, k: int) -> None:
    draws = np.random.default_rng(0).random((200_000, others))
    best = draws[:, :right].max(axis=1)
    share = ((draws[:, right:] >= best[:, None]).sum(axis=1) < k).mean()
    assert recall_chance(others, [right], k) == pytest.approx(share, abs=0.005)


def test_one_match_has_chance_k_of_m() -> None:
    assert recall_chance(1000, [1], 10) == pytest.approx(0.01)
    assert recall_chance(1000, [1, 1000], 10) == pytest.approx((0.01 + 1) / 2)


def test_constant_scores_never_hit_beyond_their_matches() -> None:
    pairs = np.stack([np.arange(20), np.arange(20)], axis=1)
    found = recalls(np.zeros((20, 20)), pairs)
    assert all(outcome.mean() == 0 and outcome.tie_rate() == 1 for outcome in found.values())


def test_the_mean_of_all_recalls_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    texts = np.arange(120)
    pairs = np.stack([texts // 3, texts], axis=1)
    scores = rng.normal(size=(40, 120))
    scores[pairs[:, 0], pairs[:, 1]] += 2
    found = recalls(scores, pairs)
    statistic, clusters = mean_recall(found, pairs)
    assert statistic.value() == pytest.approx(np.mean([o.mean() for o in found.values()]))
    assert clusters.max() == 39
    np.testing.assert_array_equal(clusters[:40], np.arange(40))
    np.testing.assert_array_equal(clusters[40:], texts // 3)
    low, high = interval(statistic, clusters=clusters, resamples=2000)
    assert low < statistic.value() < high


@pytest.mark.parametrize(
    ("pairs", "words"),
    [([[0, 9]], "outside"), ([[-1, 0]], "outside"), (np.zeros((0, 2)), "P ≥ 1")],
)
def test_bad_pairs_are_refused(pairs: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        recalls(np.zeros((3, 4)), pairs)  # type: ignore[arg-type]


def test_nan_is_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        recalls([[0.0, np.nan]], [[0, 0]])


@given(st.integers(1, 12), st.integers(1, 7), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_classify_against_plain_ranking(n: int, classes: int, k: int, seed: int) -> None:
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


def test_classify_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(100, 30)), rng.integers(0, 30, size=100)
    whole = top_k(scores, labels, 5).values
    monkeypatch.setattr("contrapose.metrics.retrieval.CHUNK", 100)
    np.testing.assert_array_equal(top_k(scores, labels, 5).values, whole)


def test_bad_labels_are_refused() -> None:
    with pytest.raises(InputError, match="labels must lie"):
        top_k(np.zeros((2, 3)), [0, 3])
    with pytest.raises(InputError, match="do not fit"):
        top_k(np.zeros((2, 3)), [0])
    with pytest.raises(InputError, match="at least 1"):
        top_k(np.zeros((2, 3)), [0, 1], 0)
    assert top_k(np.zeros((0, 3)), []).chance is None


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


@given(st.integers(1, 6), st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_edit_rivals_against_the_worst_order_of_ties(queries: int, images: int, seed: int) -> None:
    """Right at n if one of the first n fits, whichever of equal images comes first."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=(queries, images)).astype(float)
    own = rng.integers(0, images, size=queries)
    fits, target = rng.random((images, 3)) < 0.4, rng.integers(0, 3, size=queries)
    at_least, above = count_edit_rivals(scores, own, fits, target)
    for i in range(queries):
        others = [j for j in range(images) if j != own[i]]
        for fits_first, count in ((False, at_least[i]), (True, above[i])):
            order = sorted(
                others, key=lambda j: (-scores[i, j], bool(fits[j, target[i]]) is not fits_first)
            )
            for n in range(1, images):
                hit = any(fits[j, target[i]] for j in order[:n])
                assert hit == (count < n and any(fits[j, target[i]] for j in others))


def test_edit_chance_against_all_draws() -> None:
    for right in range(7):
        draws = list(itertools.combinations(range(6), 3))
        share = np.mean([min(draw) < right for draw in draws])
        assert edit_chance([right], 6, 3)[0] == pytest.approx(share)


def test_score_is_the_weighted_share() -> None:
    hits = np.array([[True, False], [False, True], [False, False]])
    assert best_of(hits, 1).values.tolist() == [1, 0, 0]
    assert best_of(hits, 2).values.tolist() == [1, 1, 0]
    weights = np.array([1.0, 2.0, 5.0])
    assert simat_score(hits, weights).value() == pytest.approx(1 / 8)
    assert simat_score(hits, weights, n=2).value() == pytest.approx(3 / 8)


def test_edits_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.normal(size=(100, 30)), rng.integers(0, 30, size=100)
    whole = rank_edits(scores, own, 5)
    monkeypatch.setattr("contrapose.metrics.retrieval.CHUNK", 100)
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
