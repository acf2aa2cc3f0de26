"""Drawing examples until enough can be seen well, each from its own stream of numbers.

Example i of a part depends on the seed, the part, the form and i alone: not on how many are asked
for, nor on the others. What is expensive, looking whether things are hidden, is done for many at
once.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from contrapose.data import TagValue
from contrapose.data.example import Match
from contrapose.errors import InputError
from contrapose.world.sample import sample_scene
from contrapose.world.scene import COLORS, MATERIALS, PATTERNS, Scene

Form = Literal["balanced", "skewed"]
"""Which world the scenes come from, and whether the prior is kept from helping."""

LOOKING = 64
"""Size at which scenes are looked at: smaller than the pictures, which is quicker."""
LEAST_SEEN = 0.5
"""How much of its silhouette every thing must show there; at 96 px it is 0.45 or more then."""
LEAST_PIXELS = 24
"""How many pixels every thing must show there; at 96 px it is 40 or more then."""
MOST_TRIES = 3000
"""Scenes that are tried for one example before giving up."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An example before its pictures are looked at.

    Attributes:
        scenes: of its images.
        texts: its captions.
        match: which belong together.
        tags: what it is broken down by.
        look: scenes that must be seen well: its own, and the one that the coin did not choose.
    """

    scenes: tuple[Scene, ...]
    texts: tuple[str, ...]
    match: Match
    tags: Mapping[str, TagValue] = field(default_factory=dict)
    look: tuple[Scene, ...] = ()


Propose = Callable[[Scene, np.random.Generator, Form], Candidate | None]
"""Makes a candidate from a scene; None if this scene does not allow one."""


class Tally(Counter[str]):
    """How many scenes were drawn, and how many were left at each filter."""


def generator(seed: int, *path: object) -> np.random.Generator:
    """The stream of random numbers of one place of the benchmark."""
    numbers = [part if isinstance(part, int) else zlib.crc32(str(part).encode()) for part in path]
    return np.random.default_rng((seed, *numbers))


def drawn(
    name: str,
    propose: Propose,
    form: Form,
    seed: int,
    places: Sequence[int],
    tally: Tally | None = None,
) -> list[Candidate]:
    """The examples at these places of a part.

    Raises:
        InputError: hardly any scene allows one.
    """
    tally = Tally() if tally is None else tally
    tries = dict.fromkeys(places, 0)
    found: dict[int, Candidate] = {}
    while len(found) < len(places):
        waiting: dict[int, Candidate] = {}
        for place in places:
            if place not in found:
                waiting[place], tries[place] = _next(
                    name, propose, form, seed, place, tries[place], tally
                )
        fine = all_seen([candidate.look or candidate.scenes for candidate in waiting.values()])
        for (place, candidate), good in zip(waiting.items(), fine, strict=True):
            if good:
                found[place] = candidate
        tally["seen well"] += sum(fine)
    return [found[place] for place in places]


def all_seen(groups: Sequence[Sequence[Scene]]) -> list[bool]:
    """Of each group whether every thing in every scene of it can be seen well."""
    from contrapose.world.render import pack, visibility

    position: dict[Scene, int] = {}
    for group in groups:
        for scene in group:
            position.setdefault(_form(scene), len(position))
    packed = pack(list(position))
    with one_thread():
        fractions, pixels = visibility(packed, LOOKING)
    fine = ((fractions >= LEAST_SEEN) & (pixels >= LEAST_PIXELS)) | ~packed.valid
    good: list[bool] = fine.all(dim=1).tolist()
    return [all(good[position[_form(scene)]] for scene in group) for group in groups]


@contextmanager
def one_thread() -> Iterator[None]:
    """Looking takes many small steps: on a busy machine threads mostly wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _next(
    name: str, propose: Propose, form: Form, seed: int, place: int, tried: int, tally: Tally
) -> tuple[Candidate, int]:
    """The next candidate for a place, and how many scenes were tried by then."""
    while tried < MOST_TRIES:
        rng = generator(seed, name, form, place, tried)
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


def _form(scene: Scene) -> Scene:
    """The scene without what does not decide whether things are hidden: paint, light, ground."""
    bare = {"color": next(iter(COLORS)), "material": MATERIALS[0], "pattern": PATTERNS[0]}
    things = tuple(replace(thing, **bare) for thing in scene.things)  # type: ignore[arg-type]
    plain = Scene(things)
    return replace(plain, camera=scene.camera)
