"""Captions of the hard-positive study: usual words, negatives with a dose of artifact, rewordings.

Tuning captions say every value by its usual word and name the things of a listing in a fixed order
of their colors. A negative has a plain form, which keeps both habits, and a marked form of the same
meaning, which breaks one: the changed slot is said by a rarer synonym, or the order is reversed.
The dose q is the share of negatives that are taken in their marked form. A rewording breaks the
same habits and stays true. Judged are captions and negatives in plain form only, with one rewording
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from contrapose.tune.data.scenes import MIN_PIXELS, MIN_VISIBLE
from contrapose.world.captions import CHANGES, Caption, Mention, describe
from contrapose.world.captions.changes import invert_relation
from contrapose.world.captions.words import RELATION_WORDS, SLOTS, WORDS, Slot
from contrapose.world.render import are_visible, pack, render_packed
from contrapose.world.sample import sample_scene, world_odds
from contrapose.world.scene import COLORS, SHAPES, Scene

T = TypeVar("T")

NEGATIVE_KINDS = (
    "replace-color", "replace-shape", "replace-size", "replace-material", "replace-relation",
    "swap-attribute", "swap-relation",
)  # fmt: skip
REWORDING_KINDS = ("shape", "color", "size", "material", "pattern", "relation", "order", "converse")
"""Synonyms by their slot, the order of a listing, and the converse of a relation."""
MARKED_KINDS = REWORDING_KINDS[:-1]
"""Kinds that marked negatives share with positives; converses, in usual words, are only judged."""
CAPTION_KINDS = ("relation", "and", "one")
CAPTION_WEIGHTS = (0.55, 0.35, 0.1)
CAPTIONS_PER_SCENE = 3
DETAIL = 0.6
"""Detail of a mention: a little above the usual, so that most slots can be changed and reworded."""
BLOCK = 512
IMAGE_SIZE = 96
FIRST_SEED = 610_000_000
"""Added to seeds: no scene is one that a built-in model was trained or tested on."""
_COLOR_ORDER = {color: i for i, color in enumerate(COLORS)}


class Negative(NamedTuple):
    """False caption in its plain form, and its marked form of the same meaning; empty for none."""

    kind: str
    plain: str
    marked: str


class StudyCaption(NamedTuple):
    """True caption in plain form with its negatives and its rewordings (kind, text)."""

    text: str
    negatives: tuple[Negative, ...]
    rewordings: tuple[tuple[str, str], ...]


class Triple(NamedTuple):
    """Caption, plain negative and rewording of one scene, with the kinds of the last two."""

    caption: str
    negative: str
    rewording: str
    negative_kind: str
    rewording_kind: str


@dataclass(frozen=True, slots=True, eq=False)
class SceneSet:
    """Images (n, h, w, 3) as bytes with something for each of them."""

    images: Tensor
    captions: tuple[tuple[StudyCaption, ...], ...]


def plain_form(caption: Caption) -> Caption:
    """Copy of a caption in usual words, its listing in the order of colors."""
    mentions = [
        replace(mention, shape_word=0, color_word=0, size_word=0, material_word=0, pattern_word=0)
        for mention in caption.mentions
    ]
    if caption.kind != "relation":
        mentions.sort(key=_listing_place)
    return replace(caption, mentions=tuple(mentions), relation_word=0)


def _listing_place(mention: Mention) -> tuple[int, int]:
    color = len(COLORS) if mention.color is None else _COLOR_ORDER[mention.color]
    return color, -1 if mention.shape is None else SHAPES.index(mention.shape)


def has_order(caption: Caption) -> bool:
    """Whether a caption lists two things of different colors, so that their order can be broken."""
    colors = [mention.color for mention in caption.mentions]
    return caption.kind == "and" and None not in colors and colors[0] != colors[1]


def synonym_variants(caption: Caption, mention: int, slot: Slot) -> list[Caption]:
    """Copies of a plain caption with a rarer word for one slot, which change its text."""
    said = caption.mentions[mention]
    value = said.value(slot)
    if value is None:
        return []
    variants = []
    for choice in range(1, len(WORDS[slot][value])):
        other = said.with_value(slot, value, choice)
        if not other.crowded:
            variants.append(caption.with_mention(mention, other))
    return [variant for variant in variants if variant.text != caption.text]


def relation_variants(caption: Caption) -> list[Caption]:
    """Copies of a plain caption with rarer words for its relation, which change its text."""
    if caption.relation is None:
        return []
    choices = range(1, len(RELATION_WORDS[caption.relation]))
    variants = [replace(caption, relation_word=choice) for choice in choices]
    return [variant for variant in variants if variant.text != caption.text]


def rewordings(caption: Caption, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """True rewordings of a plain caption: one of every kind that it allows."""
    for slot in SLOTS:
        variants = [
            variant
            for i in range(len(caption.mentions))
            for variant in synonym_variants(caption, i, slot)
        ]
        if variants:
            yield slot, _draw(variants, rng).text
    variants = relation_variants(caption)
    if variants:
        yield "relation", _draw(variants, rng).text
    if has_order(caption):
        yield "order", replace(caption, mentions=caption.mentions[::-1]).text
    converse = invert_relation(caption, rng)
    if converse is not None:
        yield "converse", replace(converse, relation_word=0).text


def negatives(caption: Caption, scene: Scene, rng: np.random.Generator) -> Iterator[Negative]:
    """Negatives of a plain caption: one of every kind that it allows."""
    for kind in NEGATIVE_KINDS:
        made = CHANGES[kind](caption, scene, rng)
        if made is None:
            continue
        plain = plain_form(made)
        if plain.text != plain_form(caption).text:
            yield Negative(kind, plain.text, _marked_text(caption, made, plain, rng))


def _marked_text(caption: Caption, made: Caption, plain: Caption, rng: np.random.Generator) -> str:
    """Marked form of a negative; empty where no changed slot has a rarer word."""
    if has_order(plain) and _same_words(caption, made):
        return replace(plain, mentions=plain.mentions[::-1]).text
    if caption.kind == "relation" and _same_words(caption, made, in_places=True):
        variants = relation_variants(plain)
    else:
        places = list(range(len(made.mentions)))
        if made.kind != "relation":
            places.sort(key=lambda i: _listing_place(made.mentions[i]))
        variants = [
            variant
            for i, (old, new) in enumerate(zip(caption.mentions, made.mentions, strict=True))
            for slot in SLOTS
            if old.value(slot) != new.value(slot)
            for variant in synonym_variants(plain, places.index(i), slot)
        ]
    return _draw(variants, rng).text if variants else ""


def _same_words(caption: Caption, made: Caption, *, in_places: bool = False) -> bool:
    """Whether a change keeps the values of all slots, wherever they stand or mention by mention."""
    sides = []
    for it in (caption, made):
        mentions = [[mention.value(slot) or "" for slot in SLOTS] for mention in it.mentions]
        columns = list(zip(*mentions, strict=True))
        sides.append(sorted(mentions) if in_places else [sorted(column) for column in columns])
    return sides[0] == sides[1]


def _draw(variants: Sequence[Caption], rng: np.random.Generator) -> Caption:
    return variants[int(rng.integers(len(variants)))]


def describe_plainly(
    scene: Scene,
    rng: np.random.Generator,
    count: int = CAPTIONS_PER_SCENE,
    *,
    rewordings_only: bool = False,
) -> tuple[StudyCaption, ...]:
    """Distinct plain captions of a scene with their rewordings, and their negatives if wanted."""
    captions: dict[str, StudyCaption] = {}
    for _ in range(count):
        kind = CAPTION_KINDS[int(rng.choice(len(CAPTION_KINDS), p=CAPTION_WEIGHTS))]
        drawn = describe(scene, rng, kind, detail=DETAIL)  # type: ignore[arg-type]
        if drawn is None:
            continue
        caption = plain_form(drawn)
        if caption.text not in captions:
            captions[caption.text] = StudyCaption(
                caption.text,
                () if rewordings_only else tuple(negatives(caption, scene, rng)),
                tuple(rewordings(caption, rng)),
            )
    return tuple(captions.values())


def make_scene_set(
    count: int,
    seed: int,
    part: int,
    device: str,
    *,
    rewordings_only: bool = False,
) -> SceneSet:
    """Clearly visible balanced scenes with plain captions.

    Args:
        count: how many.
        seed: of the study.
        part: 0 for tuning, 1 for triples, 2 for the gallery; parts share no scene.
        device: where images are drawn, and left.
        rewordings_only: make no negatives.
    """
    first = FIRST_SEED + 1000 * seed + part

    def captions_of(scene: Scene, index: int) -> tuple[StudyCaption, ...]:
        rng = np.random.default_rng((first, index, 1))
        return describe_plainly(scene, rng, rewordings_only=rewordings_only)

    images, captions = _make_blocks(count, first, device, None, captions_of)
    return SceneSet(images, tuple(captions))


def make_single_things(count: int, seed: int, device: str) -> tuple[Tensor, list[int]]:
    """Images of single things, and the class of each: its place in `class_names`."""
    looks = world_odds("balanced").pairs

    def class_of(scene: Scene, index: int) -> tuple[int, ...]:
        thing = scene.things[0]
        return (looks.index((thing.color, thing.shape)),)

    images, classes = _make_blocks(count, FIRST_SEED + 1000 * seed + 3, device, 1, class_of)
    return images, [number for (number,) in classes]


def class_names() -> list[str]:
    """Caption of every color and shape of the balanced world, in usual words."""
    pairs = world_odds("balanced").pairs
    return [Caption("one", (Mention(None, shape, color),)).text for color, shape in pairs]


def _make_blocks(
    count: int,
    seed: int,
    device: str,
    things: int | None,
    make: Callable[[Scene, int], tuple[T, ...]],
) -> tuple[Tensor, list[tuple[T, ...]]]:
    """First visible scenes of a seed for which `make` gives something: images, and that."""
    images: list[Tensor] = []
    answers: list[tuple[T, ...]] = []
    first = 0
    while len(answers) < count:
        block = min(BLOCK, 3 * (count - len(answers)) + 8)
        scenes = [sample_scene(seed, first + i, "balanced", things) for i in range(block)]
        packed = pack(scenes).to(device)
        visible = are_visible(packed, fraction=MIN_VISIBLE, pixels=MIN_PIXELS).tolist()
        made = [make(it, first + i) if visible[i] else () for i, it in enumerate(scenes)]
        keep = [i for i, some in enumerate(made) if some][: count - len(answers)]
        images.append(render_packed(packed, IMAGE_SIZE).images[keep])
        answers += [made[i] for i in keep]
        first += block
    return torch.cat(images), answers


def draw_triples(scenes: SceneSet, rng: np.random.Generator) -> tuple[list[Triple], list[int]]:
    """One triple of every scene that has one, and its scene: rare kinds are drawn first.

    Kinds are drawn evenly: of all combinations that a scene allows, the one whose rewording and
    negative were drawn the fewest times so far.
    """
    triples: list[Triple] = []
    rows: list[int] = []
    drawn: dict[tuple[str, str], int] = {}
    for row, captions in enumerate(scenes.captions):
        choices = [
            Triple(it.text, negative.plain, text, negative.kind, kind)
            for it in captions
            for negative in it.negatives
            for kind, text in it.rewordings
        ]
        if not choices:
            continue
        kinds = [(it.negative_kind, it.rewording_kind) for it in choices]
        least = min(drawn.get(pair, 0) for pair in kinds)
        rare = [i for i, pair in enumerate(kinds) if drawn.get(pair, 0) == least]
        one = rare[int(rng.integers(len(rare)))]
        drawn[kinds[one]] = least + 1
        triples.append(choices[one])
        rows.append(row)
    return triples, rows
