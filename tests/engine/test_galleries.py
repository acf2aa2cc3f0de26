"""Re-ranking: the nearest by itc are asked and ordered, all others stay below, by itc."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.engine import ScoringContext, score_gallery
from contrapose.engine import galleries as grids_module
from contrapose.engine.galleries import select_nearest
from contrapose.errors import InputError
from tests.fakes import Fake, gallery


@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 8), st.sampled_from([0, 1]),
    st.integers(0, 1000),
)  # fmt: skip
def test_nearest(rows: int, columns: int, k: int, axis: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 4, (rows, columns)) / 4
    chosen = select_nearest(scores, k, axis)
    lines = zip(scores, chosen, strict=True) if axis == 1 else zip(scores.T, chosen.T, strict=True)
    for line, picked in lines:
        best = sorted(range(len(line)), key=lambda i: (-line[i], i))[:k]
        assert np.flatnonzero(picked).tolist() == sorted(best)


@pytest.mark.parametrize("score", ["itm", "lm"])
@pytest.mark.parametrize("k", [1, 3, 11])
def test_as_albef_does(score: str, k: int) -> None:
    data = gallery()
    itc = score_gallery(ScoringContext(Fake()), "itc", data).scores
    whole = score_gallery(ScoringContext(Fake()), score, data, rerank=0).scores
    model = Fake()
    grid = score_gallery(ScoringContext(model), score, data, rerank=k)
    assert grid.rerank == k
    assert grid.asked is not None
    assert len(model.pairs) == grid.asked.sum() < 144 or k == 11
    assert grid.from_text is not None
    for found, itc_, whole_ in (
        (grid.scores, itc, whole),
        (grid.from_text.T, itc.T, whole.T),
    ):
        for line, near, right in zip(found, itc_, whole_, strict=True):
            best = sorted(range(12), key=lambda i: -near[i])
            expected = sorted(best[:k], key=lambda i: -right[i]) + best[k:]
            assert sorted(range(12), key=lambda i: -line[i]) == expected
            assert line[best[:k]].tolist() == right[best[:k]].tolist()
    assert f"{score} orders the {k} of highest itc" in grid.notes[0]


def test_when_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Only:
        """A matcher without vectors."""

        name, fingerprint, batch_size = "only", "only-1", 4

        def __init__(self) -> None:
            self.match = Fake().match

    data = gallery()
    assert score_gallery(ScoringContext(Fake()), "itm", data).rerank == 0
    assert score_gallery(ScoringContext(Fake()), "itm", data, rerank=100).rerank == 0
    monkeypatch.setattr(grids_module, "SMALL_GALLERY", 100)
    monkeypatch.setattr(grids_module, "DEFAULT_RERANK", 5)
    assert score_gallery(ScoringContext(Fake()), "itm", data).rerank == 5
    assert score_gallery(ScoringContext(Fake()), "itm", data, rerank=0).rerank == 0
    assert score_gallery(ScoringContext(Only()), "itm", data).rerank == 0
    with pytest.raises(InputError, match="nearest by itc, which only does not give"):
        score_gallery(ScoringContext(Only()), "itm", data, rerank=5)


def test_classes_are_ranked_for_images_alone() -> None:
    from dataclasses import replace

    data = replace(gallery(), templates=("{}", "see {}"))
    model = Fake()
    grid = score_gallery(ScoringContext(model), "itm", data, rerank=2)
    assert grid.from_text is None
    assert grid.asked is not None
    assert grid.asked.sum(axis=1).tolist() == [2] * 12
    assert len(model.pairs) == 12 * 2 * 2
