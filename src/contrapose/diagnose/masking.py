"""Coalitions made visible: captions and images in which only some players are present."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contrapose.data import ImageRef
from contrapose.diagnose.players import Groups, Masks
from contrapose.errors import InputError
from contrapose.models import Model
from contrapose.models.blanking import blanks, zero_colour
from contrapose.models.masks import TEXT_MASKS, ZERO, hide
from contrapose.scoring.hidden import COLOUR, IMAGE_MASKS, Filling, hidden_ref


@dataclass(frozen=True, slots=True)
class Baseline:
    """What stands in place of absent players.

    Attributes:
        text: how words are hidden.
        image: how regions are hidden.
        seed: of noise.
    """

    text: str = ZERO
    image: str = ZERO
    seed: int = 0

    def in_words(self, side: str = "all") -> str:
        """One line for results; of the text or the image side alone where only that plays."""
        known = {"text": TEXT_MASKS[self.text], "image": IMAGE_MASKS[self.image]}
        return known.get(side) or "; ".join(known.values())


def parse_baseline(text: str, seed: int = 0) -> Baseline:
    """A baseline as it is typed: a name or two, such as `zero`, `delete` or `pad,blur`.

    A name that words and regions share is for both; `text=zero` and `image=zero` are for one.

    Raises:
        InputError: there is no such name, or two are for the same side.
    """
    tables = {"text": TEXT_MASKS, "image": IMAGE_MASKS}
    sides: dict[str, str] = {}
    for part in text.split(","):
        side, _, name = part.strip().rpartition("=")
        named = [each for each in tables if name in tables[each] and side in ("", each)]
        if not named:
            raise InputError(
                f"there is no baseline {part.strip()!r}: words are hidden by "
                f"{', '.join(TEXT_MASKS)}, regions by {', '.join(IMAGE_MASKS)}."
            )
        for each in named:
            if each in sides:
                what = "words" if each == "text" else "regions"
                raise InputError(f"--baseline {text} names two ways to hide {what}.")
            sides[each] = name
    return Baseline(sides.get("text", ZERO), sides.get("image", ZERO), seed)


def filling_for(model: Model, baseline: Baseline) -> tuple[Filling, tuple[str, ...]]:
    """What stands in place of hidden regions for a model, and what a reader should know of it.

    A model that takes no plain pixels gets the nearest colour, drawn into the picture.

    Raises:
        InputError: there is no such way.
    """
    if baseline.image not in IMAGE_MASKS:
        raise InputError(
            f"regions cannot be hidden by {baseline.image!r}; there are {', '.join(IMAGE_MASKS)}."
        )
    if baseline.image != ZERO or blanks(model):
        return Filling(baseline.image, seed=baseline.seed), ()
    colour = zero_colour(model)
    shown = ", ".join(f"{255 * value:.0f}" for value in colour)
    note = (
        f"{model.name} takes no plain pixels: hidden regions are painted in the colour ({shown}), "
        "the nearest to zero that is known, before it prepares the image"
    )
    return Filling(COLOUR, colour), (note,)


def text_coalitions(caption: str, groups: Groups, players: Sequence[str], kind: str) -> list[str]:
    """(2**b,) the caption with each coalition of players present, bit i for the i-th."""
    return [
        hide(caption, [span for name in absent for span in groups[name]], kind)
        for absent in _absent(players)
    ]


def image_coalitions(
    ref: ImageRef, name: str, masks: Masks, players: Sequence[str], filling: Filling
) -> list[ImageRef]:
    """(2**a,) the image with each coalition of players present, bit i for the i-th.

    Args:
        ref: the image.
        name: its content id.
        masks: where the players are.
        players: who they are.
        filling: what stands in place of the absent.
    """
    return [
        hidden_ref(ref, name, [masks[player] for player in absent], filling)
        for absent in _absent(players)
    ]


def _absent(players: Sequence[str]) -> list[list[str]]:
    return [
        [name for place, name in enumerate(players) if not coalition >> place & 1]
        for coalition in range(1 << len(players))
    ]
