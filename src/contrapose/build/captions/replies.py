"""Replies of a language model, kept in a file: a question is asked once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from contrapose.errors import InputError


class Replies:
    """What was answered before; in memory alone where there is no folder.

    The file only grows, a line a reply. A line that was cut off by a kill is passed over.
    """

    def __init__(self, folder: Path | None, fingerprint: str):
        """Open the replies of one model.

        Raises:
            InputError: the file is there and cannot be read.
        """
        self._model = fingerprint
        name = hashlib.blake2b(fingerprint.encode(), digest_size=12).hexdigest()
        self._file = None if folder is None else folder / "rewrites" / f"{name}.jsonl"
        self._known: dict[str, str] = {}
        self._whole = True
        if self._file is not None:
            self._read(self._file)

    def get(self, prompt: str) -> str | None:
        """The reply to a question, if it was asked."""
        return self._known.get(self._key(prompt))

    def add(self, replies: Mapping[str, str]) -> None:
        """Keep replies by their questions.

        Raises:
            InputError: they cannot be written.
        """
        lines = []
        for prompt, reply in replies.items():
            key = self._key(prompt)
            self._known[key] = reply
            lines.append(json.dumps({"key": key, "reply": reply}) + "\n")
        if self._file is None or not lines:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(("" if self._whole else "\n") + "".join(lines))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(f"cannot be written ({why}).", file=self._file) from None
        self._whole = True

    def _read(self, file: Path) -> None:
        try:
            text = file.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror}).", file=file) from None
        self._whole = text.endswith("\n") or not text
        for line in text.splitlines():
            try:
                value = json.loads(line)
                self._known[str(value["key"])] = str(value["reply"])
            except (ValueError, KeyError, TypeError):
                continue

    def _key(self, prompt: str) -> str:
        return hashlib.blake2b(f"{self._model}\n{prompt}".encode(), digest_size=16).hexdigest()
