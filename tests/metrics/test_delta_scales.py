"""The sweep of λ against a slow loop over queries, images and scales."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics.delta_scales import SCALES, EditVectors, best_scale, sweep_scales


def vectors_of(seed: int, queries: int, images: int) -> tuple[EditVectors, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gallery = rng.integers(-2, 3, (images, 3)).astype(np.float64)
    gallery[rng.random(images) < 0.1] = np.nan
    vectors = EditVectors(
        rng.integers(-2, 3, (queries, 3)).astype(np.float64),
        rng.integers(-2, 3, (queries, 3)).astype(np.float64),
        gallery,
        rng.integers(0, images, queries),
        rng.integers(0, 2, queries),
    )
    return vectors, rng.random((images, 2)) < 0.4, rng.random(queries) + 0.1


@given(st.integers(0, 10_000), st.integers(1, 70), st.integers(2, 6))
@settings(deadline=None, max_examples=40)
def test_the_sweep_is_a_loop(seed: int, queries: int, images: int) -> None:
    vectors, fits, weights = vectors_of(seed, queries, images)
    scales = (0.0, 0.5, 1.0, 2.0)
    expected = []
    for scale in scales:
        right = 0.0
        for q in range(queries):
            scores = vectors.gallery @ (vectors.start[q] + scale * vectors.delta[q])
            others = [
                i for i in range(images) if i != vectors.excluded[q] and scores[i] == scores[i]
            ]
            good = [scores[i] for i in others if fits[i, vectors.targets[q]]]
            bad = [scores[i] for i in others if not fits[i, vectors.targets[q]]]
            right += weights[q] * (max(good, default=-np.inf) > max(bad, default=-np.inf))
        expected.append(right / weights.sum())
    np.testing.assert_allclose(sweep_scales(vectors, fits, weights, scales), expected)


def test_of_equal_scales_the_nearest_to_one() -> None:
    assert best_scale((0.0, 0.8, 1.4, 2.0), np.array([0.1, 0.5, 0.5, 0.5])) == 0.8
    assert (SCALES[0], SCALES[10], SCALES[-1]) == (0.0, 1.0, 5.0)


def test_nothing_to_sweep_is_refused() -> None:
    vectors, fits, weights = vectors_of(0, 2, 3)
    with pytest.raises(InputError, match="some queries"):
        sweep_scales(vectors.take(np.array([], dtype=np.int64)), fits, weights[:0])
    with pytest.raises(InputError, match="some values"):
        sweep_scales(vectors, fits, weights, ())
