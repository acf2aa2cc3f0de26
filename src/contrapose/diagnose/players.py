"""Players of a game: protocols for finding word groups and image regions, and a cache for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from contrapose.data import Example
from contrapose.engine.images import RegionMask
from contrapose.errors import InputError
from contrapose.models.masking.text import Span

MAX_PLAYERS = 16
"""Players of a game at the most: 2**16 coalitions are still played exactly."""

WordGroups = Mapping[str, tuple[Span, ...]]
"""The players of a caption: by name, where their words are."""
RegionMasks = Mapping[str, RegionMask]
"""The players of an image: by name, where they are seen."""


@dataclass(frozen=True, slots=True)
class MissingPlayers:
    """Reason why the players of an example cannot be found, without the example's particulars."""

    reason: str


class WordFinder(Protocol):
    """Protocol: finds the word groups of captions."""

    @property
    def name(self) -> str:
        """Description of the source, in words."""

    @property
    def joint(self) -> bool:
        """Whether the captions of an example share one game; otherwise each caption has its own."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption, per example."""


class RegionFinder(Protocol):
    """Protocol: finds the regions of images."""

    @property
    def name(self) -> str:
        """Description of the source, in words."""

    @property
    def joint(self) -> bool:
        """Whether the images of an example share one game; otherwise each image has its own."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[RegionMasks] | MissingPlayers]:
        """Region masks of each image, per example."""


def shared_players(each: Sequence[Mapping[str, object]], order: Sequence[str]) -> tuple[str, ...]:
    """Player names that all captions (images) of an example share, in canonical order."""
    names = [name for name in each[0] if all(name in one for one in each)]
    rank = {name: place for place, name in enumerate(order)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), names.index(name))))


def require_few_players(players: int, what: str) -> None:
    """Refuse more players than can be played exactly.

    Raises:
        InputError: there are more.
    """
    if players > MAX_PLAYERS:
        raise InputError(
            f"there are {players} {what}, and {MAX_PLAYERS} is the most that are played exactly: "
            "use --players groups, or fewer."
        )


P = TypeVar("P")


class PlayerFinder(Protocol[P]):
    """Protocol of `WordFinder` and `RegionFinder`: finds the players of captions or images."""

    @property
    def name(self) -> str:
        """Description of the source, in words."""

    @property
    def joint(self) -> bool:
        """Whether the captions, or images, of an example have the same players."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[P] | MissingPlayers]:
        """Players of each caption or image, per example."""


@dataclass(frozen=True)
class PlayerCache(Generic[P]):
    """Cache of players: each example's are found once.

    Attributes:
        source: who finds them.
        found: by the example's id.
    """

    source: PlayerFinder[P]
    found: dict[str, Sequence[P] | MissingPlayers] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Description of the source, in words."""
        return self.source.name

    @property
    def joint(self) -> bool:
        """Whether the captions, or images, of an example have the same players."""
        return self.source.joint

    def find(self, examples: Sequence[Example]) -> list[Sequence[P] | MissingPlayers]:
        """Players of each caption or image, per example; known examples come from the cache."""
        new = [example for example in examples if example.id not in self.found]
        for example, players in zip(new, self.source.find(new), strict=True):
            self.found[example.id] = players
        return [self.found[example.id] for example in examples]


WordCache = PlayerCache[WordGroups]
RegionCache = PlayerCache[RegionMasks]
