"""The log of a run: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrapose.errors import InputError
from contrapose.files import write_text


class Journal:
    """Lines that are added to a file; without a file, nothing is said."""

    def __init__(self, file: Path | None, done: int = 0):
        """A log; one that is there is cut after step `done`, since the rest is done again."""
        self.file = file
        if file is None:
            return
        kept = ""
        if done and file.is_file():
            lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line]
            kept = "".join(f"{line}\n" for line in lines if _step(line) <= done)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, kept)

    def say(self, what: Mapping[str, Any]) -> None:
        """Add a line.

        Raises:
            InputError: it cannot be written.
        """
        if self.file is None:
            return
        try:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(what, ensure_ascii=False) + "\n")
        except OSError as error:
            raise InputError(
                f"the log cannot be written ({error.strerror}).", file=self.file
            ) from None


def _step(line: str) -> int:
    try:
        said = json.loads(line)
    except ValueError:  # a line that a killed run left half-written
        return 1 << 62
    return int(said.get("step", said.get("checkpoint", 0)))
