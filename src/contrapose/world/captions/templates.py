"""The sentences that captions are put into."""

from __future__ import annotations

from dataclasses import dataclass

from contrapose.world.captions.draws import sums
from contrapose.world.captions.mention import Opening


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with gaps.

    Attributes:
        parts: words as they stand, or a gap: "all" the objects, joined; "be" is or are; "0" and "1"
            the two objects of a relation; "rel" the relation before the second object; "its" the
            relation after both.
        weight: how often it is chosen.
        openings: how the first and second object of a relation begin.
        short: whether no words may stand behind a noun.
    """

    parts: tuple[str, ...]
    weight: float
    openings: tuple[Opening, Opening] = ("a", "a")
    short: bool = False


def _listing(text: str, weight: float) -> Template:
    return Template(tuple(text.split("|")), weight)


def _relating(
    text: str, weight: float, first: Opening = "a", second: Opening = "a", *, short: bool = False
) -> Template:
    return Template(tuple(text.split("|")), weight, (first, second), short)


LISTING: tuple[Template, ...] = (
    _listing("all", 0.46),
    _listing("there|be|all", 0.16),
    _listing("a picture of|all", 0.12),
    _listing("a photo of|all", 0.08),
    _listing("an image of|all", 0.05),
    _listing("this picture shows|all", 0.05),
    _listing("a scene with|all", 0.04),
    _listing("we see|all", 0.04),
)
"""For captions that say what is there; one object, several, or counted ones fit alike."""

RELATING: tuple[Template, ...] = (
    _relating("0|rel|1", 0.24),
    _relating("0|is|rel|1", 0.16),
    _relating("0|is|rel|1", 0.15, "the", "the"),
    _relating("0|rel|1", 0.08, "the", "the"),
    _relating("there is|0|rel|1", 0.10),
    _relating("a picture of|0|rel|1", 0.05),
    _relating("0|is|rel|1", 0.04, "the", "a"),
    _relating("0|rel|1", 0.04, "a", "the"),
    _relating("rel|1|is|0", 0.04),
    _relating("rel|1|there is|0", 0.03, "a", "the"),
    _relating("1|with|0|its", 0.05, short=True),
    _relating("a photo of|0|rel|1", 0.02),
)
"""For captions that say how two objects stand to each other; "0" is always the first of them."""

LISTING_SUMS = sums([template.weight for template in LISTING])
RELATING_SUMS = sums([template.weight for template in RELATING])
