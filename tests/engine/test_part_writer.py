"""Writer of scored batches: a part every few seconds, or when many bytes wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.engine import AnswerStore, ScoringContext, score_examples
from tests.fakes import Fake, pairs


@pytest.mark.parametrize(("limit", "parts"), [(1, 4), (1 << 27, 1)])
def test_many_bytes_are_written_before_the_interval_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, parts: int
) -> None:
    monkeypatch.setattr("contrapose.engine.part_writer.WRITE_BYTES", limit)
    monkeypatch.setattr("contrapose.engine.part_writer.WRITE_INTERVAL", 1e9)
    context = ScoringContext(Fake(), AnswerStore(tmp_path), batch_size=8)
    score_examples(context, "itm", pairs(8))
    assert len(list(tmp_path.rglob("*.parquet"))) == parts
