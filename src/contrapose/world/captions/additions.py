"""The change that adds something false, so that the wrong caption is the longer one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from contrapose.world.captions.caption import Caption
from contrapose.world.captions.changing import (
    VALUES,
    Weights,
    first_false,
    ordered,
    with_mention,
    word_for,
)
from contrapose.world.captions.draws import Draws
from contrapose.world.captions.mention import Mention
from contrapose.world.captions.words import ATTRIBUTES
from contrapose.world.scene import Scene

_OBJECT_TRIES = 8
_OBJECT_COLORED = 0.85


def add(
    caption: Caption, scene: Scene, rng: np.random.Generator, *, weights: Weights | None = None
) -> Caption | None:
    """One more attribute, or one more thing, that is not there; the caption grows longer.

    Weights name the values: shapes, colours and so on. A caption of a relation gets attributes
    only.
    """
    draws = Draws(rng)
    ways = [_added_attributes, _added_objects]
    if draws.uniform() < 0.5:
        ways.reverse()
    for way in ways:
        changed = first_false(way(caption, scene, draws, weights), scene)
        if changed is not None:
            return changed
    return None


def _added_attributes(
    caption: Caption, scene: Scene, draws: Draws, weights: Weights | None
) -> Iterator[Caption]:
    gaps = [
        (i, slot)
        for i, mention in enumerate(caption.mentions)
        for slot in ATTRIBUTES
        if mention.value(slot) is None
    ]
    for i, slot in draws.shuffled(gaps):
        mention = caption.mentions[i]
        thing = None if mention.thing is None else scene.things[mention.thing]
        if slot == "size" and (thing is None or thing.size == "medium"):
            continue  # too close to call
        for value in ordered([v for v in VALUES[slot] if v != "plain"], draws, weights):
            said = mention.saying(slot, value, word_for(caption, slot, value, draws))
            yield with_mention(caption, i, mention.saying(slot, value) if said.crowded else said)


def _added_objects(
    caption: Caption, scene: Scene, draws: Draws, weights: Weights | None
) -> Iterator[Caption]:
    if caption.kind == "relation" or len(caption.mentions) >= 4:
        return
    kind = caption.kind
    if kind != "count":
        kind = "and" if kind == "one" else "list"
    for _ in range(_OBJECT_TRIES):
        for shape in ordered(VALUES["shape"], draws, weights)[:1]:
            mention = Mention(None, None).saying(
                "shape", shape, word_for(caption, "shape", shape, draws)
            )
            for color in ordered(VALUES["color"], draws, weights)[:1]:
                if draws.uniform() < _OBJECT_COLORED:
                    mention = mention.saying(
                        "color", color, word_for(caption, "color", color, draws)
                    )
            yield replace(caption, kind=kind, mentions=(*caption.mentions, mention))
