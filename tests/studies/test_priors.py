"""The study of priors: its rules, its arithmetic, and that it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.metrics import AlphaIntervals
from studies.priors import Coarse, Difference, Pool, main, study
from tests.fakes import Patch


def test_when_a_claim_is_confirmed() -> None:
    for low, high, above, below in (
        (0.1, 0.3, "confirmed", "refuted"),
        (-0.3, -0.1, "refuted", "confirmed"),
        (-0.1, 0.1, "open", "open"),
        (0.0, 0.0, "open", "open"),
    ):
        found = Difference((low + high) / 2, low, high)
        assert (found.says(1), found.says(-1)) == (above, below)


def part(lower: list[float], upper: list[float], blind: float) -> Pool:
    size = len(lower)
    whole = AlphaIntervals(np.array(lower), np.array(upper))
    return Pool(whole, np.full(size, blind), np.zeros(size, dtype=np.int64), np.arange(size))


def test_parts_count_alike() -> None:
    always, late = ([-1.0] * 80, [2.0] * 80), ([0.5] * 20, [2.0] * 20)
    pool = Pool.of([part(*always, 1.0), part(*late, 0.0)])
    assert pool.part.tolist() == [0] * 80 + [1] * 20
    assert len(set(pool.clusters.tolist())) == 100
    found = study(pool)
    assert (found.raw, found.pmi, found.blind) == (0.5, 1.0, 0.5)
    assert found.cost.value == 0.5
    assert found.cost.low <= 0.5 <= found.cost.high
    assert found.oracle == pytest.approx(1.0)
    assert found.oracle_alpha == 0.75
    assert found.tuned == pytest.approx(1.0)


def test_coarse_pictures_lose_their_detail() -> None:
    class Striped(Patch):
        @classmethod
        def open_many(cls, sources):  # type: ignore[no-untyped-def]
            stripes = np.zeros((8, 8, 3), dtype=np.uint8)
            stripes[:, ::2] = 255
            return [Image.fromarray(stripes) for _ in sources]

    whole = Striped((0, 0, 0))
    (image,) = Coarse.open_many([Coarse(whole, 2)])
    assert image.size == (8, 8)
    assert np.ptp(np.asarray(image)) <= 1
    assert Coarse(whole, 2).content != Coarse(whole, 4).content


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        ["--examples", "3", "--parts", "swap-attribute", "--images", "1", "--pixels", "96",
         "--cache", str(tmp_path)]
    )  # fmt: skip
    said = capsys.readouterr().out
    assert said.count("\n1. lm beats itc on swap-attribute: ") == 1
    for claim in ("raw is near its best", "α = 1 costs", "α = 1 helps", "does as well"):
        assert claim in said
    assert "| scenario 2, balanced | attributes | 96 | training pictures |" in said
    assert "Noise: 3 noise images, seed 0, mean 0.29, standard deviation 0.28." in said
