"""Candidate examples of each part, drawn until every thing in them is visible.

Example i of a part depends on the seed, the part, the form and i alone: not on the number of
examples, nor on the others. The expensive visibility check is run for many scenes at once.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from contrapose.data import TagValue
from contrapose.data.examples import Match, diagonal_match, single_match
from contrapose.errors import InputError
from contrapose.world.benchmark import pairs
from contrapose.world.benchmark.annotations import parse_caption
from contrapose.world.benchmark.arrangement import is_stable
from contrapose.world.benchmark.pairs import PairMaker, ScenePair, describe_as, say_slot
from contrapose.world.captions import CHANGES, REWRITES, Caption, Kind, is_true, orders
from contrapose.world.captions.changes import VALUES
from contrapose.world.captions.describe import draw_word
from contrapose.world.captions.words import Slot
from contrapose.world.sample import HELD_OUT, Draws, sample_scene
from contrapose.world.scene import COLORS, MATERIALS, PATTERNS, Color, Scene, Shape

Form = Literal["balanced", "skewed"]
"""World of the scenes; in the balanced form no language prior helps."""

VISIBILITY_SIZE = 64
"""Size at which visibility is checked: smaller than the images, which is faster."""
MIN_VISIBLE = 0.5
"""Least visible fraction of every thing's silhouette at that size; it is 0.45 or more at 96 px."""
MIN_PIXELS = 24
"""Least visible pixels of every thing at that size; they are 40 or more at 96 px."""
MAX_TRIES = 3000
"""The most scenes that are tried for one example."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Candidate example, before the visibility of its things is checked.

    Attributes:
        scenes: scenes of its images.
        texts: its captions.
        match: whether image and caption belong together.
        tags: tags that results are broken down by.
        look: scenes in which every thing must be visible: its own, and the one that the coin toss
            did not choose.
    """

    scenes: tuple[Scene, ...]
    texts: tuple[str, ...]
    match: Match
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    look: tuple[Scene, ...] = ()


Proposer = Callable[[Scene, np.random.Generator, Form], Candidate | None]
"""Makes a candidate from a scene; None if this scene does not allow one."""


class FilterCounts(Counter[str]):
    """Number of scenes drawn, and of those that passed each filter."""


def make_generator(seed: int, *path: object) -> np.random.Generator:
    """Random generator of one position of the benchmark."""
    numbers = [part if isinstance(part, int) else zlib.crc32(str(part).encode()) for part in path]
    return np.random.default_rng((seed, *numbers))


def draw_candidates(
    name: str,
    propose: Proposer,
    form: Form,
    seed: int,
    indices: Sequence[int],
    tally: FilterCounts | None = None,
) -> list[Candidate]:
    """Draw the examples with these indices of a part.

    Raises:
        InputError: hardly any scene allows one.
    """
    tally = FilterCounts() if tally is None else tally
    tries = dict.fromkeys(indices, 0)
    done: dict[int, Candidate] = {}
    while len(done) < len(indices):
        waiting: dict[int, Candidate] = {}
        for index in indices:
            if index not in done:
                waiting[index], tries[index] = _next_candidate(
                    name, propose, form, seed, index, tries[index], tally
                )
        fine = all_visible([candidate.look or candidate.scenes for candidate in waiting.values()])
        for (index, candidate), good in zip(waiting.items(), fine, strict=True):
            if good:
                done[index] = candidate
        tally["seen well"] += sum(fine)
    return [done[index] for index in indices]


def all_visible(groups: Sequence[Sequence[Scene]]) -> list[bool]:
    """For each group of scenes, whether every thing in it is sufficiently visible."""
    from contrapose.world.render import are_visible, pack

    position: dict[Scene, int] = {}
    for group in groups:
        for scene in group:
            position.setdefault(_bare_scene(scene), len(position))
    packed = pack(list(position))
    with single_thread():
        visible = are_visible(packed, fraction=MIN_VISIBLE, pixels=MIN_PIXELS, size=VISIBILITY_SIZE)
    good: list[bool] = visible.tolist()
    return [all(good[position[_bare_scene(scene)]] for scene in group) for group in groups]


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one thread: the many small steps are slower with several on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _next_candidate(
    name: str, propose: Proposer, form: Form, seed: int, index: int, tried: int, tally: FilterCounts
) -> tuple[Candidate, int]:
    """Draw the next candidate for an index; returns it and the number of scenes tried so far."""
    while tried < MAX_TRIES:
        rng = make_generator(seed, name, form, index, tried)
        scene = sample_scene(seed, int(rng.integers(2**62)), form)
        tried += 1
        tally["scenes drawn"] += 1
        candidate = propose(scene, rng, form)
        if candidate is not None:
            tally["captions that fit"] += 1
            things = str(len(candidate.scenes[0].things))
            tags = {"subset": name, "world": form, "things": things, **candidate.tags}
            return replace(candidate, tags=tags), tried
    raise InputError(f"{name}: none of {tried} scenes allows an example.")


def _bare_scene(scene: Scene) -> Scene:
    """The scene without properties that cannot hide things: color, light and ground."""
    bare = {"color": next(iter(COLORS)), "material": MATERIALS[0], "pattern": PATTERNS[0]}
    things = tuple(replace(thing, **bare) for thing in scene.things)  # type: ignore[arg-type]
    plain = Scene(things)
    return replace(plain, camera=scene.camera)


TRIPLE_MATCH = ((True, False, True),)
"""Original, hard negative, hard positive."""

