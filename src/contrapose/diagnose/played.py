"""Games that were played: a model's score for every coalition of regions and words.

A coalition is a bit mask: along an axis of length 2**n, bit i of index s says that player i is
present. What belongs to no player (other words, the rest of a picture) is always there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An example that was not played, and why, in one sentence."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """The games of k examples that have the same players; other players make another block.

    Attributes:
        ids: (k,) the examples' ids.
        images: (k, m) what tells the examples' images apart, such as their content ids: examples
            that share an image are drawn together in a resample.
        match: (k, m, n) true where image and caption belong together.
        values: (k, m, n, 2**a, 2**b) float64, the score of image i with caption j when only the
            image players of coalition s and the text players of coalition t are present. NaN where
            it was not asked.
        image_players: (a,) names along the image axis, bit 0 first: "O1", "O2".
        text_players: (b,) names along the text axis, bit 0 first: "O", "R", "A".
        encodings: images and captions that were encoded for this block; what an earlier block
            had encoded already counts there.
        pairs: pairs that were scored one by one, counted alike.
        naive: what asking every cell of every game anew would have taken, in the same unit.
        left_out: examples without a game. They belong to no players: any block may carry them, and
            one without examples (k = 0) if there is no other.
    """

    ids: tuple[str, ...]
    images: tuple[tuple[str, ...], ...]
    match: BoolArray
    values: FloatArray
    image_players: tuple[str, ...]
    text_players: tuple[str, ...]
    encodings: int = 0
    pairs: int = 0
    naive: int = 0
    left_out: tuple[LeftOut, ...] = ()

    def __post_init__(self) -> None:
        shape = self.values.shape
        players = (2 ** len(self.image_players), 2 ** len(self.text_players))
        if len(shape) != 5 or shape[0] != len(self.ids) or shape[3:] != players:
            raise InputError(
                f"the games of {len(self.ids)} examples with {len(self.image_players)} image and "
                f"{len(self.text_players)} text players must be of shape "
                f"({len(self.ids)}, m, n, {players[0]}, {players[1]}), not {shape}."
            )
        if self.values.dtype != np.float64:
            raise InputError(f"a game's values must be float64, not {self.values.dtype}.")
        if self.match.shape != shape[:3]:
            raise InputError(f"match must be of shape {shape[:3]}, not {self.match.shape}.")
        if len(self.images) != shape[0] or any(len(row) != shape[1] for row in self.images):
            raise InputError(f"images must name {shape[1]} images for each of {shape[0]} examples.")

    def only(self, ids: Collection[str]) -> Played:
        """The games of these examples alone; counts and what was left out stay as they are."""
        wanted = set(ids)
        keep = [place for place, id_ in enumerate(self.ids) if id_ in wanted]
        return replace(
            self,
            ids=tuple(self.ids[place] for place in keep),
            images=tuple(self.images[place] for place in keep),
            match=self.match[keep],
            values=self.values[keep],
        )
