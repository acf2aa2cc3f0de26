"""Games of hand-made scorers: what they react to is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from contrapose.diagnose.game_blocks import GameBlock

Present = frozenset[str]
Scorer = Callable[[int, int, int, Present, Present], float]
"""From example, image, caption, and the image and text players that are present, to a score."""


def play(
    scorer: Scorer,
    examples: int = 12,
    *,
    images: int = 2,
    texts: int = 2,
    regions: Sequence[str] = ("O1", "O2"),
    words: Sequence[str] = ("O", "R"),
    start: int = 0,
) -> GameBlock:
    """Play every coalition of every cell; images and captions match along the diagonal."""
    shape = (examples, images, texts, 2 ** len(regions), 2 ** len(words))
    values = np.empty(shape)
    for place in np.ndindex(*shape):
        k, i, j, s, t = place
        values[place] = scorer(start + k, i, j, present(regions, s), present(words, t))
    ids = tuple(f"e{start + k}" for k in range(examples))
    return GameBlock(
        ids=ids,
        images=tuple(tuple(f"{id_}/{i}" for i in range(images)) for id_ in ids),
        match=np.broadcast_to(np.eye(images, texts, dtype=bool), shape[:3]),
        values=values,
        image_players=tuple(regions),
        text_players=tuple(words),
    )


def present(players: Sequence[str], coalition: int) -> Present:
    return frozenset(name for bit, name in enumerate(players) if coalition >> bit & 1)


def number(*seed: int) -> float:
    """Any number, the same for the same seed."""
    return float(np.random.default_rng(seed).normal())


def additive(k: int, i: int, j: int, regions: Present, words: Present) -> float:
    """Every player adds its own number: nothing interacts."""
    return (
        0.3
        + sum(number(k, i, j, ord(name[0]), len(name)) for name in words)
        + sum(number(k, i, j, ord(name[-1])) for name in regions)
    )


def conjunction(k: int, i: int, j: int, regions: Present, words: Present) -> float:
    """All of it lies in the whole: nothing is scored unless everybody is present."""
    whole = {"O", "R"} <= words and {"O1", "O2"} <= regions
    return (1.0 if i == j else 0.1 * abs(number(k))) if whole else 0.0


def bag_of_words(k: int, i: int, j: int, regions: Present, words: Present) -> float:
    """Words are multiplied, in any order: a swap changes nothing, though they interact."""
    del j
    score = number(k, i)
    for name in sorted(words):
        score *= 1.5 + abs(number(k, i, ord(name)))
    return score + 0.1 * len(regions)


def random(k: int, i: int, j: int, regions: Present, words: Present) -> float:
    code = [sum(ord(c) * 7**place for place, c in enumerate(name)) for name in regions | words]
    return number(k, i, j, *sorted(code))
