"""Recalls against plain ranking, and the chance level against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import interval, mean_recall, recall_chance, recalls


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
def test_against_plain_ranking(n: int, m: int, seed: int) -> None:
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


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
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
