"""What each part asks of a scene: from a scene to the captions of one example."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from contrapose.data import TagValue
from contrapose.data.example import diagonal, one_right
from contrapose.world.benchmark import edit, pairs
from contrapose.world.benchmark.draw import Candidate, Form, Propose
from contrapose.world.benchmark.pair import Maker, Pair, described, saying, with_mention
from contrapose.world.benchmark.read import read_caption
from contrapose.world.captions import CHANGES, REWRITES, Caption, Kind, is_true, orders
from contrapose.world.captions.draws import Draws
from contrapose.world.captions.mentioning import draw_word
from contrapose.world.captions.words import Slot
from contrapose.world.odds import HELD_OUT
from contrapose.world.scene import Color, Scene, Shape

TRIPLE = ((True, False, True),)
"""Original, hard negative, hard positive."""

ADD_KINDS: tuple[Kind, ...] = ("one", "and", "relation")
ORDER_KINDS: tuple[Kind, ...] = ("and", "list", "relation", "relation")
_PAIRS = tuple((c, s) for c in get_args(Color) for s in get_args(Shape) if (c, s) in HELD_OUT)
_CHANGED: tuple[Slot, ...] = ("color", "shape")


def both(maker: Maker) -> Propose:
    """2 × 2: both scenes of a pair."""

    def propose(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
        pair = _tossed(maker(scene, rng), rng, "balanced")
        if pair is None:
            return None
        scenes = (pair.scene, pair.other_scene)
        texts = (pair.caption.text, pair.other_caption.text)
        return Candidate(scenes, texts, diagonal(2), dict(pair.tags))

    return propose


def choice(maker: Maker) -> Propose:
    """1 × 2: one scene of a pair and both captions, in an order of no meaning.

    Balanced: a coin decides which of the two scenes is shown, and both must be seen well, so that
    the captions are exchangeable. Skewed: the scene that was drawn from the skewed world is shown,
    and the wrong word was drawn uniformly.
    """

    def propose(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
        pair = _tossed(maker(scene, rng), rng, form)
        if pair is None:
            return None
        look = (pair.scene, pair.other_scene) if form == "balanced" else (pair.scene,)
        texts = (pair.caption.text, pair.other_caption.text)
        return replace(_mixed(pair.scene, texts, rng), tags=dict(pair.tags), look=look)

    return propose


def triple(maker: Maker) -> Propose:
    """1 × 3: a true caption, one that is false, and another way to say the true one."""

    def propose(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
        pair = _tossed(maker(scene, rng), rng, form)
        if pair is None:
            return None
        names = tuple(REWRITES)
        name = names[int(rng.integers(len(names)))]
        positive = REWRITES[name](pair.caption, rng)
        if positive is None or is_true(positive, pair.scene) is not True:
            return None
        texts = (pair.caption.text, pair.other_caption.text, positive.text)
        if len(set(texts)) < len(texts):
            return None
        look = (pair.scene, pair.other_scene) if form == "balanced" else (pair.scene,)
        return Candidate((pair.scene,), texts, TRIPLE, {**pair.tags, "rewrite": name}, look)

    return propose


def added(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
    """1 × 2: the wrong caption says one thing more, which is not so. It is always the longer."""
    caption = described(scene, rng, ADD_KINDS)
    if caption is None:
        return None
    longer = CHANGES["add"](caption, scene, rng)
    if longer is None or any((m.color, m.shape) in HELD_OUT for m in longer.mentions):
        return None
    kind = "object" if len(longer.mentions) > len(caption.mentions) else "attribute"
    return replace(_mixed(scene, (caption.text, longer.text), rng), tags={"added": kind})


def ordered(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
    """1 × 5: the caption among four shuffles of its words."""
    caption = described(scene, rng, ORDER_KINDS)
    if caption is None:
        return None
    shuffles = orders(caption, scene, rng)
    if shuffles is None or len({caption.text, *shuffles}) < 5:
        return None
    read = [read_caption(text) for text in shuffles]
    if any(each is not None and is_true(each, scene) is not False for each in read):
        return None  # a shuffle that is a sentence again must be a false one
    return _mixed(scene, (caption.text, *shuffles), rng)


def held_out(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
    """1 × 2: a thing whose colour and shape never meet in training; the wrong caption changes one.

    The wrong pair has mostly been met in training, so a language prior is against the right one.
    """
    draws = Draws(rng)
    index = draws.below(len(scene.things))
    color, shape = draws.one_of(_PAIRS)
    scene = scene.edited(index, color=color, shape=shape)
    if not edit.standing(scene):
        return None
    caption = described(scene, rng, pairs.PLAIN_KINDS)
    if caption is None:
        return None
    places = [i for i, mention in enumerate(caption.mentions) if mention.thing == index]
    if not places:
        return None
    mention = caption.mentions[places[0]]
    mention = saying(mention, "color", color, draws)
    mention = saying(mention, "shape", shape, draws)
    caption = with_mention(caption, places[0], mention)
    slot = draws.one_of(_CHANGED)
    old = mention.value(slot)
    value = draws.one_of([value for value in pairs.CONTRASTS[slot] if value != old])
    changed = mention.saying(slot, value, draw_word(slot, value, draws))
    wrong = with_mention(caption, places[0], changed)
    if not _tells(caption, wrong, scene):
        return None
    tags: dict[str, TagValue] = {
        "change": f"replace-{slot}",
        "wrong": "held out" if (changed.color, changed.shape) in HELD_OUT else "met",
        slot: (str(old), value),
    }
    return replace(_mixed(scene, (caption.text, wrong.text), rng), tags=tags)


def _tells(right: Caption, wrong: Caption, scene: Scene) -> bool:
    return is_true(right, scene) is True and is_true(wrong, scene) is False


def _tossed(pair: Pair | None, rng: np.random.Generator, form: Form) -> Pair | None:
    """The pair, in the balanced form turned round by a coin."""
    if pair is None or form != "balanced" or rng.random() < 0.5:
        return pair
    return pair.turned


def _mixed(scene: Scene, texts: tuple[str, ...], rng: np.random.Generator) -> Candidate:
    """One image with captions of which the first is right, put in a random order."""
    order = rng.permutation(len(texts)).tolist()
    return Candidate(
        (scene,), tuple(texts[i] for i in order), one_right(len(texts), order.index(0))
    )
