"""Where the command line prints."""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """Standard output: drawn in a terminal, plain text elsewhere."""
    return Console(highlight=False, emoji=False, markup=False)


def errors() -> Console:
    """Standard error, for progress and remarks that are not the result."""
    return Console(stderr=True, highlight=False, emoji=False, markup=False)
