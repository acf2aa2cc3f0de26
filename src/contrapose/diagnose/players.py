"""Players of a game: word groups and image regions, the protocol of their finders, and a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from contrapose.data import Example
from contrapose.engine import RegionMask
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Record,
    StrictProblems,
    parse_records,
    read_jsonl_records,
)
from contrapose.models.masking.text import Span

MAX_PLAYERS = 16
"""The most players of a game: 2**16 coalitions are still scored exactly."""

WordGroups = Mapping[str, tuple[Span, ...]]
"""Players of a caption: the character spans of their words, by name."""
RegionMasks = Mapping[str, RegionMask]
"""Players of an image: their masks, by name."""


@dataclass(frozen=True, slots=True)
class MissingPlayers:
    """Reason why the players of an example cannot be found, without the example's particulars."""

    reason: str


def union_players(players: Sequence[Mapping[str, object]], order: Sequence[str]) -> tuple[str, ...]:
    """Player names of all captions (images) of an example, in canonical order."""
    names = list(dict.fromkeys(name for one in players for name in one))
    rank = {name: position for position, name in enumerate(order)}
    return tuple(sorted(names, key=lambda name: (rank.get(name, len(rank)), names.index(name))))


def require_few_players(players: int, what: str) -> None:
    """Require no more players than can be played exactly.

    Raises:
        InputError: there are more than `MAX_PLAYERS`.
    """
    if players > MAX_PLAYERS:
        raise InputError(
            f"there are {players} {what}, and {MAX_PLAYERS} is the most that are played exactly: "
            f"use {option('players', 'groups')}, or fewer."
        )


P = TypeVar("P")

FileKey = tuple[str, int]
"""Example, and position of its caption or image, of a line in a user's file."""


def read_players(
    file: Path, parse: Callable[[Record], tuple[FileKey, P]], one: str, players: str
) -> dict[FileKey, tuple[P, int]]:
    """Players from a user's JSONL file by example and caption (image), with the line.

    Args:
        file: the file.
        parse: the key and the players of a record.
        one: `caption` or `image`.
        players: the players in words.

    Raises:
        InputError: a record is malformed or comes twice, or there is none.
    """
    known: dict[FileKey, tuple[P, int]] = {}
    records = read_jsonl_records(file, StrictProblems())
    parsed = parse_records(records, lambda record: (parse(record), record.line), StrictProblems())
    for (key, value), line in parsed:
        if key in known:
            raise InputError(f"example {key[0]} has {one} {key[1]} twice.", file=file, line=line)
        known[key] = value, line
    if not known:
        raise InputError(f"holds no {players}.", file=file)
    return known


def named_players(record: Record, field: str, one: str, several: str) -> Mapping[str, Any]:
    """Players that a record names in one of its fields: at least one, and not too many.

    Raises:
        MalformedError: it names none, or too many.
    """
    players = record.field(field)
    if not isinstance(players, dict) or not players:
        raise MalformedError(f"record {record.key}: {field!r} must name at least one {one}.")
    try:
        require_few_players(len(players), several)
    except InputError as error:
        raise MalformedError(f"record {record.key}: {error.message}") from None
    return players


class PlayerFinder(Protocol[P]):
    """Protocol: finds the players of captions (`WordFinder`) or images (`RegionFinder`)."""

    @property
    def name(self) -> str:
        """Description of the source, in words."""

    @property
    def joint(self) -> bool:
        """Whether the captions (images) of an example share one game; else each has its own."""

    def find(self, examples: Sequence[Example]) -> list[Sequence[P] | MissingPlayers]:
        """Players of each caption or image, per example."""


WordFinder = PlayerFinder[WordGroups]
RegionFinder = PlayerFinder[RegionMasks]


@dataclass(frozen=True)
class PlayerCache(Generic[P]):
    """Finder that looks up the players of each example once.

    Attributes:
        source: the finder behind the cache.
        players: players by the example's id.
    """

    source: PlayerFinder[P]
    players: dict[str, Sequence[P] | MissingPlayers] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Description of the source, in words."""
        return self.source.name

    @property
    def joint(self) -> bool:
        """Whether the captions (images) of an example share one game."""
        return self.source.joint

    def find(self, examples: Sequence[Example]) -> list[Sequence[P] | MissingPlayers]:
        """Players of each caption or image, per example; known examples come from the cache."""
        new = [example for example in examples if example.id not in self.players]
        for example, players in zip(new, self.source.find(new), strict=True):
            self.players[example.id] = players
        return [self.players[example.id] for example in examples]


WordCache = PlayerCache[WordGroups]
RegionCache = PlayerCache[RegionMasks]


GameSide = Literal["text", "image", "mutual", "all"]


Exchange = Literal["captions", "images"]
