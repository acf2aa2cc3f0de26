"""The log of a training run: cut where a run goes on, and refused where it is no log."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.tune.training_log import TrainingLog

LINES = [
    b"5", b"null", b"[]", b'{"step": null}', b'{"step": "x"}', b'{"step": 1e999}', b'{"step": NaN}',
    b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"step": ' + b"9" * 5000 + b"}", b"\0",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_log_that_is_no_record_is_named(line: bytes, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    records = [b'{"step": 1, "loss": "\xe2\x80\xa8"}', b'{"checkpoint": 2}', b'{"step": 3}']
    file.write_bytes(b"\n".join([records[0], line, *records[1:]]) + b"\n")
    with pytest.raises(InputError, match=r"line 2: is no record"):
        TrainingLog(file, 2)
    file.write_bytes(b"\n".join([*records, line]))  # a killed run may have left it half-written
    TrainingLog(file, 2)
    assert file.read_bytes() == b"".join(record + b"\n" for record in records[:2])
