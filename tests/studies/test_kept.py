from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies.kept import Answer, KeptAnswers


def test_answers_are_made_once_and_packed(tmp_path: Path) -> None:
    kept = KeptAnswers(tmp_path / "runs")
    calls: list[int] = []

    def make() -> Answer:
        calls.append(1)
        return {"scores": np.arange(3.0), "right": np.array([True, False])}

    for seed in (0, 1, 0):
        kept.once({"arm": "plain", "seed": seed}, make)
    assert len(calls) == 2
    assert kept.pack(tmp_path / "all.npz") == 2
    packed = KeptAnswers(tmp_path / "all.npz")
    found = packed.get({"seed": 1, "arm": "plain"})
    assert found is not None
    np.testing.assert_array_equal(found["scores"], np.arange(3.0))
    assert [key["seed"] for key, _ in packed.items()] == [key["seed"] for key, _ in kept.items()]
    assert packed.get({"arm": "other", "seed": 1}) is None


def test_a_run_that_breaks_off_keeps_what_is_done(tmp_path: Path) -> None:
    kept = KeptAnswers(tmp_path)

    def fail() -> Answer:
        raise RuntimeError("killed")

    kept.once({"seed": 0}, lambda: {"x": np.ones(1)})
    with pytest.raises(RuntimeError):
        kept.once({"seed": 1}, fail)
    assert [key for key, _ in kept.items()] == [{"seed": 0}]
