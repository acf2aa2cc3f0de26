"""Tests of the study of priors: scene pairs whose captions differ in one slot, and galleries.

Both scenes of a pair serve as test images. A *tempered* world shows the first of them with odds
(P(c0) / P(c1))^(1 − a), where P is the caption distribution of the training world: a = 0 is the
training world, a = 1 a balanced one. So one set of scores of 2 × 2 pairs gives every tempered
world. All scenes pass the same test of visibility as those of training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from contrapose.models.tiny.network import END, PAD, START, Tokenizer
from contrapose.world.benchmark.candidates import make_generator, propose_held_out
from contrapose.world.benchmark.pairs import PairMaker, replace_slot, swap_colors, swap_relation
from contrapose.world.captions import VOCABULARY, Caption, Mention
from contrapose.world.captions.words import SLOTS, WORDS
from contrapose.world.render import pack
from contrapose.world.sample import World, sample_scene, world_odds
from contrapose.world.scene import MATERIALS, PATTERNS, SIZES, Scene, camera_position, holds
from tools.train_tiny.data import MAX_TOKENS, is_well_visible

HELD_OUT = "held-out"
MAKERS: dict[str, PairMaker] = {
    "replace-color": replace_slot("color"),
    "swap-attribute": swap_colors,
    "replace-shape": replace_slot("shape"),
    "replace-material": replace_slot("material"),
    "replace-pattern": replace_slot("pattern"),
    "swap-relation": swap_relation,
}
BLOCK = 256
"""Candidates whose visibility is checked at a time."""
MAX_CANDIDATES = 100
"""The most candidates that are tried per example."""
LEVELS = (0.05, 0.1, 0.2, 0.4)
"""Levels of evidence: shares of a color's distance from gray that images keep."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the tests.

    Attributes:
        name: kind of change.
        world: world of its scenes.
        count: number of examples.
    """

    name: str
    world: World
    count: int

    @property
    def title(self) -> str:
        """Name with the world; held-out pairs belong to no world."""
        return self.name if self.name == HELD_OUT else f"{self.world} {self.name}"


PARTS = (
    Part("replace-color", "balanced", 1500),
    Part("swap-attribute", "balanced", 1500),
    Part("replace-shape", "balanced", 800),
    Part("replace-material", "balanced", 300),
    Part("replace-pattern", "balanced", 300),
    Part("replace-color", "skewed", 1000),
    Part("swap-attribute", "skewed", 1000),
    Part("replace-shape", "skewed", 800),
    Part(HELD_OUT, "balanced", 800),
)
MAIN = ("replace-color", "swap-attribute")
"""Changes that the claims are judged on, and that the control is tested on."""
SWAPS = (Part("swap-attribute", "balanced", 300), Part("swap-relation", "balanced", 300))
"""Parts of the comparison of scores."""


class PairSet(NamedTuple):
    """Test examples: scenes, two captions each, and the exact prior.

    Attributes:
        scenes: first and second scene of each pair; one scene for held-out pairs.
        tokens: (n, 2, l) token numbers; caption i is true of scene i.
        exact: (n, 2) log P(c0) − log P(c1) in the skewed and in the balanced world.
        levels: (n,) index of the level of evidence.
    """

    scenes: list[tuple[Scene, ...]]
    tokens: NDArray[np.int16]
    exact: NDArray[np.float32]
    levels: NDArray[np.uint8]


class GallerySet(NamedTuple):
    """Gallery: an image and a caption each, every caption true of one image only.

    Attributes:
        scenes: scenes of two things, side by side.
        tokens: (n, l) token numbers of their captions, which differ in colors and shapes only.
        exact: (n, 2) log P of each caption in the skewed and in the balanced world.
        levels: (n,) index of the level of evidence.
    """

    scenes: list[Scene]
    tokens: NDArray[np.int16]
    exact: NDArray[np.float32]
    levels: NDArray[np.uint8]


class _Candidate(NamedTuple):
    scenes: tuple[Scene, ...]
    texts: tuple[str, ...]
    exact: tuple[float, float]


def log_probability(caption: Caption, world: World) -> float:
    """Log-probability of a caption's values and words in a world, up to a constant.

    The constant covers what captions of one form share: template, relation, number of things. Left
    out is that a mention must fit one thing of its scene only, which makes common looks a little
    rarer in captions than in scenes.
    """
    return sum(_log_mention(mention, world) for mention in caption.mentions)


def _log_mention(mention: Mention, world: World) -> float:
    odds = world_odds(world)
    chance = sum(
        weight
        for (color, shape), weight in zip(odds.pairs, odds.weights, strict=True)
        if mention.color in (None, color) and mention.shape in (None, shape)
    )
    tables = ((mention.size, tuple(SIZES), odds.sizes),
              (mention.material, MATERIALS, odds.materials),
              (mention.pattern, PATTERNS, odds.patterns))  # fmt: skip
    for said, values, weights in tables:
        if said is not None:
            chance *= weights[values.index(said)]
    for slot in SLOTS:
        value = mention.value(slot)
        if value is not None or slot == "shape":
            words = WORDS[slot][value]
            chance *= words[mention.choice(slot)].weight / sum(word.weight for word in words)
    return math.log(chance) if chance > 0 else -math.inf


def log_odds(first: Caption, second: Caption) -> tuple[float, float]:
    """Log P(first) − log P(second) in the skewed and in the balanced world."""
    skewed, balanced = (
        log_probability(first, world) - log_probability(second, world)
        for world in ("skewed", "balanced")
    )
    return skewed, balanced


def draw_pairs(part: Part, seed: int) -> PairSet:
    """Draw the examples of a part; both captions of each have the same number of tokens.

    Raises:
        RuntimeError: hardly any scene allows an example.
    """

    def propose(index: int) -> _Candidate | None:
        rng = make_generator(seed, part.name, part.world, index)
        scene = sample_scene(seed, int(rng.integers(2**62)), part.world)
        if part.name == HELD_OUT:
            candidate = propose_held_out(scene, rng, "balanced")
            if candidate is None:
                return None
            right = candidate.match[0].index(True)
            texts = (candidate.texts[right], candidate.texts[1 - right])
            return _Candidate(candidate.scenes, texts, (math.nan, math.nan))
        pair = MAKERS[part.name](scene, rng)
        if pair is None:
            return None
        captions = (pair.caption, pair.other_caption)
        texts = (captions[0].text, captions[1].text)
        return _Candidate((pair.scene, pair.other_scene), texts, log_odds(*captions))

    found = _draw(propose, part.count, part.title)
    return PairSet(
        [candidate.scenes for candidate in found],
        np.stack([_tokens(candidate.texts) for candidate in found]),
        np.array([candidate.exact for candidate in found], np.float32),
        _levels(part.count, seed, part.title),
    )


def draw_gallery(count: int, seed: int) -> GallerySet:
    """Draw a gallery of near-alike captions: two things by color and shape, left and right."""
    texts: set[str] = set()

    def propose(index: int) -> _Candidate | None:
        rng = make_generator(seed, "gallery", index)
        scene = sample_scene(seed, int(rng.integers(2**62)), "balanced", things=2)
        left, right = sorted((0, 1), key=lambda thing: camera_position(scene, thing)[0])
        looks = [(scene.things[i].shape, scene.things[i].color) for i in (left, right)]
        if looks[0] == looks[1] or not holds(scene, left, "left of", right):
            return None
        caption = Caption("relation", tuple(Mention(None, *look) for look in looks), "left of")
        if caption.text in texts:
            return None
        texts.add(caption.text)
        exact = (log_probability(caption, "skewed"), log_probability(caption, "balanced"))
        return _Candidate((scene,), (caption.text,), exact)

    found = _draw(propose, count, "gallery")
    return GallerySet(
        [candidate.scenes[0] for candidate in found],
        np.stack([_tokens(candidate.texts)[0] for candidate in found]),
        np.array([candidate.exact for candidate in found], np.float32),
        _levels(count, seed, "gallery"),
    )


def draw_scenes(count: int, seed: int, world: World) -> list[Scene]:
    """Draw scenes of a world, as training has them: the pictures of a prior."""

    def propose(index: int) -> _Candidate:
        return _Candidate((sample_scene(seed, index, world),), (), (0.0, 0.0))

    return [candidate.scenes[0] for candidate in _draw(propose, count, world)]


def _draw(propose: Callable[[int], _Candidate | None], count: int, name: str) -> list[_Candidate]:
    """The first candidates whose scenes are well visible and whose captions are equally long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found: list[_Candidate] = []
    try:
        block_size = min(BLOCK, 4 * count)
        for start in range(0, MAX_CANDIDATES * count, block_size):
            made = (propose(index) for index in range(start, start + block_size))
            block = [candidate for candidate in made if candidate and _equal_length(candidate)]
            if not block:
                continue
            scenes = [scene for candidate in block for scene in candidate.scenes]
            visible = is_well_visible(pack(scenes)).view(len(block), -1).all(dim=1).tolist()
            found += [candidate for candidate, good in zip(block, visible, strict=True) if good]
            if len(found) >= count:
                return found[:count]
    finally:
        torch.set_num_threads(threads)
    raise RuntimeError(f"{name}: {len(found)} examples instead of {count}")


def _equal_length(candidate: _Candidate) -> bool:
    lengths = {len(_TOKENIZER.encode(text)) for text in candidate.texts}
    return len(lengths) <= 1 and max(lengths, default=0) <= MAX_TOKENS - 2


_TOKENIZER = Tokenizer(VOCABULARY)


def _tokens(texts: Sequence[str]) -> NDArray[np.int16]:
    rows = np.full((len(texts), MAX_TOKENS), PAD, np.int16)
    for row, text in zip(rows, texts, strict=True):
        tokens = [START, *_TOKENIZER.encode(text), END]
        row[: len(tokens)] = tokens
    return rows


def _levels(count: int, seed: int, name: str) -> NDArray[np.uint8]:
    levels = make_generator(seed, "levels", name).integers(len(LEVELS), size=count)
    return levels.astype(np.uint8)
