"""Names that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(typed: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """The end of a sentence on an unknown name: those that come near, or all there are."""
    names = list(known)
    near = difflib.get_close_matches(typed, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return otherwise or f"there are {', '.join(names)}."
