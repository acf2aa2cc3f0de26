"""Suggestions for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(typed: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """End a sentence on an unknown name: suggest close matches, or list all names."""
    names = list(known)
    near = difflib.get_close_matches(typed, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return otherwise or f"there are {', '.join(names)}."
