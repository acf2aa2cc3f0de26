"""Run folders to export: one of asked models, of every shape, and one of a score file."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import registry
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.results import MetricsRequest, measure_score_file, write_run
from tests.fakes import Fake, Tower, made, pairs, patches

WHEN = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
STAMP = "2026-01-31T12-30-00"


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """Benchmarks, and the run folder of two models on them."""
    found = {"patches": patches(), "plain": made("plain", "pairs", "2 × 2", pairs())}
    folder = tmp_path_factory.mktemp("exports") / "asked"
    request = EvalRequest(("patches", "plain"), resamples=100, limit=10)
    models = [Fake(name="hf:acme/fake@v2"), Tower(name="tower,dtype=bf16")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_plugins", lambda: found)
        write_run(evaluate_models(models, request), folder)
    return found, folder


@pytest.fixture
def asked(
    written: tuple[dict[str, Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Two models, a suite and a single benchmark, three scores: a folder to change."""
    found, folder = written
    monkeypatch.setattr(registry, "_plugins", lambda: found)
    return Path(shutil.copytree(folder, tmp_path / "asked"))


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Winoground from a score file."""
    scores = np.random.default_rng(0).integers(0, 9, (400, 2, 2)).astype(float)
    np.save(tmp_path / "clip.npy", scores)
    finished = measure_score_file(
        MetricsRequest("winoground", tmp_path / "clip.npy", resamples=100)
    )
    write_run(finished, tmp_path / "given")
    return tmp_path / "given"
