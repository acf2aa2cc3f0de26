"""The text of a file, or its lines: UTF-8 with or without a mark, faults told by line."""

from __future__ import annotations

from pathlib import Path

from contrapose.errors import InputError
from contrapose.files.problems import Problem, Problems


def read_text(path: Path, problems: Problems) -> str:
    """A file's text as UTF-8; bytes that are not are a problem, with the line they stand on."""
    try:
        content = path.read_bytes()
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
    """The lines that hold something, each with its number from 1 and without outer spaces."""
    lines = read_text(path, problems).split("\n")
    return [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]


def is_whole(text: str) -> bool:
    """Whether every character is one: JSON can spell half of a surrogate pair, which is none."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
