"""Who plays: word groups of captions and regions of images, or why an example has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from contrapose.data import Example
from contrapose.errors import InputError
from contrapose.models.masks import Span
from contrapose.scoring.hidden import Mask

MOST = 16
"""Players of a game at the most: 2**16 coalitions are still played exactly."""

Groups = Mapping[str, tuple[Span, ...]]
"""The players of a caption: by name, where their words are."""
Masks = Mapping[str, Mask]
"""The players of an image: by name, where they are seen."""


@dataclass(frozen=True, slots=True)
class Missing:
    """An example whose players cannot be found, and why, without its own particulars."""

    reason: str


class Words(Protocol):
    """Finds the word groups of captions."""

    @property
    def name(self) -> str:
        """Where they come from, in words."""

    @property
    def joint(self) -> bool:
        """Whether the captions of an example have the same players; otherwise each has a game."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """For each example the groups of each of its captions."""


class Regions(Protocol):
    """Finds the regions of images."""

    @property
    def name(self) -> str:
        """Where they come from, in words."""

    @property
    def joint(self) -> bool:
        """Whether the images of an example have the same players; otherwise each has a game."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[Masks] | Missing]:
        """For each example the regions of each of its images."""


def shared(each: Sequence[Mapping[str, object]], order: Sequence[str]) -> tuple[str, ...]:
    """The names that all captions (images) of an example have, in a usual order."""
    names = [name for name in each[0] if all(name in one for one in each)]
    rank = {name: place for place, name in enumerate(order)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), names.index(name))))


def require_few(players: int, what: str) -> None:
    """Refuse more players than can be played exactly.

    Raises:
        InputError: there are more.
    """
    if players > MOST:
        raise InputError(
            f"there are {players} {what}, and {MOST} is the most that are played exactly: "
            "use --players groups, or fewer."
        )