ADD_KINDS: tuple[Kind, ...] = ("one", "and", "relation")
ORDER_KINDS: tuple[Kind, ...] = ("and", "list", "relation", "relation")
_HELD_OUT_PAIRS = tuple(
    (c, s) for c in get_args(Color) for s in get_args(Shape) if (c, s) in HELD_OUT
)
_HELD_OUT_SLOTS: tuple[Slot, ...] = ("color", "shape")


def pair_proposer(maker: PairMaker) -> Proposer:
    """Proposer of 2 × 2 examples: both scenes of a pair."""

    def propose(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
        pair = _toss(maker(scene, rng), rng, "balanced")
        if pair is None:
            return None
        scenes = (pair.scene, pair.other_scene)
        texts = (pair.caption.text, pair.other_caption.text)
        return Candidate(scenes, texts, diagonal_match(2), dict(pair.tags))

    return propose


def choice_proposer(maker: PairMaker) -> Proposer:
    """Proposer of 1 × 2 examples: one scene of a pair and both captions, in random order.

    Balanced: a coin toss decides which of the two scenes is shown, and both must be well visible,
    so that the captions are exchangeable. Skewed: the scene that was drawn from the skewed world is
    shown, and the wrong word was drawn uniformly.
    """

    def propose(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
        pair = _toss(maker(scene, rng), rng, form)
        if pair is None:
            return None
        look = (pair.scene, pair.other_scene) if form == "balanced" else (pair.scene,)
        texts = (pair.caption.text, pair.other_caption.text)
        return replace(_shuffle_captions(pair.scene, texts, rng), tags=dict(pair.tags), look=look)

    return propose


def triple_proposer(maker: PairMaker) -> Proposer:
    """Proposer of 1 × 3 examples: a true caption, a false one, and a true rewrite."""

    def propose(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
        pair = _toss(maker(scene, rng), rng, form)
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
        return Candidate((pair.scene,), texts, TRIPLE_MATCH, {**pair.tags, "rewrite": name}, look)

    return propose


def propose_addition(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
    """Propose a 1 × 2 example whose wrong caption adds something false; it is always the longer."""
    caption = describe_as(scene, rng, ADD_KINDS)
    if caption is None:
        return None
    longer = CHANGES["add"](caption, scene, rng)
    if longer is None or any((m.color, m.shape) in HELD_OUT for m in longer.mentions):
        return None
    kind = "object" if len(longer.mentions) > len(caption.mentions) else "attribute"
    return replace(_shuffle_captions(scene, (caption.text, longer.text), rng), tags={"added": kind})


def propose_orders(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
    """Propose a 1 × 5 example: the caption among four shuffles of its words."""
    caption = describe_as(scene, rng, ORDER_KINDS)
    if caption is None:
        return None
    shuffles = orders(caption, scene, rng)
    if shuffles is None or len({caption.text, *shuffles}) < 5:
        return None
    parsed = [parse_caption(text) for text in shuffles]
    if any(one is not None and is_true(one, scene) is not False for one in parsed):
        return None  # a shuffle that is a sentence again must be a false one
    return _shuffle_captions(scene, (caption.text, *shuffles), rng)


def propose_held_out(scene: Scene, rng: np.random.Generator, form: Form) -> Candidate | None:
    """Propose a 1 × 2 example with a color-shape pair that training never shows.

    The wrong pair mostly occurs in training, so a language prior is against the right one.
    """
    draws = Draws(rng)
    index = draws.below(len(scene.things))
    color, shape = draws.one_of(_HELD_OUT_PAIRS)
    scene = scene.edit_thing(index, color=color, shape=shape)
    if not is_stable(scene):
        return None
    caption = describe_as(scene, rng, pairs.PLAIN_KINDS)
    if caption is None:
        return None
    positions = [i for i, mention in enumerate(caption.mentions) if mention.thing == index]
    if not positions:
        return None
    mention = caption.mentions[positions[0]]
    mention = say_slot(mention, "color", color, draws)
    mention = say_slot(mention, "shape", shape, draws)
    caption = caption.with_mention(positions[0], mention)
    slot = draws.one_of(_HELD_OUT_SLOTS)
    old = mention.value(slot)
    value = draws.one_of([value for value in VALUES[slot] if value != old])
    changed = mention.with_value(slot, value, draw_word(slot, value, draws))
    wrong = caption.with_mention(positions[0], changed)
    if not _separates(caption, wrong, scene):
        return None
    tags: dict[str, TagValue] = {
        "change": f"replace-{slot}",
        "wrong": "held out" if (changed.color, changed.shape) in HELD_OUT else "met",
        slot: (str(old), value),
    }
    return replace(_shuffle_captions(scene, (caption.text, wrong.text), rng), tags=tags)


def _separates(right: Caption, wrong: Caption, scene: Scene) -> bool:
    return is_true(right, scene) is True and is_true(wrong, scene) is False


def _toss(pair: ScenePair | None, rng: np.random.Generator, form: Form) -> ScenePair | None:
    """In the balanced form, reverse the pair by a coin toss."""
    if pair is None or form != "balanced" or rng.random() < 0.5:
        return pair
    return pair.opposite


def _shuffle_captions(scene: Scene, texts: tuple[str, ...], rng: np.random.Generator) -> Candidate:
    """Candidate of one image and its captions in random order; the first given is right."""
    order = rng.permutation(len(texts)).tolist()
    return Candidate(
        (scene,), tuple(texts[i] for i in order), single_match(len(texts), order.index(0))
    )
