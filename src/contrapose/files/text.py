"""Text and JSON files with line numbers, the problems in them, and suggestions for typos.

Problems are raised at once (`StrictProblems`) or collected for a report (`ProblemList`).
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from contrapose.errors import InputError, option


class MalformedError(Exception):
    """A record violates its format; `parse_records` reports it with file and line."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem in a file, with its kind, message, file and line.

    Attributes:
        kind: a short name to count by: "malformed record", "missing image", …
        message: one sentence.
        file: the file, when known.
        line: the line in it, when known.
    """

    kind: str
    message: str
    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        return str(InputError(self.message, file=self.file, line=self.line))


class Problems(Protocol):
    """Sink to which a reader reports problems; the reader goes on with the next record."""

    def report(self, problem: Problem) -> None:
        """Record a problem, or raise it."""


class StrictProblems:
    """Sink that raises the first problem."""

    def report(self, problem: Problem) -> None:
        """Raise the problem as an `InputError`."""
        raise InputError(problem.message, file=problem.file, line=problem.line)


@dataclass(slots=True)
class ProblemList:
    """Sink that collects all problems in order."""

    problems: list[Problem] = field(default_factory=list)

    def report(self, problem: Problem) -> None:
        """Append the problem."""
        self.problems.append(problem)


def require_regular(path: Path) -> None:
    """Refuse a path that is neither a file nor a folder: reading a pipe or a device may never end.

    Raises:
        InputError: it is a pipe, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - quicker, where there are a million
    except (OSError, ValueError):
        return  # opening it says what is wrong
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError("is not a regular file, but a pipe, a socket or a device.", file=path)


def read_bytes(path: Path) -> bytes:
    """Read a file's bytes, without waiting for the writer of a pipe.

    Raises:
        InputError: it is a pipe, a socket or a device.
        OSError: it cannot be read.
    """
    require_regular(path)
    return path.read_bytes()


def read_text(path: Path, problems: Problems) -> str:
    """Read a file as UTF-8; invalid bytes are reported as a problem with their line."""
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", file=path) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.report(Problem("not UTF-8", "holds bytes that are not UTF-8.", path, line))
        return content.decode("utf-8-sig", errors="replace")


def read_lines(path: Path, problems: Problems) -> list[tuple[int, str]]:
    """Read the non-blank lines, stripped, each with its number from 1."""
    lines = read_text(path, problems).split("\n")
    return [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]


def is_valid_unicode(text: str) -> bool:
    """Whether a text is valid Unicode: JSON can spell a lone surrogate, which is not."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


CLOSING_BRACKETS = {"[": "]", "{": "}"}


class DoubledKeyError(ValueError):
    """An object of a JSON text has a key twice."""

    def __init__(self, key: str):
        super().__init__(f"the key {key!r} comes twice")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its pairs, as `object_pairs_hook` of a decoder; no key comes twice."""
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        raise DoubledKeyError(next(key for key in keys if keys.count(key) > 1))
    return value


class SurrogateError(ValueError):
    """A text of a JSON text holds half of a surrogate pair, which only an escape can spell."""

    def __init__(self) -> None:
        super().__init__("a text holds half of a surrogate pair")


def parse_json(text: str) -> Any:
    """Decode a JSON text.

    Raises:
        DoubledKeyError: an object has a key twice.
        SurrogateError: a text is not valid Unicode.
        ValueError: it is not valid JSON otherwise.
    """
    value = json.loads(text, object_pairs_hook=unique_keys)
    if may_hold_surrogates(text):
        require_unicode(value)
    return value


def may_hold_surrogates(text: str) -> bool:
    """Whether a JSON text has an escape of a surrogate; pairs of them are valid."""
    return "\\ud" in text or "\\uD" in text


def require_unicode(value: Any) -> None:
    """Require that all texts and keys of a decoded value are valid Unicode.

    Raises:
        SurrogateError: one is not.
        ValueError: it is nested too deeply to tell.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise SurrogateError from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def require_text(name: str, text: str) -> None:
    """Require that a text which was given in a program or on a command line is valid Unicode.

    Args:
        name: the option that it was given as.
        text: the text.

    Raises:
        InputError: it is not.
    """
    if not is_valid_unicode(text):
        raise InputError(
            f"{option(name)} must be valid Unicode; {text!r} holds half of a surrogate pair."
        )


JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}]')


def find_doubled_key(text: str) -> int | None:
    """Return the line of the first key that an object of a JSON text has for the second time."""
    objects: list[set[str]] = []
    for token in JSON_TOKEN.finditer(text):
        if token[0] == "{":
            objects.append(set())
        elif token[0] == "}" and objects:
            objects.pop()
        elif token[2] and objects:
            if token[1] in objects[-1]:
                return text.count("\n", 0, token.start()) + 1
            objects[-1].add(token[1])
    return None


def describe_json_error(error: Exception) -> str:
    """Describe in a few words why a JSON text could not be decoded."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    if isinstance(error, DoubledKeyError | SurrogateError):
        return str(error)
    return "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"


