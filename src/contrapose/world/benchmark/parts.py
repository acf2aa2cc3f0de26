"""The parts of the benchmark: what each is called, asks, and is measured by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from contrapose.data import Card, Data, Example, Family, ImageRef, Micro
from contrapose.data.example import diagonal
from contrapose.world.benchmark import galleries, pairs, proposals
from contrapose.world.benchmark.draw import Form, Propose, Tally, drawn
from contrapose.world.benchmark.image import SceneImage
from contrapose.world.benchmark.pair import Maker

EXAMPLES = 200
"""Examples of a part, unless another number is asked for."""
BLOCK = 50
"""Examples that are made together; does not change what they are."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the benchmark.

    Attributes:
        title: one line.
        shape: images × captions.
        family: which metrics apply.
        propose: from a scene to an example; None for the gallery and the edits.
        tags: the tags of its own, and what they are.
        by: the tags that results are broken down by.
    """

    title: str
    shape: str
    family: Family
    propose: Propose | None
    tags: Mapping[str, str]
    by: tuple[str, ...] = ()


CHANCE: Mapping[str, Mapping[str, float]] = {
    "1 × 2": {"accuracy": 1 / 2},
    "1 × 5": {"accuracy": 1 / 5},
    "2 × 2": {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    "1 × 3": {"original_accuracy": 1 / 2, "augmented_accuracy": 1 / 3, "brittleness": 1 / 3},
}
_SLOT = {slot: f"the {slot}s of the two captions, the right one first" for slot in
         ("color", "shape", "size", "material", "pattern", "count", "relation")}  # fmt: skip
_ATTRIBUTES: Mapping[str, Maker] = {
    "color": pairs.replaced("color"),
    "size": pairs.replaced("size"),
    "material": pairs.replaced("material"),
    "pattern": pairs.replaced("pattern"),
}
_NEGATIVES: Mapping[str, Maker] = {
    "replace-color": pairs.replaced("color"),
    "replace-shape": pairs.replaced("shape"),
    "replace-relation": pairs.replaced_relation,
    "swap-attribute": pairs.swapped_color,
    "swap-relation": pairs.swapped_relation,
}


def _two(title: str, maker: Maker, *tags: str, by: tuple[str, ...] = ()) -> Part:
    own = {tag: _SLOT.get(tag, "the attribute that differs") for tag in tags}
    return Part(title, "2 × 2", "pairs", proposals.both(maker), own, by)


def _choice(title: str, propose: Propose, by: tuple[str, ...] = (), **tags: str) -> Part:
    return Part(title, "1 × 2", "choice", propose, tags, by)


def _one(title: str, maker: Maker, slot: str, by: tuple[str, ...] = ()) -> Part:
    return _choice(title, proposals.choice(maker), by, **{slot: _SLOT[slot]})


PARTS: Mapping[str, Part] = {
    "location": _two("a thing in another place", pairs.relocated, "relation"),
    "counting": _two("another number of like things", pairs.recounted, "count"),
    "attribute": _two(
        "one attribute of one thing", pairs.one_of(_ATTRIBUTES, "attribute"), "attribute",
        by=("attribute",),
    ),
    "replace-color": _one("another colour", pairs.replaced("color"), "color"),
    "replace-shape": _one("another shape", pairs.replaced("shape"), "shape"),
    "replace-size": _one("small or large", pairs.replaced("size"), "size"),
    "replace-material": _one("rubber or metal", pairs.replaced("material"), "material"),
    "replace-relation": _one("another relation", pairs.replaced_relation, "relation"),
    "replace-count": _one("another number", pairs.recounted, "count"),
    "swap-attribute": _one("two things exchange colours", pairs.swapped_color, "color"),
    "swap-relation": _one(
        "two things exchange their roles in a relation", pairs.swapped_relation, "relation",
        ("relation",),
    ),
    "add": _choice(
        "one thing more is said that is not so", proposals.added, ("added",),
        added="attribute or object",
    ),
    "order": Part("a caption among four shuffles", "1 × 5", "choice", proposals.ordered, {}),
    "hard-positives": Part(
        "a caption, a false change of it, and a true one", "1 × 3", "triple",
        proposals.triple(pairs.one_of(_NEGATIVES, "change")),
        {"rewrite": "how the hard positive says the same"}, ("change", "rewrite"),
    ),
    "gallery": Part("detailed captions of one scene each", "N × N", "retrieval", None, {}),
    "edits": Part(
        "another colour or shape of one of two things", "2N images, N queries", "edits", None,
        {"field": "color or shape: what changes", "split": "dev or test, every other query"},
        ("split", "field"),
    ),
    "held-out": _choice(
        "a colour and a shape that never meet in training", proposals.held_out, ("change",),
        wrong="whether the wrong colour and shape have met in training",
    ),
}  # fmt: skip
"""Every part by its name, in the order of reports."""

_TAGS = {
    "subset": "the part",
    "change": "how the wrong caption comes of the right one",
    "world": "balanced or skewed",
    "things": "how many things the (first) scene has",
}


def card(suite: str, name: str, form: Form, examples: int) -> Card:
    """The card of a part."""
    part = PARTS[name]
    prior = (
        "a coin decides which of two scenes is shown, so that no language prior helps"
        if form == "balanced"
        else "scenes as skewed as in training and wrong words drawn uniformly: the prior helps"
    )
    if name == "add":
        prior = "the wrong caption is always the longer one, as in SugarCrepe"
    elif name == "order":
        prior = "shuffled captions are not what people say, so the prior helps"
    elif name == "held-out":
        prior = "the right pair was never met in training, so the prior is against it"
    return Card(
        name=f"{suite}/{name}",
        title=f"Scenes, {form}: {part.title}",
        paper="part of Contrapose",
        licence="Apache-2.0",
        source="made by the program; contrapose build scenes writes it to disk",
        layout=f"no files are needed; {prior}",
        shape=part.shape,
        family=part.family,
        counts={name: examples} if part.propose is not None else {},
        aggregation=Micro(),
        chance=CHANCE.get(part.shape, {}),
        tags={**(_TAGS if part.propose is not None else {}), **part.tags},
        by=part.by,
        match={"2 × 2": diagonal(2), "1 × 3": proposals.TRIPLE}.get(part.shape),
    )


def data_of(
    name: str, form: Form, examples: int, seed: int, size: int, tally: Tally | None = None
) -> Data:
    """The data of a part; examples come block by block, so that the first few come soon.

    Args:
        name: of the part.
        form: balanced or skewed.
        examples: how many; images of the gallery, queries of the edits.
        seed: of everything.
        size: of the pictures.
        tally: where to count what was drawn and kept; without it, what was made before is kept.
    """
    if PARTS[name].propose is None:
        make = galleries.gallery if name == "gallery" else galleries.edits
        return make(name, form, examples, seed, size, Tally() if tally is None else tally)
    return _examples(name, form, examples, seed, size, tally)


def _examples(
    name: str, form: Form, examples: int, seed: int, size: int, tally: Tally | None
) -> Iterator[Example]:
    for start in range(0, examples, BLOCK):
        stop = min(start + BLOCK, examples)
        if tally is None:
            yield from _kept(name, form, start, stop, seed, size)
        else:
            yield from _block(name, form, start, stop, seed, size, tally)


@lru_cache(maxsize=512)
def _kept(
    name: str, form: Form, start: int, stop: int, seed: int, size: int
) -> tuple[Example, ...]:
    return _block(name, form, start, stop, seed, size, Tally())


def _block(
    name: str, form: Form, start: int, stop: int, seed: int, size: int, tally: Tally
) -> tuple[Example, ...]:
    propose = PARTS[name].propose
    if propose is None:
        raise ValueError(f"{name} is not a list of examples")
    places = range(start, stop)
    return tuple(
        Example(
            id=str(place),
            images=tuple(
                ImageRef(f"{name}/{place}/{i}", source=SceneImage(scene, size))
                for i, scene in enumerate(candidate.scenes)
            ),
            texts=candidate.texts,
            match=candidate.match,
            tags={"change": name, **candidate.tags},
        )
        for place, candidate in zip(
            places, drawn(name, propose, form, seed, places, tally), strict=True
        )
    )
