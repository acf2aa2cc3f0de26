"""What all changes of captions have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from contrapose.world.captions.caption import Caption
from contrapose.world.captions.draws import Draws
from contrapose.world.captions.mention import Mention
from contrapose.world.captions.mentioning import draw_word
from contrapose.world.captions.truth import is_true
from contrapose.world.captions.words import Place, Slot
from contrapose.world.scene import COLORS, MATERIALS, PATTERNS, SHAPES, Scene

S = TypeVar("S", bound=str)
Weights = Mapping[str, float]
"""How often each value is drawn; those that are not named never are. Counts are named "1" … "5"."""


class Change(Protocol):
    """A way to make a true caption false."""

    def __call__(
        self,
        caption: Caption,
        scene: Scene,
        rng: np.random.Generator,
        *,
        weights: Weights | None = None,
    ) -> Caption | None:
        """The changed caption, or None if it cannot be made false so."""


VALUES: Mapping[Slot, Sequence[str]] = {
    "shape": SHAPES,
    "color": tuple(COLORS),
    "size": ("small", "large"),
    "material": MATERIALS,
    "pattern": PATTERNS,
}
"""What a slot can be changed to; "medium" is left out, as captions hardly ever say it."""


def ordered(values: Sequence[S], draws: Draws, weights: Weights | None) -> list[S]:
    """Values in random order: uniformly, or by weight."""
    if weights is None:
        return draws.shuffled(values)
    return draws.by_weight(values, [weights.get(value, 0.0) for value in values])


def word_for(
    caption: Caption, slot: Slot, value: str, draws: Draws, place: Place | None = None
) -> int:
    """The word that the caption has for a shape or colour already; else one drawn by weight."""
    if slot in {"shape", "color"}:
        for mention in caption.mentions:
            if mention.value(slot) == value:
                return mention.choice(slot)
    return draw_word(slot, value, draws, place)


def with_mention(caption: Caption, index: int, mention: Mention) -> Caption:
    """The caption with one mention put in the place of another."""
    mentions = list(caption.mentions)
    mentions[index] = mention
    return replace(caption, mentions=tuple(mentions))


def first_false(captions: Iterable[Caption], scene: Scene) -> Caption | None:
    """The first that is false of the scene beyond doubt."""
    return next((each for each in captions if is_true(each, scene) is False), None)
