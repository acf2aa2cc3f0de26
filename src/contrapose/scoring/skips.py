"""What could not be asked, and why: nothing is left out in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contrapose.errors import InputError


@dataclass(frozen=True, slots=True)
class Skip:
    """Why something was not asked.

    Attributes:
        reason: in words that many may share.
        detail: the whole sentence, with the file or the caption.
    """

    reason: str
    detail: str


UNKNOWN = Skip("there is no answer", "there is no answer")


@dataclass(frozen=True, slots=True)
class Skips:
    """What a model could not be asked, by content ids and by score.

    Attributes:
        images: images that cannot be read, whatever the score.
        texts: (score, caption) that the model does not read.
        pairs: (score, image, caption) that the model refuses.
    """

    images: dict[str, Skip] = field(default_factory=dict)
    texts: dict[tuple[str, str], Skip] = field(default_factory=dict)
    pairs: dict[tuple[str, str, str], Skip] = field(default_factory=dict)

    def why(self, score: str, image: str, text: str) -> Skip | None:
        """Why a pair has no answer; None when nothing is known against it."""
        return (
            self.images.get(image)
            or self.texts.get((score, text))
            or self.pairs.get((score, image, text))
        )

    def refuse(self, score: str, image: str, text: str, skip: Skip) -> None:
        """Note what the model refuses: an image, a caption, or the two together."""
        if image and text:
            self.pairs[score, image, text] = skip
        elif text:
            self.texts[score, text] = skip
        else:
            self.images[image] = skip


def unreadable(error: InputError) -> Skip:
    """An image that cannot be opened; the reason is the message without its particulars."""
    return Skip(error.message.partition(" (")[0].rstrip("."), str(error).rstrip("."))


def refused(error: InputError, what: str) -> Skip:
    """Something that the model itself refuses."""
    return Skip(f"the model refuses the {what}", str(error).rstrip("."))


def counted(skips: Iterable[Skip]) -> Mapping[str, int]:
    """How many there are for each reason, the most frequent first."""
    return dict(Counter(skip.reason for skip in skips).most_common())
