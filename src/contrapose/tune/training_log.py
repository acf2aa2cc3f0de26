"""The log of a training run: a record in JSON for each step and each checkpoint, one per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrapose.errors import InputError
from contrapose.files import write_text


class TrainingLog:
    """Training log in JSON lines; without a file, nothing is written."""

    def __init__(self, file: Path | None, done: int = 0):
        """Open a log; an existing one is truncated after step `done`.

        Raises:
            InputError: a line of it is no record of a step.
        """
        self.file = file
        if file is None:
            return
        earlier = ""
        if done and file.is_file():
            earlier = _read_log(file, done)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, earlier)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record.

        Raises:
            InputError: it cannot be written.
        """
        if self.file is None:
            return
        try:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise InputError(
                f"the log cannot be written ({error.strerror}).", file=self.file
            ) from None


def _read_log(file: Path, done: int) -> str:
    """Lines of a log up to a step; the last one may be half-written, as by a run that was killed.

    Raises:
        InputError: another line is no record of a step; says which.
    """
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"the log cannot be read ({error.strerror}).", file=file) from None
    last = max((number for number, line in enumerate(lines) if line.strip()), default=0)
    kept = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            text = line.decode()
            if _step_of_line(text) <= done:
                kept.append(f"{text}\n")
        except (ValueError, RecursionError):
            if number < last:
                raise InputError(
                    "is no record of a step; delete the line, or the log, to go on.",
                    file=file,
                    line=number + 1,
                ) from None
    return "".join(kept)


def _step_of_line(line: str) -> int:
    """Step of a record of the log.

    Raises:
        ValueError: it has none.
    """
    record = json.loads(line)
    step = record.get("step", record.get("checkpoint", 0)) if isinstance(record, dict) else None
    if not isinstance(step, int):
        raise ValueError(line)
    return step
