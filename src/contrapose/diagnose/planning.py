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
    union_players,
)
from contrapose.diagnose.regions import OBJECT_PLAYERS
from contrapose.engine import Filling
from contrapose.engine.images import COLOR, IMAGE_MASKS, mask_image
from contrapose.errors import InputError, option
from contrapose.models import Model
from contrapose.models.masking.images import can_mask_pixels, zero_color
from contrapose.models.masking.text import TEXT_MASKS, ZERO, hide


@dataclass(frozen=True, slots=True)
class Baseline:
    """Baseline: the replacement for absent players.

    Attributes:
        text: name of the text mask, such as `zero` or `delete`.
        image: name of the image mask, such as `zero` or `blur`.
        seed: seed of noise.
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
        meant = [one for one in tables if name in tables[one] and side in ("", one)]
        if not meant:
            raise InputError(
                f"there is no baseline {part.strip()!r}: words are hidden by "
                f"{', '.join(TEXT_MASKS)}, regions by {', '.join(IMAGE_MASKS)}."
            )
        for one in meant:
            if one in sides:
                what = "words" if one == "text" else "regions"
                raise InputError(f"{option('baseline', text)} names two ways to hide {what}.")
            sides[one] = name
    return Baseline(sides.get("text", ZERO), sides.get("image", ZERO), seed)


def choose_fill(model: Model, baseline: Baseline) -> tuple[Filling, tuple[str, ...]]:
    """Choose the fill of hidden regions for a model, with notes for the reader.

    For a model that takes no plain pixels, regions are painted in the color nearest to zero before
    its image processor runs.

    Raises:
        InputError: there is no such image mask.
    """
    if baseline.image not in IMAGE_MASKS:
        raise InputError(
            f"regions cannot be hidden by {baseline.image!r}; there are {', '.join(IMAGE_MASKS)}."
        )
    if baseline.image != ZERO or can_mask_pixels(model):
        return Filling(baseline.image, seed=baseline.seed), ()
    color = zero_color(model)
    rgb = ", ".join(f"{255 * value:.0f}" for value in color)
    note = (
        f"{model.name} takes no plain pixels: hidden regions are painted in the colour ({rgb}), "
        "the nearest to zero that is known, before it prepares the image"
    )
    return Filling(COLOR, color), (note,)


def text_coalitions(
    caption: str, groups: WordGroups, players: Sequence[str], kind: str
) -> list[str]:
    """(2**b,) the caption with each coalition of players present, bit i for the i-th.

    A player that the caption lacks changes nothing.
    """
    return [
        hide(caption, [span for name in absent for span in groups.get(name, ())], kind)
        for absent in _absent_players(players)
    ]


def image_coalitions(
    ref: ImageRef, name: str, masks: RegionMasks, players: Sequence[str], filling: Filling
) -> list[ImageRef]:
    """(2**a,) the image with each coalition of players present, bit i for the i-th.

    Args:
        ref: the image.
        name: its content id.
        masks: the players' masks; a player without one changes nothing.
        players: the players' names, bit 0 first.
        filling: fill of the absent players' regions.
    """
    return [
        mask_image(ref, name, [masks[player] for player in absent if player in masks], filling)
        for absent in _absent_players(players)
    ]


def _absent_players(players: Sequence[str]) -> list[list[str]]:
    return [
        [name for bit, name in enumerate(players) if not coalition >> bit & 1]
        for coalition in range(1 << len(players))
    ]


T = TypeVar("T", WordGroups, RegionMasks)


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Planned game of one example.

    Attributes:
        id: the example's id; with a number where each caption or image has a game of its own.
        names: content ids of its images.
        images: (m, 2**a) its images with each coalition present.
        texts: (n, 2**b) its captions with each coalition present.
        match: (m, n) whether image and caption belong together.
        image_players: (a,) names of the image players.
        text_players: (b,) names of the text players.
        has_regions: (m, a) whether the image has the player.
        has_words: (n, b) whether the caption has the player.
    """

    id: str
    names: tuple[str, ...]
    images: tuple[tuple[ImageRef, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    match: tuple[tuple[bool, ...], ...]
    image_players: tuple[str, ...]
    text_players: tuple[str, ...]
    has_regions: tuple[tuple[bool, ...], ...]
    has_words: tuple[tuple[bool, ...], ...]

    @property
    def kind(self) -> tuple[tuple[str, ...], tuple[str, ...], int, int]:
        """Key of games that form one block: players and shape."""
        return self.image_players, self.text_players, len(self.images), len(self.texts)


@dataclass(frozen=True, slots=True)
class PlayerGroup:
    """Captions (or images) that play in one game, with the players that at least one of them has.

    Attributes:
        positions: positions of these captions in the example.
        players: names of the players.
        label: suffix of the game's id, where the example has several games.
    """

    positions: tuple[int, ...]
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

    An example with players on one side only is played with these, and is listed as well.

    Args:
        examples: m images × n captions each.
        names: content ids of their images.
        words: finder of word groups; None where words do not play.
        regions: finder of regions; None where they do not play.
        baseline: the text mask.
        filling: fill of hidden regions.
    """
    groups_of = words.find(examples) if words else [None] * len(examples)
    masks_of = regions.find(examples) if regions else [None] * len(examples)
    games: list[Game] = []
    unplayed: list[UnplayedExample] = []
    for example, ids, groups, masks in zip(examples, names, groups_of, masks_of, strict=True):
        captions = _player_groups(groups, len(example.texts), words, "text")
        images = _player_groups(masks, len(example.images), regions, "image")
        missing = [side.reason for side in (captions, images) if isinstance(side, MissingPlayers)]
        if len(missing) == (words is not None) + (regions is not None):
            unplayed.append(UnplayedExample(example.id, "; ".join(missing)))
            continue
        if missing:
            what = "words" if isinstance(images, MissingPlayers) else "regions"
            unplayed.append(UnplayedExample(example.id, f"only its {what} play: {missing[0]}"))
        for caption_group in _groups_or_empty(captions, len(example.texts)):
            for image_group in _groups_or_empty(images, len(example.images)):
                game = _build_game(
                    example, ids, groups, masks, caption_group, image_group, baseline, filling
                )
                if isinstance(game, MissingPlayers):
                    unplayed.append(UnplayedExample(example.id, game.reason))
                else:
                    games.append(game)
    return games, unplayed


def _player_groups(
    players: Sequence[Mapping[str, object]] | MissingPlayers | None,
    count: int,
    source: WordFinder | RegionFinder | None,
    what: str,
) -> list[PlayerGroup] | MissingPlayers:
    """Groups of captions (images) that play together; no players where the side does not play."""
    if source is None or players is None:
        return [PlayerGroup(tuple(range(count)), ())]
    if isinstance(players, MissingPlayers):
        return players
    if source.joint:
        names = union_players(players, (*GROUPS, *OBJECT_PLAYERS))
        if not names:
            return MissingPlayers("there are no players in it")
        return [PlayerGroup(tuple(range(count)), names)]
    groups = [
        PlayerGroup((index,), tuple(one), f"/{what}-{index}" if count > 1 else "")
        for index, one in enumerate(players)
    ]
    if not all(group.players for group in groups):
        return MissingPlayers("there are no players in it")
    return groups


def _groups_or_empty(groups: list[PlayerGroup] | MissingPlayers, count: int) -> list[PlayerGroup]:
    return [PlayerGroup(tuple(range(count)), ())] if isinstance(groups, MissingPlayers) else groups


def _build_game(
    example: Example,
    names: Sequence[str],
    groups: Sequence[WordGroups] | MissingPlayers | None,
    masks: Sequence[RegionMasks] | MissingPlayers | None,
    captions: PlayerGroup,
    images: PlayerGroup,
    baseline: Baseline,
    filling: Filling,
) -> Game | MissingPlayers:
    players = len(captions.players) + len(images.players)
    if players > MAX_PLAYERS:
        return MissingPlayers(
            f"it has {players} players, and {MAX_PLAYERS} is the most that are played exactly"
        )
    texts = [
        tuple(
            text_coalitions(
                example.texts[j], _players_at(groups, j), captions.players, baseline.text
            )
        )
        for j in captions.positions
    ]
    if not all(text.strip() for row in texts for text in row):
        return MissingPlayers("nothing is left of a caption when all players are deleted")
    masked = [
        tuple(
            image_coalitions(
                example.images[i], names[i], _players_at(masks, i), images.players, filling
            )
        )
        for i in images.positions
    ]
    return Game(
        id=f"{example.id}{images.label}{captions.label}",
        names=tuple(names[i] for i in images.positions),
        images=tuple(masked),
        texts=tuple(texts),
        match=tuple(
            tuple(example.match[i][j] for j in captions.positions) for i in images.positions
        ),
        image_players=images.players,
        text_players=captions.players,
        has_regions=_find_presence(masks, images),
        has_words=_find_presence(groups, captions),
    )


def _find_presence(
    players: Sequence[Mapping[str, object]] | MissingPlayers | None, group: PlayerGroup
) -> tuple[tuple[bool, ...], ...]:
    """Whether each caption (or image) of a group has each of its players."""
    if players is None or isinstance(players, MissingPlayers):
        return ((),) * len(group.positions)
    return tuple(tuple(name in players[j] for name in group.players) for j in group.positions)


def _players_at(players: Sequence[T] | MissingPlayers | None, index: int) -> T:
    empty: T = {}
    return empty if players is None or isinstance(players, MissingPlayers) else players[index]
