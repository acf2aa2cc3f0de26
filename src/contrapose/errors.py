"""The errors a user can cause, each one clear sentence."""

from __future__ import annotations

from pathlib import Path


class ContraposeError(Exception):
    """Something the user can put right; the command line prints it without a traceback."""


class InputError(ContraposeError):
    """A file or an argument is not what it should be; says where, when the place is known."""

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None):
        self.message = message
        self.file = file
        self.line = line
        place = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(f"{place}{message}")


class MissingExtraError(ContraposeError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(
            f"{purpose} needs {package}, which is not installed: pip install 'contrapose[{extra}]'."
        )
