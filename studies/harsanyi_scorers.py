"""Scorers of the Harsanyi study whose faults are known, made from the world's truth.

A scorer knows the scene behind an image and the parsed caption. It is masked as a diagnosis masks a
model: a hidden region takes its things out of the scene, a hidden word group leaves its slots open.
Its score is a sum of terms, each 1 where it fits, and of independent noise for every coalition:

- objects: the share of the nouns whose shape is in the image;
- attributes: the share of the attribute words whose value is anywhere in the image;
- binding: the share of the phrases whose noun and attributes one thing has;
- relation: whether things that fit the two phrases stand in the relation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrapose.data import Example, ImageRef
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.planning import Baseline, Game, plan_games
from contrapose.diagnose.players import RegionFinder
from contrapose.diagnose.words import SceneWords
from contrapose.engine import Filling
from contrapose.engine.images import HiddenRegions
from contrapose.metrics import NGram, fit_ngram
from contrapose.models.masking.text import MaskedText, full_caption
from contrapose.world.benchmark import SceneImage, index_maps, parse_caption
from contrapose.world.benchmark.suite import part_data
from contrapose.world.captions import Caption, Mention
from contrapose.world.captions.words import ATTRIBUTES
from contrapose.world.scene import SIZES, Scene, Thing, camera_position, holds

FloatArray = NDArray[np.float64]

FIRST, SECOND = 0.8, 0.2
"""Weights of the first and the second noun of the scorer that hears the first one loudest."""
PRIOR_WEIGHT = 0.25
"""Weight of a nat of the language model, so that margins are about those of the other scorers."""
PRIOR_SEED, PRIOR_CAPTIONS = 7000, 400
"""Seed and number per part of the captions that the language model is fitted to."""
PRIOR_PARTS = ("location", "attribute", "swap-attribute", "swap-relation")


class Terms(NamedTuple):
    """Terms of every cell of a game, (m, n, 2**a, 2**b) each."""

    objects: FloatArray
    attributes: FloatArray
    binding: FloatArray
    relation: FloatArray
    undirected: FloatArray
    crossed: FloatArray
    reversed: FloatArray
    loudness: FloatArray
    wording: FloatArray
    layout: FloatArray


SCORERS: Mapping[str, Callable[[Terms], FloatArray]] = {
    "oracle": lambda t: t.objects + t.attributes + t.binding + t.relation,
    "objects only": lambda t: t.objects,
    "bag of words": lambda t: t.objects + t.attributes,
    "first noun loudest": lambda t: t.loudness + t.attributes,
    "relations only": lambda t: t.relation,
    "no direction": lambda t: t.objects + t.attributes + t.binding + t.undirected,
    "backwards": lambda t: t.objects + t.attributes + t.crossed + t.reversed,
    "text only": lambda t: t.wording,
    "image only": lambda t: t.layout,
    "noise": lambda t: np.zeros_like(t.objects),
}
"""Scorers by name, without their noise; noise alone has a spread of 1."""


@dataclass(frozen=True, slots=True)
class PlayedTerms:
    """Games of one kind with the terms of all their cells, (k, m, n, 2**a, 2**b) each."""

    block: GameBlock
    terms: Terms

    def score(self, scorer: str, noise: float, seed: int) -> GameBlock:
        """Block of a scorer's games, with independent noise in every cell."""
        rng = np.random.default_rng([seed, list(SCORERS).index(scorer), len(self.block.ids)])
        spread = 1.0 if scorer == "noise" else noise
        values = SCORERS[scorer](self.terms) + spread * rng.standard_normal(self.terms[0].shape)
        return replace(self.block, values=values)


def play_terms(examples: Sequence[Example], regions: RegionFinder | None) -> list[PlayedTerms]:
    """Plan the games of examples as a diagnosis does, and compute the terms of every cell.

    Args:
        examples: examples of `scenes`, with unique ids.
        regions: finder of regions; None where only words play.
    """
    names = [[_scene_image(ref).content for ref in example.images] for example in examples]
    games, _ = plan_games(examples, names, SceneWords(), regions, Baseline(), Filling())
    visible = _visible_things(games)
    wording = language_scores([text for game in games for row in game.texts for text in row])
    groups: dict[object, list[Game]] = {}
    for game in games:
        groups.setdefault(game.kind, []).append(game)
    return [_play_group(group, visible, wording) for group in groups.values()]


