"""Orders of words that may say the same, however one reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

JOINTS = (
    ("and",), ("or",), ("with",), ("next", "to"), ("near",), ("beside",), ("by",), ("alongside",),
    ("close", "to"), ("far", "from"), ("touching",), ("facing",),
)  # fmt: skip
"""Words whose two sides may change places and say the same."""
LONGEST = 8
"""The longest side, in words."""


def look_alikes(
    words: Iterable[str], joints: Iterable[tuple[str, ...]] | None = None
) -> Iterator[tuple[str, ...]]:
    """Every order of these words that swaps two stretches around a word that joins alike.

    It is wider than the safe swap around “and”: what is not surely a hard positive must not be a
    negative either.
    """
    row = tuple(words)
    for joint in JOINTS if joints is None else joints:
        for at in range(len(row)):
            if row[at : at + len(joint)] != joint:
                continue
            behind = at + len(joint)
            for left in range(1, min(at, LONGEST) + 1):
                for right in range(1, min(len(row) - behind, LONGEST) + 1):
                    yield (
                        *row[: at - left],
                        *row[behind : behind + right],
                        *joint,
                        *row[at - left : at],
                        *row[behind + right :],
                    )
