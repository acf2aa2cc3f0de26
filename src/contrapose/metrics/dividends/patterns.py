"""Names of coalitions as the metrics spell them: R&O, A&O, O1&O2."""

from __future__ import annotations

from collections.abc import Sequence

EMPTY = "∅"

LAST = "O"
"""Object words are named last: the relation (or attribute) *and* its objects."""


def pattern_name(players: Sequence[str], coalition: int) -> str:
    """The name of a coalition: its players in their order, object words last.

    `pattern_name(("O", "R"), 0b11)` is `"R&O"`; the empty coalition is `"∅"`.
    """
    present = [name for bit, name in enumerate(players) if coalition >> bit & 1]
    return "&".join(sorted(present, key=lambda name: name == LAST)) or EMPTY


def pattern_mask(players: Sequence[str], pattern: str) -> int | None:
    """The bit mask of a pattern; None when one of its players is not among these."""
    names = () if pattern == EMPTY else pattern.split("&")
    if not set(names) <= set(players):
        return None
    return sum(1 << list(players).index(name) for name in names)
