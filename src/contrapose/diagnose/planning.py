"""From examples to games: who plays in each, and what is shown for every coalition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from contrapose.data import Example, ImageRef
from contrapose.data.groups import GROUPS
from contrapose.diagnose.masking import Baseline, image_coalitions, text_coalitions
from contrapose.diagnose.played import LeftOut
from contrapose.diagnose.players import MOST, Groups, Masks, Missing, Regions, Words, shared
from contrapose.diagnose.regions import OBJECTS
from contrapose.scoring.hidden import Filling

T = TypeVar("T", Groups, Masks)


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """What is asked about one example.

    Attributes:
        id: of the example; with a number where each caption or image has a game of its own.
        names: content ids of its images.
        images: (m, 2**a) its images with each coalition present.
        texts: (n, 2**b) its captions likewise.
        match: (m, n) which belong together.
        image_players: their names.
        text_players: likewise.
    """

    id: str
    names: tuple[str, ...]
    images: tuple[tuple[ImageRef, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    match: tuple[tuple[bool, ...], ...]
    image_players: tuple[str, ...]
    text_players: tuple[str, ...]

    @property
    def kind(self) -> tuple[tuple[str, ...], tuple[str, ...], int, int]:
        """Games of one kind make a block."""
        return self.image_players, self.text_players, len(self.images), len(self.texts)


@dataclass(frozen=True, slots=True)
class Seats:
    """Captions (or images) that play together, and the players they have.

    Attributes:
        places: which of the example's captions.
        players: names that all of them have.
        label: what tells this game from others of the example.
    """

    places: tuple[int, ...]
    players: tuple[str, ...]
    label: str = ""


def plan_games(
    examples: Sequence[Example],
    names: Sequence[Sequence[str]],
    words: Words | None,
    regions: Regions | None,
    baseline: Baseline,
    filling: Filling,
) -> tuple[list[Game], list[LeftOut]]:
    """The games of examples, and what could not be played and why.

    An example that has words and no regions, or the other way round, is played with what it has,
    and is noted as well.

    Args:
        examples: m images × n captions each.
        names: their images' content ids.
        words: finds word groups; None where words do not play.
        regions: finds regions; None where they do not play.
        baseline: how words are hidden.
        filling: what stands in place of hidden regions.
    """
    spoken = words.find(examples) if words else [None] * len(examples)
    seen = regions.find(examples) if regions else [None] * len(examples)
    games: list[Game] = []
    left: list[LeftOut] = []
    for example, own, groups, masks in zip(examples, names, spoken, seen, strict=True):
        captions = _seats(groups, len(example.texts), words, "text")
        images = _seats(masks, len(example.images), regions, "image")
        missing = [each.reason for each in (captions, images) if isinstance(each, Missing)]
        if len(missing) == (words is not None) + (regions is not None):
            left.append(LeftOut(example.id, "; ".join(missing)))
            continue
        if missing:
            what = "words" if isinstance(images, Missing) else "regions"
            left.append(LeftOut(example.id, f"only its {what} play: {missing[0]}"))
        for heard in _all(captions, len(example.texts)):
            for looked in _all(images, len(example.images)):
                game = _game(example, own, groups, masks, heard, looked, baseline, filling)
                if isinstance(game, Missing):
                    left.append(LeftOut(example.id, game.reason))
                else:
                    games.append(game)
    return games, left


def _seats(
    found: Sequence[Mapping[str, object]] | Missing | None,
    count: int,
    source: Words | Regions | None,
    what: str,
) -> list[Seats] | Missing:
    """Who plays together on one side; no players where the side does not play."""
    if source is None or found is None:
        return [Seats(tuple(range(count)), ())]
    if isinstance(found, Missing):
        return found
    if source.joint:
        players = shared(found, (*GROUPS, *OBJECTS))
        if not players:
            every = "caption" if what == "text" else "image"
            return Missing(f"there is no player that each {every} has")
        return [Seats(tuple(range(count)), players)]
    seats = [
        Seats((place,), tuple(each), f"/{what}-{place}" if count > 1 else "")
        for place, each in enumerate(found)
    ]
    return seats if all(each.players for each in seats) else Missing("there are no players in it")


def _all(seats: list[Seats] | Missing, count: int) -> list[Seats]:
    return [Seats(tuple(range(count)), ())] if isinstance(seats, Missing) else seats


def _game(
    example: Example,
    names: Sequence[str],
    groups: Sequence[Groups] | Missing | None,
    masks: Sequence[Masks] | Missing | None,
    heard: Seats,
    looked: Seats,
    baseline: Baseline,
    filling: Filling,
) -> Game | Missing:
    players = len(heard.players) + len(looked.players)
    if players > MOST:
        return Missing(f"it has {players} players, and {MOST} is the most that are played exactly")
    texts = [
        tuple(text_coalitions(example.texts[j], _of(groups, j), heard.players, baseline.text))
        for j in heard.places
    ]
    if not all(text.strip() for each in texts for text in each):
        return Missing("nothing is left of a caption when all players are deleted")
    images = [
        tuple(image_coalitions(example.images[i], names[i], _of(masks, i), looked.players, filling))
        for i in looked.places
    ]
    return Game(
        id=f"{example.id}{looked.label}{heard.label}",
        names=tuple(names[i] for i in looked.places),
        images=tuple(images),
        texts=tuple(texts),
        match=tuple(tuple(example.match[i][j] for j in heard.places) for i in looked.places),
        image_players=looked.players,
        text_players=heard.players,
    )


def _of(found: Sequence[T] | Missing | None, place: int) -> T:
    empty: T = {}
    return empty if found is None or isinstance(found, Missing) else found[place]
