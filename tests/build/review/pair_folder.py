"""Small sets of minimal pairs on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from contrapose.build.minimal_pairs import (
    MinimalPair,
    PairImage,
    PairSetBuild,
    PairSource,
    SourcePairs,
)
from contrapose.build.pair_sets import write_pair_set

COLORS = ("red", "green", "blue", "white", "orange", "purple", "gray", "brown")
HOSTILE = "</script><img src=x onerror=document.title='taken'>&amp; \"quoted\" \u2028 a"


def patch(color: str) -> Image.Image:
    return Image.new("RGB", (24, 16), color)


def color_pair(number: int, **tags: str) -> MinimalPair:
    """Pair of two patches, whose captions name their colors."""
    first, second = COLORS[number % 8], COLORS[(number + 1) % 8]
    return MinimalPair(
        f"pair-{number}",
        (PairImage(f"v/{number}_0", patch(first)), PairImage(f"v/{number}_1", patch(second))),
        (f"a {first} patch {number}", f"a {second} patch {number}"),
        {"kind": "odd" if number % 2 else "even", **tags},
    )


def write_set(
    folder: Path, pairs: Sequence[MinimalPair], subset: str = "sd", **settings: Any
) -> dict[str, Any]:
    """Write pairs as a set of one source."""
    source = PairSource("video", "1", lambda: SourcePairs(pairs, {"made": len(pairs)}))
    build = PairSetBuild("edits", subset, "a test", **settings)
    return write_pair_set([source], folder, build)