SPACE = re.compile("[ \t\r\n]+")
COMMA = re.compile(f"(?:{SPACE.pattern})?,(?:{SPACE.pattern})?")


@dataclass(slots=True)
class JsonScanner:
    """Scanner over the entries of a JSON list or object, with their offsets.

    Attributes:
        text: the text of the file.
        file: its path, for messages.
    """

    text: str
    file: Path
    _seen: int = 0
    _lines: int = 1
    _decoder: json.JSONDecoder = field(
        default_factory=lambda: json.JSONDecoder(object_pairs_hook=unique_keys)
    )

    def entries(self, at: int = 0) -> Iterator[tuple[str, int, Any]]:
        """Yield key or position, offset in the text, and value of each entry.

        Args:
            at: offset where the list or object starts; one that starts at 0 must fill the file.

        Raises:
            InputError: this is not valid JSON, or neither a list nor an object; says where.
        """
        is_file = at == 0
        at, closing = self._open(at)
        position = 0
        keys: set[str] = set()
        while self.text[at : at + 1] != closing:
            start, key = at, str(position)
            if closing == "}":
                key, at = self._key(at)
                if key in keys:
                    self._refuse(str(DoubledKeyError(key)), start)
                keys.add(key)
            entry, at = self._value(at)
            yield key, start, entry
            at = self._next(at, closing)
            position += 1
        if is_file and (end := self._skip(at + 1)) < len(self.text):
            self._refuse("extra data", end)

    def find(self, key: str) -> int:
        """Return the offset of the value of a key of the outermost object.

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
        """Return the line number of an offset, counted on from the last call."""
        if at >= self._seen:
            self._lines += self.text.count("\n", self._seen, at)
        else:
            self._lines -= self.text.count("\n", at, self._seen)
        self._seen = at
        return self._lines

    def _open(self, at: int) -> tuple[int, str]:
        at = self._skip(at)
        opening = self.text[at : at + 1]
        if not opening:
            raise InputError("is empty.", file=self.file)
        if opening not in CLOSING_BRACKETS:
            raise InputError("must hold a JSON list or object.", file=self.file, line=self.line(at))
        return self._skip(at + 1), CLOSING_BRACKETS[opening]

    def _key(self, at: int) -> tuple[str, int]:
        """Decode the key at an offset, and return the offset of its value."""
        key, behind = self._value(at)
        behind = self._skip(behind)
        if not isinstance(key, str) or self.text[behind : behind + 1] != ":":
            self._refuse("expected a key", at)
        return key, self._skip(behind + 1)

    def _value(self, at: int) -> tuple[Any, int]:
        """Decode the value at an offset, and return the offset behind it."""
        try:
            return self._decoder.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            self._refuse(error.msg, error.pos)
        except (ValueError, RecursionError) as error:
            self._refuse(describe_json_error(error), at)

    def _next(self, at: int, closing: str) -> int:
        """Return the offset of the next entry, or of the closing bracket."""
        comma = COMMA.match(self.text, at)
        if comma is None:
            at = self._skip(at)
            mark = self.text[at : at + 1]
            if mark == closing:
                return at
            self._refuse("expected ','" if mark else "it ends in the middle", at)
        at = comma.end()
        if self.text[at : at + 1] == closing:
            self._refuse("a comma before the end", at)
        return at

    def _skip(self, at: int) -> int:
        space = SPACE.match(self.text, at)
        return at if space is None else space.end()

    def _refuse(self, why: str, at: int) -> NoReturn:
        raise InputError(f"is not valid JSON ({why}).", file=self.file, line=self.line(at))


MOST_DIGITS = 18
"""Digits of the largest number that is taken from a text."""


def parse_count(text: str) -> int | None:
    """Whole number that a text of ASCII digits says; None for any other text, and a longer one."""
    plain = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return int(text) if plain else None


def did_you_mean(typed: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """End a sentence on an unknown name: suggest close matches, or list all names."""
    names = [name for name in known if name]
    near = difflib.get_close_matches(typed, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return otherwise or f"there are {', '.join(names) or 'none'}."
