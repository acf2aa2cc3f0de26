"""Players that were found once: games, findings and pictures all ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from contrapose.data import Example
from contrapose.diagnose.players import Groups, Masks, Missing

P = TypeVar("P")


class Finds(Protocol[P]):
    """`Words` or `Regions`: who finds the players of captions, or of images."""

    @property
    def name(self) -> str:
        """Where they come from."""

    @property
    def joint(self) -> bool:
        """Whether the captions, or images, of an example have the same players."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[P] | Missing]:
        """The players of each caption, or image."""


@dataclass(frozen=True)
class Remembered(Generic[P]):
    """Players, found once for each example.

    Attributes:
        source: who finds them.
        found: by the example's id.
    """

    source: Finds[P]
    found: dict[str, Sequence[P] | Missing] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Where they come from."""
        return self.source.name

    @property
    def joint(self) -> bool:
        """Whether the captions, or images, of an example have the same players."""
        return self.source.joint

    def find(self, examples: Sequence[Example]) -> list[Sequence[P] | Missing]:
        """The players of each caption, or image."""
        new = [example for example in examples if example.id not in self.found]
        for example, players in zip(new, self.source.find(new), strict=True):
            self.found[example.id] = players
        return [self.found[example.id] for example in examples]


RememberedWords = Remembered[Groups]
RememberedRegions = Remembered[Masks]
