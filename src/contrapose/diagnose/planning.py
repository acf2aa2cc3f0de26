"""Game planning: the players of each example, and its masked captions and images per coalition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from contrapose.data import Example, ImageRef
from contrapose.data.tagging import GROUPS
from contrapose.diagnose.game_blocks import UnplayedExample
from contrapose.diagnose.players import (
    MAX_PLAYERS,
    MissingPlayers,
    RegionFinder,
    RegionMasks,
    WordFinder,
    WordGroups,
    shared_players,
)
from contrapose.diagnose.regions import OBJECT_PLAYERS
from contrapose.engine.images import COLOR, IMAGE_MASKS, Filling, mask_image
from contrapose.errors import InputError
from contrapose.models import Model
from contrapose.models.masking.images import can_mask_pixels, zero_color
from contrapose.models.masking.text import TEXT_MASKS, ZERO, hide


@dataclass(frozen=True, slots=True)
class Baseline:
    """Baseline: the replacement for absent players.

    Attributes:
        text: how words are hidden.
        image: how regions are hidden.
        seed: of noise.
    """

    text: str = ZERO
    image: str = ZERO
    seed: int = 0

    def in_words(self, side: str = "all") -> str:
        """One-line description; of a single side where only that side plays."""
        known = {"text": TEXT_MASKS[self.text], "image": IMAGE_MASKS[self.image]}
        return known.get(side) or "; ".join(known.values())


def parse_baseline(text: str, seed: int = 0) -> Baseline:
    """Parse a baseline: one or two names, such as `zero`, `delete` or `pad,blur`.

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


def choose_fill(model: Model, baseline: Baseline) -> tuple[Filling, tuple[str, ...]]:
    """Choose the fill of hidden regions for a model, with notes for the reader.

    A model that takes no plain pixels gets the nearest colour, drawn into the picture.

    Raises:
        InputError: there is no such way.
    """
    if baseline.image not in IMAGE_MASKS:
        raise InputError(
            f"regions cannot be hidden by {baseline.image!r}; there are {', '.join(IMAGE_MASKS)}."
        )
    if baseline.image != ZERO or can_mask_pixels(model):
        return Filling(baseline.image, seed=baseline.seed), ()
    colour = zero_color(model)
    shown = ", ".join(f"{255 * value:.0f}" for value in colour)
    note = (
        f"{model.name} takes no plain pixels: hidden regions are painted in the colour ({shown}), "
        "the nearest to zero that is known, before it prepares the image"
    )
    return Filling(COLOR, colour), (note,)


def text_coalitions(
    caption: str, groups: WordGroups, players: Sequence[str], kind: str
) -> list[str]:
    """(2**b,) the caption with each coalition of players present, bit i for the i-th."""
    return [
        hide(caption, [span for name in absent for span in groups[name]], kind)
        for absent in _absent_players(players)
    ]


def image_coalitions(
    ref: ImageRef, name: str, masks: RegionMasks, players: Sequence[str], filling: Filling
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
        mask_image(ref, name, [masks[player] for player in absent], filling)
        for absent in _absent_players(players)
    ]


def _absent_players(players: Sequence[str]) -> list[list[str]]:
    return [
        [name for place, name in enumerate(players) if not coalition >> place & 1]
        for coalition in range(1 << len(players))
    ]


T = TypeVar("T", WordGroups, RegionMasks)


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Planned game of one example.

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
        """Key of games that form one block: players and shape."""
        return self.image_players, self.text_players, len(self.images), len(self.texts)


@dataclass(frozen=True, slots=True)
class PlayerGroup:
    """Captions (or images) that play in one game, with their common players.

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
    words: WordFinder | None,
    regions: RegionFinder | None,
    baseline: Baseline,
    filling: Filling,
) -> tuple[list[Game], list[UnplayedExample]]:
    """Plan the games of examples, and list the examples that cannot be played with reasons.

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
    left: list[UnplayedExample] = []
    for example, own, groups, masks in zip(examples, names, spoken, seen, strict=True):
        captions = _player_groups(groups, len(example.texts), words, "text")
        images = _player_groups(masks, len(example.images), regions, "image")
        missing = [each.reason for each in (captions, images) if isinstance(each, MissingPlayers)]
        if len(missing) == (words is not None) + (regions is not None):
            left.append(UnplayedExample(example.id, "; ".join(missing)))
            continue
        if missing:
            what = "words" if isinstance(images, MissingPlayers) else "regions"
            left.append(UnplayedExample(example.id, f"only its {what} play: {missing[0]}"))
        for heard in _groups_or_empty(captions, len(example.texts)):
            for looked in _groups_or_empty(images, len(example.images)):
                game = _build_game(example, own, groups, masks, heard, looked, baseline, filling)
                if isinstance(game, MissingPlayers):
                    left.append(UnplayedExample(example.id, game.reason))
                else:
                    games.append(game)
    return games, left


def _player_groups(
    found: Sequence[Mapping[str, object]] | MissingPlayers | None,
    count: int,
    source: WordFinder | RegionFinder | None,
    what: str,
) -> list[PlayerGroup] | MissingPlayers:
    """Groups of captions (images) that play together; no players where the side does not play."""
    if source is None or found is None:
        return [PlayerGroup(tuple(range(count)), ())]
    if isinstance(found, MissingPlayers):
        return found
    if source.joint:
        players = shared_players(found, (*GROUPS, *OBJECT_PLAYERS))
        if not players:
            every = "caption" if what == "text" else "image"
            return MissingPlayers(f"there is no player that each {every} has")
        return [PlayerGroup(tuple(range(count)), players)]
    seats = [
        PlayerGroup((place,), tuple(each), f"/{what}-{place}" if count > 1 else "")
        for place, each in enumerate(found)
    ]
    return (
        seats
        if all(each.players for each in seats)
        else MissingPlayers("there are no players in it")
    )


def _groups_or_empty(seats: list[PlayerGroup] | MissingPlayers, count: int) -> list[PlayerGroup]:
    return [PlayerGroup(tuple(range(count)), ())] if isinstance(seats, MissingPlayers) else seats


def _build_game(
    example: Example,
    names: Sequence[str],
    groups: Sequence[WordGroups] | MissingPlayers | None,
    masks: Sequence[RegionMasks] | MissingPlayers | None,
    heard: PlayerGroup,
    looked: PlayerGroup,
    baseline: Baseline,
    filling: Filling,
) -> Game | MissingPlayers:
    players = len(heard.players) + len(looked.players)
    if players > MAX_PLAYERS:
        return MissingPlayers(
            f"it has {players} players, and {MAX_PLAYERS} is the most that are played exactly"
        )
    texts = [
        tuple(
            text_coalitions(example.texts[j], _players_at(groups, j), heard.players, baseline.text)
        )
        for j in heard.places
    ]
    if not all(text.strip() for each in texts for text in each):
        return MissingPlayers("nothing is left of a caption when all players are deleted")
    images = [
        tuple(
            image_coalitions(
                example.images[i], names[i], _players_at(masks, i), looked.players, filling
            )
        )
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


def _players_at(found: Sequence[T] | MissingPlayers | None, place: int) -> T:
    empty: T = {}
    return empty if found is None or isinstance(found, MissingPlayers) else found[place]
