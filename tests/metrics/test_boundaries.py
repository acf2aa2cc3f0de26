"""Boundary grounding against a plain loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import THRESHOLDS, boundary_grounding, boundary_scores, predict_boundary


@given(st.lists(st.integers(2, 12), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_against_a_loop(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    before, after = rng.integers(0, 4, size=(2, offsets[-1])).astype(float)
    times = np.concatenate([np.arange(n) / 5 for n in lengths])
    truth = rng.uniform(0, 2, size=len(lengths))
    found = boundary_grounding(before, after, times, offsets, truth)
    average = np.zeros(len(lengths))
    for threshold in THRESHOLDS:
        outcome = found[f"within_{threshold:g}s"]
        chances = []
        for q, (start, end) in enumerate(itertools.pairwise(offsets)):
            score = [before[t] + after[t + 1] for t in range(start, end - 1)]
            middle = [(times[t] + times[t + 1]) / 2 for t in range(start, end - 1)]
            best = [t for t, s in enumerate(score) if s == max(score)]
            near = [abs(m - truth[q]) <= threshold + 1e-9 for m in middle]
            assert outcome.values[q] == float(all(near[t] for t in best))
            assert outcome.ties[q] == (len(best) > 1)
            chances.append(np.mean(near))
        assert outcome.chance == pytest.approx(np.mean(chances))
        average += outcome.values / len(THRESHOLDS)
    np.testing.assert_allclose(found["average"].values, average)


def test_one_video() -> None:
    before, after = np.array([0.9, 0.8, 0.1, 0.2]), np.array([0.1, 0.3, 0.9, 0.7])
    np.testing.assert_allclose(boundary_scores(before, after), [1.2, 1.7, 0.8])
    assert predict_boundary(before, after, np.arange(4) / 5) == pytest.approx(0.3)
    found = boundary_grounding(before, after, np.arange(4) / 5, [0, 4], [0.2])
    # 0.3 s is 0.1 s from 0.2 s, although 0.3 − 0.2 is more than 0.1 in binary.
    assert found["within_0.1s"].values.tolist() == [1]
    assert [name for name in found if name != "average"] == [
        f"within_{t:g}s" for t in (0.1, 0.2, 0.5, 1, 1.5, 2, 2.5, 3)
    ]


def test_constant_scores_win_only_where_everything_does() -> None:
    frames = np.zeros(30)
    found = boundary_grounding(frames, frames, np.arange(30) / 5, [0, 30], [2.9])
    assert found["within_0.5s"].values.tolist() == [0]
    assert found["within_3s"].values.tolist() == [1]
    assert found["within_3s"].chance == pytest.approx(1)


@pytest.mark.parametrize(
    ("offsets", "words"),
    [([0, 1, 4], "fewer than two"), ([0, 4], "offsets"), ([0, 2, 3], "offsets")],
)
def test_bad_offsets_are_refused(offsets: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        boundary_grounding(np.zeros(4), np.zeros(4), np.zeros(4), offsets, [0.0, 0.0])
    with pytest.raises(InputError, match="not the same"):
        boundary_scores(np.zeros(4), np.zeros(3))
