"""Parts of the benchmark, their cards and data, and the suite in its balanced and skewed forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from contrapose.data import Benchmark, BenchmarkData, Card, Example, Family, ImageRef, Micro, Suite
from contrapose.data.examples import diagonal_match
from contrapose.errors import InputError
from contrapose.files import Problems
from contrapose.world.benchmark import candidates, galleries, pairs
from contrapose.world.benchmark.annotations import SIZE, SceneImage
from contrapose.world.benchmark.candidates import FilterCounts, Form, Proposer, draw_candidates
from contrapose.world.benchmark.pairs import PairMaker

EXAMPLES = 200
"""Default number of examples of a part."""
LARGEST_SIZE = 4096
"""Width and height of the largest images that are rendered."""
BLOCK_SIZE = 50
"""Examples that are made in one batch; the examples do not depend on it."""


@dataclass(frozen=True, slots=True)
class ScenePart:
    """Part of the benchmark: its shape, family, proposer and tags.

    Attributes:
        title: one-line description.
        shape: images × captions.
        family: the benchmark family, which decides the metrics.
        propose: makes an example from a scene; None for the gallery and the edits.
        tags: descriptions of the tags that only this part has.
        by: tags that results are broken down by.
    """

    title: str
    shape: str
    family: Family
    propose: Proposer | None
    tags: Mapping[str, str]
    by: tuple[str, ...] = ()


CHANCE: Mapping[str, Mapping[str, float]] = {
    "1 × 2": {"accuracy": 1 / 2},
    "1 × 5": {"accuracy": 1 / 5},
    "2 × 2": {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    "1 × 3": {"original_accuracy": 1 / 2, "augmented_accuracy": 1 / 3, "brittleness": 1 / 3},
}
_SLOT_TAGS = {slot: f"the {slot}s of the two captions, the right one first" for slot in
         ("color", "shape", "size", "material", "pattern", "count", "relation")}  # fmt: skip
_ATTRIBUTES: Mapping[str, PairMaker] = {
    "color": pairs.replace_slot("color"),
    "size": pairs.replace_slot("size"),
    "material": pairs.replace_slot("material"),
    "pattern": pairs.replace_slot("pattern"),
}
_NEGATIVE_MAKERS: Mapping[str, PairMaker] = {
    "replace-color": pairs.replace_slot("color"),
    "replace-shape": pairs.replace_slot("shape"),
    "replace-relation": pairs.replace_relation,
    "swap-attribute": pairs.swap_colors,
    "swap-relation": pairs.swap_relation,
}


def _pair_part(title: str, maker: PairMaker, *tags: str, by: tuple[str, ...] = ()) -> ScenePart:
    meanings = {tag: _SLOT_TAGS.get(tag, "the attribute that differs") for tag in tags}
    return ScenePart(title, "2 × 2", "pairs", candidates.pair_proposer(maker), meanings, by)


def _choice_part(title: str, propose: Proposer, by: tuple[str, ...] = (), **tags: str) -> ScenePart:
    return ScenePart(title, "1 × 2", "choice", propose, tags, by)


def _slot_part(title: str, maker: PairMaker, slot: str, by: tuple[str, ...] = ()) -> ScenePart:
    return _choice_part(title, candidates.choice_proposer(maker), by, **{slot: _SLOT_TAGS[slot]})


PARTS: Mapping[str, ScenePart] = {
    "location": _pair_part("a thing in another place", pairs.relocate, "relation"),
    "counting": _pair_part("another number of like things", pairs.change_count, "count"),
    "attribute": _pair_part(
        "one attribute of one thing", pairs.choose_maker(_ATTRIBUTES, "attribute"), "attribute",
        by=("attribute",),
    ),
    "replace-color": _slot_part("another colour", pairs.replace_slot("color"), "color"),
    "replace-shape": _slot_part("another shape", pairs.replace_slot("shape"), "shape"),
    "replace-size": _slot_part("small or large", pairs.replace_slot("size"), "size"),
    "replace-material": _slot_part("rubber or metal", pairs.replace_slot("material"), "material"),
    "replace-relation": _slot_part("another relation", pairs.replace_relation, "relation"),
    "replace-count": _slot_part("another number", pairs.change_count, "count"),
    "swap-attribute": _slot_part("two things exchange colours", pairs.swap_colors, "color"),
    "swap-relation": _slot_part(
        "two things exchange their roles in a relation", pairs.swap_relation, "relation",
        ("relation",),
    ),
    "add": _choice_part(
        "one thing more is said that is not so", candidates.propose_addition, ("added",),
        added="attribute or object",
    ),
    "order": ScenePart("a caption among four shuffles", "1 × 5", "choice",
    candidates.propose_orders, {}),
    "hard-positives": ScenePart(
        "a caption, a false change of it, and a true one", "1 × 3", "triple",
        candidates.triple_proposer(pairs.choose_maker(_NEGATIVE_MAKERS, "change")),
        {"rewrite": "how the hard positive says the same"}, ("change", "rewrite"),
    ),
    "gallery": ScenePart("detailed captions of one scene each", "N × N", "retrieval", None, {}),
    "edits": ScenePart(
        "another colour or shape of one of two things", "2N images, N queries", "edits", None,
        {"field": "color or shape: what changes", "split": "dev or test, every other query"},
        ("field",),
    ),
    "held-out": _choice_part(
        "a colour and a shape that never meet in training", candidates.propose_held_out,
        ("change",),
        wrong="whether the wrong colour and shape have met in training",
    ),
}  # fmt: skip
"""Every part by its name, in the order of reports."""

_COMMON_TAGS = {
    "subset": "the part",
    "change": "how the wrong caption comes of the right one",
    "world": "balanced or skewed",
    "things": "how many things the (first) scene has",
}


def part_card(suite: str, name: str, form: Form, examples: int) -> Card:
    """Benchmark card of a part."""
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
        license="Apache-2.0",
        source="made by the program; contrapose build scenes writes it to disk",
        layout=f"no files are needed; {prior}",
        shape=part.shape,
        family=part.family,
        counts={name: examples} if part.propose is not None else {},
        aggregation=Micro(),
        chance=CHANCE.get(part.shape, {}),
        tags={**(_COMMON_TAGS if part.propose is not None else {}), **part.tags},
        by=part.by,
        match={"2 × 2": diagonal_match(2), "1 × 3": candidates.TRIPLE_MATCH}.get(part.shape),
    )


def part_data(
    name: str, form: Form, examples: int, seed: int, size: int, tally: FilterCounts | None = None
) -> BenchmarkData:
    """Data of a part; examples are generated block by block.

    Args:
        name: name of the part.
        form: balanced or skewed.
        examples: number of examples; of images in the gallery, of queries in the edits.
        seed: seed of everything random.
        size: width and height of the images.
        tally: counter of drawn and accepted scenes; without it, blocks are cached.
    """
    if PARTS[name].propose is None:
        make = galleries.make_gallery if name == "gallery" else galleries.make_edits
        return make(name, form, examples, seed, size, FilterCounts() if tally is None else tally)
    return _iter_examples(name, form, examples, seed, size, tally)


def _iter_examples(
    name: str, form: Form, examples: int, seed: int, size: int, tally: FilterCounts | None
) -> Iterator[Example]:
    for start in range(0, examples, BLOCK_SIZE):
        stop = min(start + BLOCK_SIZE, examples)
        if tally is None:
            yield from _cached_block(name, form, start, stop, seed, size)
        else:
            yield from _make_block(name, form, start, stop, seed, size, tally)


@lru_cache(maxsize=512)
def _cached_block(
    name: str, form: Form, start: int, stop: int, seed: int, size: int
) -> tuple[Example, ...]:
    return _make_block(name, form, start, stop, seed, size, FilterCounts())


def _make_block(
    name: str, form: Form, start: int, stop: int, seed: int, size: int, tally: FilterCounts
) -> tuple[Example, ...]:
    propose = PARTS[name].propose
    if propose is None:
        raise ValueError(f"{name} is not a list of examples")
    indices = range(start, stop)
    return tuple(
        Example(
            id=str(index),
            images=tuple(
                ImageRef(f"{name}/{index}/{i}", source=SceneImage(scene, size))
                for i, scene in enumerate(candidate.scenes)
            ),
            texts=candidate.texts,
            match=candidate.match,
            tags={"change": name, **candidate.tags},
        )
        for index, candidate in zip(
            indices, draw_candidates(name, propose, form, seed, indices, tally), strict=True
        )
    )


NAMES: dict[Form, str] = {"balanced": "scenes", "skewed": "scenes-skewed"}
"""Benchmark names of the two forms."""


def scenes(
    form: Form = "balanced", *, examples: int = EXAMPLES, seed: int = 0, size: int = SIZE
) -> Suite:
    """The suite in its balanced or skewed form.

    Args:
        form: balanced, or as skewed as the training world.
        examples: number per part; of images in the gallery, of queries in the edits.
        seed: seed of everything random; example i does not depend on the number of examples.
        size: width and height of the images.

    Raises:
        InputError: no such form, no examples, or images of no size or too large.
    """
    if form not in NAMES:
        raise InputError(f"{form!r} is not a form of scenes; there are {' and '.join(NAMES)}.")
    require_positive(examples, size)
    name = NAMES[form]
    return Suite(
        name=name,
        title="Scenes: " + _TITLES[form],
        parts={part: _part_benchmark(name, part, form, examples, seed, size) for part in PARTS},
    )


_TITLES: dict[Form, str] = {
    "balanced": "rendered scenes and minimal changes; no language prior helps",
    "skewed": "the same from the skewed world of the training set: the language prior helps",
}


def require_positive(examples: int, size: int) -> None:
    """Require at least one example, and images of 1 to `LARGEST_SIZE` pixels.

    Raises:
        InputError: a number is out of bounds.
    """
    if examples < 1:
        raise InputError(f"there must be at least one example, not {examples}.")
    if size < 1:
        raise InputError(f"pictures must be at least one pixel wide, not {size}.")
    if size > LARGEST_SIZE:
        raise InputError(f"pictures must be at most {LARGEST_SIZE} pixels wide, not {size}.")


def _part_benchmark(
    suite: str, part: str, form: Form, examples: int, seed: int, size: int
) -> Benchmark:
    def read(root: Path, problems: Problems) -> BenchmarkData:
        """Generate the part; there is no folder to read."""
        return part_data(part, form, examples, seed, size)

    return Benchmark(part_card(suite, part, form, examples), read, generated=True)


SIMAT = "simat-scenes"
"""Name of the edit queries alone."""

SIMAT_QUERIES = 1000
"""Default number of queries of `simat-scenes`; its database has twice as many images."""


def simat_scenes(*, examples: int = SIMAT_QUERIES, seed: int = 0, size: int = SIZE) -> Benchmark:
    """The edit queries of `scenes` as a benchmark of its own, with exact truth.

    Args:
        examples: number of queries; the first ones are those of `scenes/edits`.
        seed: seed of everything random.
        size: width and height of the images.

    Raises:
        InputError: no queries, or images of no size.
    """
    require_positive(examples, size)
    part = _part_benchmark("scenes", "edits", "balanced", examples, seed, size)
    title = "SIMAT on rendered scenes: change a colour or a shape, find the image that fits"
    shape = f"{2 * examples:,} images, {examples:,} queries"
    return replace(part, card=replace(part.card, name=SIMAT, title=title, shape=shape))


BENCHMARKS: dict[str, Suite | Benchmark] = {
    **{name: scenes(form) for form, name in NAMES.items()},
    SIMAT: simat_scenes(),
}