def _play_group(
    games: Sequence[Game],
    visible: Mapping[ImageRef, frozenset[int]],
    wording: Mapping[str, float],
) -> PlayedTerms:
    image_players, text_players, m, n = games[0].kind
    cells = [_game_terms(game, visible, wording) for game in games]
    terms = Terms(*(np.stack(column) for column in zip(*cells, strict=True)))
    count = len(games)
    block = GameBlock(
        ids=tuple(game.id for game in games),
        images=tuple(game.names for game in games),
        match=np.array([game.match for game in games], dtype=np.bool_).reshape(count, m, n),
        values=terms.objects,
        image_players=image_players,
        text_players=text_players,
        has_regions=np.array([game.has_regions for game in games], dtype=np.bool_).reshape(
            count, m, len(image_players)
        ),
        has_words=np.array([game.has_words for game in games], dtype=np.bool_).reshape(
            count, n, len(text_players)
        ),
    )
    return PlayedTerms(block, terms)


def _scene_image(ref: ImageRef) -> SceneImage:
    source = ref.source.ref.source if isinstance(ref.source, HiddenRegions) else ref.source
    if not isinstance(source, SceneImage):
        raise TypeError(f"{ref.key} is not drawn from a scene")
    return source


def _visible_things(games: Sequence[Game]) -> dict[ImageRef, frozenset[int]]:
    """Things that are not hidden in each (masked) image."""
    refs = {ref for game in games for row in game.images for ref in row}
    scenes = {(image := _scene_image(ref)).content: image.scene for ref in refs}
    maps = dict(zip(scenes, index_maps(list(scenes.values())), strict=True))
    visible = {}
    for ref in refs:
        image = _scene_image(ref)
        things = set(range(len(image.scene.things)))
        if isinstance(ref.source, HiddenRegions):
            for mask in ref.source.masks:
                things -= set(np.unique(maps[image.content][mask.array()]).tolist())
        visible[ref] = frozenset(things)
    return visible


def _game_terms(
    game: Game, visible: Mapping[ImageRef, frozenset[int]], wording: Mapping[str, float]
) -> Terms:
    shape = (
        len(game.images), len(game.texts), 1 << len(game.image_players),
        1 << len(game.text_players),
    )  # fmt: skip
    cells = np.zeros((len(Terms._fields), *shape))
    for i, row in enumerate(game.images):
        scene = _scene_image(row[-1]).scene
        for s, ref in enumerate(row):
            cells[-1, i, :, s, :] = _layout(scene, visible[ref])
            for j, texts in enumerate(game.texts):
                caption = parse_caption(full_caption(texts[-1]))
                if caption is None:
                    raise ValueError(f"{texts[-1]!r} is no caption of scenes")
                for t in range(shape[3]):
                    present = {
                        name for bit, name in enumerate(game.text_players) if t >> bit & 1
                    } | ({"O", "R", "A"} - set(game.text_players))
                    cells[:-2, i, j, s, t] = _fit(caption, scene, visible[ref], present)
    for j, texts in enumerate(game.texts):
        for t, text in enumerate(texts):
            cells[-2, :, j, :, t] = PRIOR_WEIGHT * wording[text]
    return Terms(*cells)


def _fit(
    caption: Caption, scene: Scene, visible: frozenset[int], present: set[str]
) -> tuple[float, ...]:
    """Terms of one cell but the last two, in the order of `Terms`."""
    nouns, adjectives = "O" in present, "A" in present
    things = [scene.things[k] for k in sorted(visible)]
    mentions = caption.mentions
    objects = loudness = attributes = binding = crossed = 0.0
    if nouns:
        objects = _mean(_has_shape(mention, things) for mention in mentions)
        loudness = sum(
            weight
            * max((_size(thing) for thing in things if _fits_shape(mention, thing)), default=0)
            for weight, mention in zip((FIRST, SECOND), mentions, strict=False)
        )
    if adjectives:
        attributes = _mean(
            any(getattr(thing, slot) == value for thing in things)
            for mention in mentions
            for slot, value in _attributes(mention)
        )
    if nouns and adjectives:
        said = [mention for mention in mentions if _attributes(mention)]
        binding = _mean(_has_both(mention, mention, things) for mention in said)
        if len(mentions) == 2:
            pairs = (mentions, mentions[::-1])
            crossed = _mean(_has_both(*pair, things) for pair in pairs)
    relation, undirected, backwards = _relation_terms(caption, scene, visible, present)
    return objects, attributes, binding, relation, undirected, crossed, backwards, loudness


