"""From a scene to something true that can be said of it without doubt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from contrapose.world.captions.caption import KINDS, Caption, Kind
from contrapose.world.captions.draws import Draws, sums
from contrapose.world.captions.mention import Mention
from contrapose.world.captions.mentioning import agreed, mention_thing, spoken
from contrapose.world.captions.templates import LISTING_SUMS, RELATING_SUMS
from contrapose.world.captions.truth import fitting
from contrapose.world.captions.words import RELATION_WORDS
from contrapose.world.relations import Relation, relations
from contrapose.world.scene import Scene

DETAIL = 0.5
"""How much is said of each thing: 0 only what is needed, 1 everything."""

_KIND_SUMS = sums((0.15, 0.2, 0.1, 0.15, 0.4))
_RELATION_SUMS: Mapping[Relation, tuple[float, ...]] = {
    relation: sums([word.weight for word in words]) for relation, words in RELATION_WORDS.items()
}
_COUNT_TRIES = 6
_COUNT_ONE = 0.2
"""How readily a count of one is accepted before another group is looked for."""


def describe(
    scene: Scene, rng: np.random.Generator, kind: Kind | None = None, *, detail: float = DETAIL
) -> Caption | None:
    """A random caption that is true of the scene beyond doubt.

    In a relation each mention fits one thing of the scene only; in an enumeration no mention fits
    another mentioned thing; counts are exact.

    Args:
        scene: what to speak of.
        rng: decides what is said, and how.
        kind: of caption; None draws one that is possible here.
        detail: how much is said of each thing, from 0 to 1.

    Returns:
        The caption; None if nothing of that kind can be said of this scene.
    """
    draws = Draws(rng)
    if kind is not None:
        return _DESCRIBE[kind](scene, draws, detail)
    drawn = KINDS[draws.pick(_KIND_SUMS)]
    for way in (_DESCRIBE[drawn], _and, _one):
        caption = way(scene, draws, detail)
        if caption is not None:
            return caption
    return None


def relate(
    scene: Scene,
    first: int,
    relation: Relation,
    second: int,
    rng: np.random.Generator,
    *,
    detail: float = DETAIL,
) -> Caption | None:
    """A caption that says this relation of these two things; None if they cannot be told apart.

    Whether the relation holds is the caller's matter.
    """
    return _relate(scene, first, relation, second, Draws(rng), detail)


def relation_word(relation: Relation, draws: Draws) -> int:
    """Which word says the relation, drawn by weight."""
    return draws.pick(_RELATION_SUMS[relation])


def _one(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    thing = draws.below(len(scene.things))
    mention = mention_thing(scene, thing, (), draws, detail)
    return None if mention is None else _listed("one", [mention], draws)


def _and(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    return _several(scene, 2, draws, detail)


def _list(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    size = 4 if len(scene.things) > 3 and draws.uniform() < 0.25 else 3
    return _several(scene, size, draws, detail)


def _several(scene: Scene, size: int, draws: Draws, detail: float) -> Caption | None:
    """Different things one after the other, leaving out those that look like one before."""
    chosen: list[int] = []
    looks: list[tuple[object, ...]] = []
    for thing in draws.shuffled(range(len(scene.things))):
        it = scene.things[thing]
        look = (it.shape, it.color, it.size, it.material, it.pattern)
        if look not in looks and len(chosen) < size:
            chosen.append(thing)
            looks.append(look)
    if len(chosen) < size:
        return None
    mentions = []
    for thing in chosen:
        rivals = [other for other in chosen if other != thing]
        mention = mention_thing(scene, thing, rivals, draws, detail)
        if mention is None:
            return None
        mentions.append(mention)
    return _listed("and" if size == 2 else "list", mentions, draws)


def _count(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    first = _group(scene, range(len(scene.things)), draws, detail)
    if first is None:
        return None
    mentions, counted = [first[0]], first[1]
    while len(mentions) < 3 and draws.uniform() < 0.4:
        others = [i for i in range(len(scene.things)) if i not in counted]
        more = _group(scene, others, draws, detail) if others else None
        if more is None:
            break
        mentions.append(more[0])
        counted = counted + more[1]
    if any(mention.count > 1 for mention in mentions):
        # "two cubes and a ball" is as clear as "and one ball", but "a ball" alone counts nothing.
        mentions = [
            mention.counting(1, 1) if mention.count == 1 and draws.uniform() < 0.4 else mention
            for mention in mentions
        ]
    return _listed("count", mentions, draws)


def _group(
    scene: Scene, among: Sequence[int], draws: Draws, detail: float
) -> tuple[Mention, list[int]] | None:
    """Things that one mention fits, all of them among those given; rather several than one."""
    best: tuple[Mention, list[int]] | None = None
    for _ in range(_COUNT_TRIES):
        mention = spoken(scene.things[draws.one_of(among)], None, draws, detail, plural=True)
        things = fitting(mention, scene)
        if any(thing not in among for thing in things):
            continue
        best = (mention, things)
        if len(things) > 1 or draws.uniform() < _COUNT_ONE:
            break
    if best is None:
        return None
    mention, things = best
    return mention.counting(len(things)), things


def _relation(scene: Scene, draws: Draws, detail: float) -> Caption | None:
    places = range(len(scene.things))
    for first, second in draws.shuffled([(i, j) for i in places for j in places if i != j]):
        held = relations(scene, first, second)
        if held:
            caption = _relate(scene, first, draws.one_of(held), second, draws, detail)
            if caption is not None:
                return caption
    return None


def _relate(
    scene: Scene, first: int, relation: Relation, second: int, draws: Draws, detail: float
) -> Caption | None:
    mentions = []
    for thing in (first, second):
        rivals = [other for other in range(len(scene.things)) if other != thing]
        mention = mention_thing(scene, thing, rivals, draws, detail)
        if mention is None:
            return None
        mentions.append(mention)
    template = draws.pick(RELATING_SUMS)
    return Caption("relation", agreed(mentions), relation, template, relation_word(relation, draws))


def _listed(kind: Kind, mentions: Sequence[Mention], draws: Draws) -> Caption:
    return Caption(kind, agreed(mentions), template=draws.pick(LISTING_SUMS))


_DESCRIBE: Mapping[Kind, Callable[[Scene, Draws, float], Caption | None]] = {
    "one": _one,
    "and": _and,
    "list": _list,
    "count": _count,
    "relation": _relation,
}
