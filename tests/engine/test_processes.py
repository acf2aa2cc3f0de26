"""Real processes: killed at any instant, and two at once on one store."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from contrapose.engine import AnswerStore, ScoringContext, score_examples
from tests.engine.killed import Slow
from tests.fakes import Fake, pairs

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: object) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tests.engine.killed", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(run: Path) -> dict[str, bytes]:
    """The files of a run, but for the one that says where the cache was."""
    return {file.name: file.read_bytes() for file in run.iterdir() if file.name != "spec.json"}


def test_killed_at_ten_instants(tmp_path: Path) -> None:
    python("kill", tmp_path / "calm", tmp_path / "run-calm")
    draw = random.Random(7)  # noqa: S311
    delays = [draw.uniform(0.0, 0.12) for _ in range(10)]
    hit = int(python("kill", tmp_path / "store", tmp_path / "run", *delays))
    assert hit >= 5  # most came before the end
    assert contents(tmp_path / "run") == contents(tmp_path / "run-calm")
    # Every thing that was kept was kept once.
    for folder in (tmp_path / "store" / "answers").glob("*/*"):
        rows = [
            (row["image"], row["text"])
            for part in folder.glob("[!.]*.parquet")
            for row in pq.read_table(part, columns=["image", "text"]).to_pylist()
        ]
        assert len(rows) == len(set(rows)) > 0


def test_two_at_once(tmp_path: Path) -> None:
    python("both", tmp_path)
    parts = list(tmp_path.rglob("*.parquet"))
    assert len(parts) > 20
    assert all(pq.read_table(part).num_rows for part in parts)
    for score in ("itc", "itm", "lm"):
        model = Slow()
        found = score_examples(ScoringContext(model, AnswerStore(tmp_path)), score, pairs()).scores
        assert not [*model.images, *model.texts, *model.pairs]
        assert np.allclose(
            found, score_examples(ScoringContext(Fake()), score, pairs()).scores, atol=1e-4
        )