def _relation_terms(
    caption: Caption, scene: Scene, visible: frozenset[int], present: set[str]
) -> tuple[float, float, float]:
    """Whether the relation holds between things that fit: as said, either way, the other way."""
    word = caption.relation
    if word is None or "R" not in present or len(caption.mentions) != 2:
        return 0.0, 0.0, 0.0
    firsts, seconds = (
        [
            k
            for k in sorted(visible)
            if ("O" not in present or _fits_shape(mention, scene.things[k]))
            and ("A" not in present or _fits_attributes(mention, scene.things[k]))
        ]
        for mention in caption.mentions
    )
    pairs = [(a, b) for a in firsts for b in seconds if a != b]
    forth = any(holds(scene, a, word, b) for a, b in pairs)
    back = any(holds(scene, b, word, a) for a, b in pairs)
    return float(forth), float(forth or back), float(back)


def _mean(values: Iterator[bool]) -> float:
    outcomes = list(values)
    return sum(outcomes) / len(outcomes) if outcomes else 0.0


def _attributes(mention: Mention) -> list[tuple[str, str]]:
    said = ((slot, mention.value(slot)) for slot in ATTRIBUTES)
    return [(slot, value) for slot, value in said if value is not None]


def _fits_shape(mention: Mention, thing: Thing) -> bool:
    return mention.shape is None or thing.shape == mention.shape


def _fits_attributes(mention: Mention, thing: Thing) -> bool:
    return all(getattr(thing, slot) == value for slot, value in _attributes(mention))


def _size(thing: Thing) -> float:
    return thing.radius / SIZES["small"]


def _has_shape(mention: Mention, things: Sequence[Thing]) -> bool:
    return any(_fits_shape(mention, thing) for thing in things)


def _has_both(noun: Mention, adjectives: Mention, things: Sequence[Thing]) -> bool:
    """Whether one thing has the shape of one mention and the attributes of another."""
    return any(_fits_shape(noun, thing) and _fits_attributes(adjectives, thing) for thing in things)


def _layout(scene: Scene, visible: frozenset[int]) -> float:
    """Score of an image alone: how far to the right its things stand, the larger the more."""
    return float(sum(scene.things[k].radius * camera_position(scene, k)[0] for k in visible))


def language_scores(texts: Sequence[str]) -> dict[str, float]:
    """Log-probability of the visible words of captions under a trigram model of the world."""
    model, vocabulary = _language_model()
    unknown = len(vocabulary)
    distinct = list(dict.fromkeys(texts))
    flags, numbers = [], []
    for text in distinct:
        hidden = text.hidden if isinstance(text, MaskedText) else ()
        words = list(re.finditer(r"[\w-]+|,", full_caption(text)))
        masked = [any(a < word.end() and word.start() < b for a, b in hidden) for word in words]
        flags.append(np.array(masked, dtype=np.bool_))
        numbers.append(
            [
                unknown if flag else vocabulary.get(word.group(), unknown)
                for word, flag in zip(words, masked, strict=True)
            ]
        )
    logprobs = model.corpus_logprobs(numbers)
    return {
        text: float(values[~masked].sum())
        for text, values, masked in zip(distinct, logprobs, flags, strict=True)
    }


@cache
def _language_model() -> tuple[NGram, dict[str, int]]:
    """Trigram model of true captions of the skewed world, and the numbers of its words."""
    sentences = []
    for part in PRIOR_PARTS:
        data = part_data(part, "skewed", PRIOR_CAPTIONS, PRIOR_SEED, 96)
        if not isinstance(data, Iterator):
            raise TypeError(f"{part} is no list of examples")
        for example in data:
            right = example.texts[example.match[0].index(True)]
            sentences.append(re.findall(r"[\w-]+|,", right))
    words = sorted({word for sentence in sentences for word in sentence})
    vocabulary = {word: number for number, word in enumerate(words)}
    numbers = [[vocabulary[word] for word in sentence] for sentence in sentences]
    return fit_ngram(numbers, len(vocabulary) + 1), vocabulary
