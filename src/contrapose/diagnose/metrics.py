"""Catalog of the fourteen metrics: the pattern of each one, and the side that is exchanged.

On the text side (Q) one image meets a right and a wrong caption, and no region is hidden; on the
image side (D) one caption meets a right and a wrong image, and no word is hidden. The mutual
metrics measure patterns over both: T:R&O->I:O1 is the dividend of the words R and O together with
the region O1, over both sets of players at once (equations 5 and 6 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MetricSide = Literal["text", "image", "mutual"]
GameSide = Literal["text", "image", "mutual", "all"]
Exchange = Literal["captions", "images"]


@dataclass(frozen=True, slots=True)
class MetricPattern:
    """Pattern of players that one metric measures.

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
        """Players in words: "R and O with O1 and O2"."""
        parts = (self.text, self.image)
        return " with ".join(part.replace("&", " and ") for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Family of metrics measured on the same comparisons and normalized together.

    Attributes:
        name: unique.
        side: the side it is reported under.
        exchanged: what differs between right and wrong; the other is the same.
        patterns: the reported patterns; the normalizer Z is a mean over them.
    """

    name: str
    side: MetricSide
    exchanged: Exchange
    patterns: tuple[MetricPattern, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the family's metrics."""
        return tuple(pattern.key for pattern in self.patterns)


FAMILIES = (
    MetricFamily(
        "text",
        "text",
        "captions",
        tuple(MetricPattern(f"Q_{words}", None, words) for words in ("O", "R", "A", "R&O", "A&O")),
    ),
    MetricFamily(
        "image",
        "image",
        "images",
        tuple(MetricPattern(f"D_{regions}", regions, None) for regions in ("O1", "O2", "O1&O2")),
    ),
    MetricFamily(
        "text to image",
        "mutual",
        "captions",
        tuple(
            MetricPattern(f"Q_T:R&O->I:{regions}", regions, "R&O")
            for regions in ("O1", "O2", "O1&O2")
        ),
    ),
    MetricFamily(
        "image to text",
        "mutual",
        "images",
        tuple(
            MetricPattern(f"D_I:O1&O2->T:{words}", "O1&O2", words) for words in ("R", "O", "R&O")
        ),
    ),
)

METRIC_KEYS = tuple(key for family in FAMILIES for key in family.keys)
"""Names of the fourteen metrics, in the order of reports."""
