"""JSON read entry by entry, so that every entry knows the line it starts on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from contrapose.errors import InputError

CLOSING = {"[": "]", "{": "}"}


def json_fault(error: Exception) -> str:
    """In a few words, why a JSON text could not be decoded."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"


@dataclass(slots=True)
class JsonScanner:
    """Walks over the entries of a list or an object in a JSON text.

    Attributes:
        text: the whole file.
        file: its place, for messages.
    """

    text: str
    file: Path
    _seen: int = 0
    _lines: int = 1
    _decoder: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def entries(self, at: int = 0) -> Iterator[tuple[str, int, Any]]:
        """Key or position, place in the text, and value of each entry.

        Args:
            at: where the list or object starts; the file must end with one that starts at 0.

        Raises:
            InputError: this is not valid JSON, or neither a list nor an object; says where.
        """
        whole = at == 0
        at, closing = self._open(at)
        position = 0
        while self.text[at : at + 1] != closing:
            start, key = at, str(position)
            if closing == "}":
                key, at = self._key(at)
            entry, at = self._value(at)
            yield key, start, entry
            at = self._next(at, closing)
            position += 1
        if whole and (end := self._skip(at + 1)) < len(self.text):
            self._refuse("extra data", end)

    def find(self, key: str) -> int:
        """Where the value of a key of the outermost object starts.

        Raises:
            InputError: there is no such key, or no object.
        """
        at, closing = self._open(0)
        while closing == "}" and self.text[at : at + 1] != closing:
            name, at = self._key(at)
            if name == key:
                return at
            at = self._next(self._value(at)[1], closing)
        raise InputError(f"must hold a JSON object with the key {key!r}.", file=self.file)

    def line(self, at: int) -> int:
        """The line of a place in the text, counted on from the last one asked for."""
        self._lines += self.text.count("\n", self._seen, at)
        self._lines -= self.text.count("\n", at, self._seen)
        self._seen = at
        return self._lines

    def _open(self, at: int) -> tuple[int, str]:
        at = self._skip(at)
        opening = self.text[at : at + 1]
        if not opening:
            raise InputError("is empty.", file=self.file)
        if opening not in CLOSING:
            raise InputError("must hold a JSON list or object.", file=self.file, line=self.line(at))
        return self._skip(at + 1), CLOSING[opening]

    def _key(self, at: int) -> tuple[str, int]:
        """The key that starts here, and where its value starts."""
        key, behind = self._value(at)
        behind = self._skip(behind)
        if not isinstance(key, str) or self.text[behind : behind + 1] != ":":
            self._refuse("expected a key", at)
        return key, self._skip(behind + 1)

    def _value(self, at: int) -> tuple[Any, int]:
        """The value that starts here, and the place behind it."""
        try:
            return self._decoder.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            self._refuse(error.msg, error.pos)
        except (ValueError, RecursionError) as error:
            self._refuse(json_fault(error), at)

    def _next(self, at: int, closing: str) -> int:
        """Where the next entry starts, or the bracket that ends them all."""
        at = self._skip(at)
        found = self.text[at : at + 1]
        if found == closing:
            return at
        if found != ",":
            self._refuse("expected ','" if found else "it ends in the middle", at)
        at = self._skip(at + 1)
        if self.text[at : at + 1] == closing:
            self._refuse("a comma before the end", at)
        return at

    def _skip(self, at: int) -> int:
        while self.text[at : at + 1] in {" ", "\t", "\r", "\n"}:
            at += 1
        return at

    def _refuse(self, why: str, at: int) -> NoReturn:
        raise InputError(f"is not valid JSON ({why}).", file=self.file, line=self.line(at))
