"""What is wrong with a file: raised at once, or collected for a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from contrapose.errors import InputError


class Malformed(Exception):  # noqa: N818 - it describes a record, and never reaches a user
    """A record is not what its format promises; `parse` turns it into a problem with a place."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        kind: a short name to count by: "malformed record", "missing image", …
        message: one sentence.
        file: where.
        line: the line in it, when there is one.
    """

    kind: str
    message: str
    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        return str(InputError(self.message, file=self.file, line=self.line))


class Problems(Protocol):
    """Where a reader says that something is wrong; it goes on with the next record."""

    def report(self, problem: Problem) -> None:
        """Take note of a problem, or raise it."""


class Strict:
    """Raises the first problem: for every use of the data but a check of it."""

    def report(self, problem: Problem) -> None:
        """Raise the problem as an `InputError`."""
        raise InputError(problem.message, file=problem.file, line=problem.line)


@dataclass(slots=True)
class Collected:
    """Keeps all problems, in the order in which they were met."""

    found: list[Problem] = field(default_factory=list)

    def report(self, problem: Problem) -> None:
        """Keep the problem."""
        self.found.append(problem)
