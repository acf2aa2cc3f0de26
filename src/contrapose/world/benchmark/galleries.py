"""The retrieval gallery and the edit-query database of the benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data import EditQuery, EditSet, Gallery, ImageRef
from contrapose.errors import InputError
from contrapose.world.benchmark.annotations import SceneImage
from contrapose.world.benchmark.candidates import (
    MAX_TRIES,
    Candidate,
    FilterCounts,
    Form,
    all_visible,
    draw_candidates,
    make_generator,
)
from contrapose.world.captions import Caption, Kind, Mention, describe, is_true
from contrapose.world.captions.words import WORDS, Slot
from contrapose.world.sample import HELD_OUT, Draws, sample_scene
from contrapose.world.scene import COLORS, SHAPES, Scene, camera_position, holds

GALLERY_KINDS: tuple[Kind, ...] = ("and", "list", "relation")
GALLERY_DETAIL = 0.9
_EDIT_SLOTS: tuple[Slot, ...] = ("color", "shape")


def make_gallery(
    name: str, form: Form, examples: int, seed: int, size: int, tally: FilterCounts
) -> Gallery:
    """Make a gallery of scenes, each with one caption that is true of no other scene.

    Entry i is checked against those before it, so a larger gallery begins with a smaller one.
    """
    captions: dict[str, Caption] = {}

    def propose(scene: Scene, rng: np.random.Generator, _: Form) -> Candidate | None:
        kind = GALLERY_KINDS[int(rng.integers(len(GALLERY_KINDS)))]
        caption = describe(scene, rng, kind, detail=GALLERY_DETAIL)
        if caption is None:
            return None
        captions[caption.text] = caption
        return Candidate((scene,), (caption.text,), ((True,),))

    scenes: list[Scene] = []
    texts: list[str] = []
    proposed = draw_candidates(name, propose, form, seed, range(examples), tally)
    for index, first in enumerate(proposed):
        candidate, again = first, 0
        while not _is_unique(candidate, captions, scenes, texts):
            # Another random stream for this index, which does not depend on the other entries.
            again += 1
            (candidate,) = draw_candidates(
                f"{name} again {again}", propose, form, seed, (index,), tally
            )
        scenes.append(candidate.scenes[0])
        texts.append(candidate.texts[0])
    tally["told apart from all others"] += examples
    return Gallery(
        id=name,
        images=tuple(_image_refs(name, scenes, size)),
        texts=tuple(texts),
        pairs=tuple((i, i) for i in range(examples)),
    )


def make_edits(
    name: str, form: Form, examples: int, seed: int, size: int, tally: FilterCounts
) -> EditSet:
    """Make queries that change the color or shape of one of two things, with their targets.

    Every scene of the database has two things side by side, and its caption names both by color
    and shape, from left to right: it is true of the images that have it and of no others. The word
    to change names one thing of its scene alone, so that a query has one reading. For each
    query there is a scene that fits its target, with other positions, sizes, surfaces, camera and
    light. Weights are those of SIMAT: the inverse root of the source word's frequency.
    """
    tries = [0] * examples
    waiting = list(range(examples))
    ready: dict[int, _SceneEdit] = {}
    while waiting:
        fresh = {}
        for index in waiting:
            fresh[index], tries[index] = _draw_edit(name, form, seed, index, tries[index], tally)
        fine = all_visible([(edit.scene, edit.target) for edit in fresh.values()])
        ready |= {p: e for (p, e), good in zip(fresh.items(), fine, strict=True) if good}
        waiting = [index for index in waiting if index not in ready]
        tally["seen well"] += sum(fine)
    edits = [ready[index] for index in range(examples)]
    scenes = [scene for edit in edits for scene in (edit.scene, edit.target)]
    texts = [_edit_caption(scene) for scene in scenes]
    captions = tuple(dict.fromkeys(texts))
    caption_of = tuple(captions.index(text) for text in texts)
    often = Counter(edit.source for edit in edits)
    queries = tuple(
        EditQuery(
            id=str(i),
            image=2 * i,
            source=edit.source,
            target=edit.word,
            caption=caption_of[2 * i],
            target_caption=caption_of[2 * i + 1],
            weight=often[edit.source] ** -0.5,
            tags={"field": edit.slot, "split": "test" if i % 2 else "dev", "world": form},
        )
        for i, edit in enumerate(edits)
    )
    return EditSet(tuple(_image_refs(name, scenes, size)), captions, caption_of, queries)


@dataclass(frozen=True, slots=True)
class _SceneEdit:
    """Edit query: a scene, the word that changes, and a scene that shows the change."""

    scene: Scene
    slot: Slot
    source: str
    word: str
    target: Scene


def _draw_edit(
    name: str, form: Form, seed: int, index: int, tried: int, tally: FilterCounts
) -> tuple[_SceneEdit, int]:
    while tried < MAX_TRIES:
        rng = make_generator(seed, name, form, index, tried)
        tried += 1
        tally["scenes drawn"] += 2
        edit = _propose_edit(seed, form, rng)
        if edit is not None:
            tally["captions that fit"] += 2
            return edit, tried
    raise InputError(f"{name}: none of {tried} scenes allows an example.")


def _propose_edit(seed: int, form: Form, rng: np.random.Generator) -> _SceneEdit | None:
    scene, other = (sample_scene(seed, int(rng.integers(2**62)), form, things=2) for _ in range(2))
    draws = Draws(rng)
    if not (_is_side_by_side(scene) and _is_side_by_side(other)):
        return None
    index, slot = draws.below(2), draws.one_of(_EDIT_SLOTS)
    old: str = getattr(scene.things[index], slot)
    if getattr(scene.things[1 - index], slot) == old:
        return None  # the word would name both things, and the change could be either's
    values: Sequence[str] = tuple(COLORS) if slot == "color" else SHAPES
    value = draws.one_of([value for value in values if value != old])
    wished = scene.edit_thing(index, **{slot: value})
    after = {(thing.color, thing.shape) for thing in wished.things}
    before = {(thing.color, thing.shape) for thing in scene.things}
    if min(len(before), len(after)) < 2 or after & HELD_OUT:
        return None
    target = other
    for mine, its in zip(_sort_left_to_right(wished), _sort_left_to_right(other), strict=True):
        thing = wished.things[mine]
        target = target.edit_thing(its, color=thing.color, shape=thing.shape)
    return _SceneEdit(scene, slot, _usual_word(slot, old), _usual_word(slot, value), target)


def _is_side_by_side(scene: Scene) -> bool:
    left, right = _sort_left_to_right(scene)
    return holds(scene, left, "left of", right)


def _sort_left_to_right(scene: Scene) -> list[int]:
    return sorted(range(len(scene.things)), key=lambda index: camera_position(scene, index)[0])


def _edit_caption(scene: Scene) -> str:
    """Edit caption: both things by color and shape, from left to right."""
    things = [scene.things[index] for index in _sort_left_to_right(scene)]
    mentions = tuple(Mention(None, thing.shape, thing.color) for thing in things)
    return Caption("relation", mentions, "left of").text


def _usual_word(slot: Slot, value: str) -> str:
    return WORDS[slot][value][0].text


def _is_unique(
    candidate: Candidate,
    captions: dict[str, Caption],
    scenes: Sequence[Scene],
    texts: Sequence[str],
) -> bool:
    """Whether a candidate's caption is false of all scenes so far, and theirs of its scene."""
    mine, scene = captions[candidate.texts[0]], candidate.scenes[0]
    return all(is_true(mine, other) is False for other in scenes) and all(
        is_true(captions[text], scene) is False for text in texts
    )


def _image_refs(name: str, scenes: Sequence[Scene], size: int) -> list[ImageRef]:
    return [
        ImageRef(f"{name}/{i}", source=SceneImage(scene, size)) for i, scene in enumerate(scenes)
    ]
