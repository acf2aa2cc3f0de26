"""The fourteen metrics: which pattern each looks at, and what is exchanged to look.

On the text side (Q) one image meets a right and a wrong caption, and no region is hidden; on the
image side (D) one caption meets a right and a wrong image, and no word is hidden. The mutual
metrics look at patterns that lie in both: T:R&O->I:O1 is the dividend of the words R and O together
with the region O1, over both sets of players at once (equations 5 and 6 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["text", "image", "mutual"]
Exchanged = Literal["captions", "images"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one metric looks at.

    Attributes:
        key: the metric's name.
        image: the pattern of regions; None when no region is hidden.
        text: the pattern of words; None when no word is hidden.
    """

    key: str
    image: str | None
    text: str | None

    @property
    def players(self) -> str:
        """Its players in words: "R and O with O1 and O2"."""
        parts = (self.text, self.image)
        return " with ".join(part.replace("&", " and ") for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics that are measured on the same comparisons and normalised together.

    Attributes:
        name: unique.
        side: the side it is reported under.
        exchanged: what differs between right and wrong; the other is the same.
        patterns: the reported patterns; the normaliser Z is a mean over them.
    """

    name: str
    side: Side
    exchanged: Exchanged
    patterns: tuple[Pattern, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The metrics' names."""
        return tuple(pattern.key for pattern in self.patterns)


FAMILIES = (
    Family(
        "text",
        "text",
        "captions",
        tuple(Pattern(f"Q_{words}", None, words) for words in ("O", "R", "A", "R&O", "A&O")),
    ),
    Family(
        "image",
        "image",
        "images",
        tuple(Pattern(f"D_{regions}", regions, None) for regions in ("O1", "O2", "O1&O2")),
    ),
    Family(
        "text to image",
        "mutual",
        "captions",
        tuple(
            Pattern(f"Q_T:R&O->I:{regions}", regions, "R&O") for regions in ("O1", "O2", "O1&O2")
        ),
    ),
    Family(
        "image to text",
        "mutual",
        "images",
        tuple(Pattern(f"D_I:O1&O2->T:{words}", "O1&O2", words) for words in ("R", "O", "R&O")),
    ),
)

KEYS = tuple(key for family in FAMILIES for key in family.keys)
"""The fourteen, in the order they are reported."""
