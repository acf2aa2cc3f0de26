"""Skipped images, captions and pairs, each with its reason: nothing is left out in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contrapose.errors import InputError


@dataclass(frozen=True, slots=True)
class Skip:
    """Reason why an image, caption or pair was skipped.

    Attributes:
        reason: in words that many may share.
        detail: the whole sentence, with the file or the caption.
    """

    reason: str
    detail: str


UNKNOWN_SKIP = Skip("there is no answer", "there is no answer")


@dataclass(frozen=True, slots=True)
class Skips:
    """Skipped images, captions and pairs of a model, by content id and score.

    Attributes:
        images: images that cannot be read, whatever the score.
        texts: (score, caption) that the model does not read.
        pairs: (score, image, caption) that the model refuses.
    """

    images: dict[str, Skip] = field(default_factory=dict)
    texts: dict[tuple[str, str], Skip] = field(default_factory=dict)
    pairs: dict[tuple[str, str, str], Skip] = field(default_factory=dict)

    def why(self, score: str, image: str, text: str) -> Skip | None:
        """Return why a pair was skipped; None when it was not."""
        return (
            self.images.get(image)
            or self.texts.get((score, text))
            or self.pairs.get((score, image, text))
        )

    def refuse(self, score: str, image: str, text: str, skip: Skip) -> None:
        """Record that the model refuses an image, a caption, or the pair."""
        if image and text:
            self.pairs[score, image, text] = skip
        elif text:
            self.texts[score, text] = skip
        else:
            self.images[image] = skip


def unreadable_skip(error: InputError) -> Skip:
    """Build the skip of an image that cannot be opened; the reason has no particulars."""
    return Skip(error.message.partition(" (")[0].rstrip("."), str(error).rstrip("."))


def refusal_skip(error: InputError, what: str) -> Skip:
    """Build the skip of an input that the model itself refuses."""
    return Skip(f"the model refuses the {what}", str(error).rstrip("."))


def count_reasons(skips: Iterable[Skip]) -> Mapping[str, int]:
    """Count skips by reason, the most frequent first."""
    return dict(Counter(skip.reason for skip in skips).most_common())
