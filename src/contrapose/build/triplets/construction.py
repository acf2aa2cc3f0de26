"""Construction of SIMAT: filters of annotated regions, queries, and their dev and test halves.

Couairon et al., Embedding Arithmetic of Multimodal Queries for Image Retrieval, 2022, section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrapose.data import EditQuery, EditSet, ImageRef
from contrapose.errors import InputError

Triplet = tuple[str, str, str]
SquareBox = tuple[int, int, int, int]

FIELDS = ("subj", "rel", "obj")

SUBJECTS = (
    "bear", "bird", "boy", "cat", "cow", "dog", "elephant", "giraffe", "girl", "horse", "man",
    "people", "sheep", "woman", "zebra",
)  # fmt: skip
"""Subjects of SIMAT: people and animals."""

RELATIONS = (
    "balancing on", "biting", "chasing", "eating from", "entering", "grabbing", "jumping on",
    "laying in", "leaning on", "leaving", "licking", "playing with", "running in", "selling",
    "sitting on", "sleeping on", "sniffing", "swinging", "touching", "waiting at",
)  # fmt: skip
"""Relations of SIMAT: none of them says where something is."""


@dataclass(frozen=True, slots=True)
class Region:
    """Annotated region of a photograph.

    Attributes:
        id: its number.
        photograph: number of the photograph.
        triplet: subject, relation and object.
        box: left, top, right and bottom of the square that holds subject and object.
        image: the region's image.
    """

    id: int
    photograph: int
    triplet: Triplet
    box: SquareBox
    image: ImageRef


@dataclass(frozen=True, slots=True)
class TripletRecipe:
    """Options of the construction.

    Attributes:
        subjects: subjects that count; none means all.
        relations: relations that count; none means all.
        objects: most frequent objects of a subject and relation that are kept.
        min_relations: relations that an object must have.
        min_images: images that a triplet must have.
        present: probability that an image must exceed for its own caption.
        absent: probability below which it must be for the target caption.
        seed: of the dev and test halves.
    """

    subjects: tuple[str, ...] = SUBJECTS
    relations: tuple[str, ...] = RELATIONS
    objects: int = 10
    min_relations: int = 2
    min_images: int = 2
    present: float = 0.9
    absent: float = 0.1
    seed: int = 0


def filter_regions(
    regions: Iterable[Region], recipe: TripletRecipe
) -> tuple[list[Region], dict[str, int]]:
    """Filter regions as the paper does, and count what every filter leaves.

    Raises:
        InputError: nothing is left; says which filter took the last one.
    """
    kept = list(regions)
    counts = {"annotated": len(kept)}

    def keep(name: str, test: Callable[[Region], bool]) -> None:
        nonlocal kept
        kept = [region for region in kept if test(region)]
        counts[name] = len(kept)
        if not kept:
            raise InputError(f"no triplet is left by the filter {name!r}.")

    subjects, relations = set(recipe.subjects), set(recipe.relations)
    keep("subject in the list", lambda r: not subjects or r.triplet[0] in subjects)
    keep("relation in the list", lambda r: not relations or r.triplet[1] in relations)
    first = {(region.photograph, region.triplet): region.id for region in reversed(kept)}
    keep(
        "once in a photograph",
        lambda r: first[r.photograph, r.triplet] == r.id,
    )
    of_object: dict[str, set[str]] = {}
    for region in kept:
        of_object.setdefault(region.triplet[2], set()).add(region.triplet[1])
    keep(
        f"object with {recipe.min_relations} relations",
        lambda r: len(of_object[r.triplet[2]]) >= recipe.min_relations,
    )
    often = Counter(region.triplet for region in kept)
    rank: dict[tuple[str, str], list[str]] = {}
    for (subject, relation, thing), _ in sorted(often.items(), key=lambda item: (-item[1], item)):
        rank.setdefault((subject, relation), []).append(thing)
    keep(
        f"{recipe.objects} most frequent objects",
        lambda r: r.triplet[2] in rank[r.triplet[:2]][: recipe.objects],
    )
    keep(
        f"triplet with {recipe.min_images} images",
        lambda r: often[r.triplet] >= recipe.min_images,
    )
    return sorted(kept, key=lambda region: (region.triplet, region.id)), counts


def propose_queries(regions: Sequence[Region], captions: Callable[[Triplet], str]) -> EditSet:
    """Edit set of sorted regions: every change of one slot that leads to a triplet that exists.

    Raises:
        InputError: no triplet can be changed into another.
    """
    triplets = list(dict.fromkeys(region.triplet for region in regions))
    position = {triplet: i for i, triplet in enumerate(triplets)}
    changes: dict[Triplet, list[tuple[str, str, str, int]]] = {}
    for slot, field in enumerate(FIELDS):
        alike: dict[tuple[str, ...], list[Triplet]] = {}
        for triplet in triplets:
            alike.setdefault((*triplet[:slot], *triplet[slot + 1 :]), []).append(triplet)
        for some in alike.values():
            for now in some:
                changes.setdefault(now, []).extend(
                    (field, now[slot], then[slot], position[then]) for then in some if then != now
                )
    queries: list[EditQuery] = []
    for i, region in enumerate(regions):
        for field, source, target, caption in changes.get(region.triplet, ()):
            name = str(len(queries))
            shown = position[region.triplet]
            queries.append(
                EditQuery(name, i, source, target, shown, caption, 1.0, {"field": field})
            )  # fmt: skip
    if not queries:
        raise InputError("no triplet differs from another in one slot: there is no query.")
    return EditSet(
        images=tuple(region.image for region in regions),
        captions=tuple(map(captions, triplets)),
        caption_of=tuple(position[region.triplet] for region in regions),
        queries=tuple(queries),
    )


def annotated_fits(regions: Sequence[Region], data: EditSet) -> NDArray[np.float64]:
    """(images, captions) 1 where a caption's triplet is annotated in the photograph, else 0."""
    shown: dict[int, set[int]] = {}
    for region, caption in zip(regions, data.caption_of, strict=True):
        shown.setdefault(region.photograph, set()).add(caption)
    fits = np.zeros((len(data.images), len(data.captions)))
    for i, region in enumerate(regions):
        fits[i, sorted(shown[region.photograph])] = 1.0
    return fits


def select_queries(
    data: EditSet, oracle: NDArray[np.float64], recipe: TripletRecipe
) -> tuple[list[EditQuery], dict[str, int]]:
    """Queries whose image shows its own caption and not the target's, by the oracle.

    Raises:
        InputError: none is left.
    """
    shown = [q for q in data.queries if oracle[q.image, q.caption] > recipe.present]
    kept = [q for q in shown if oracle[q.image, q.target_caption] < recipe.absent]
    counts = {
        "one slot changed": len(data.queries),
        f"oracle of the image's caption above {recipe.present:g}": len(shown),
        f"oracle of the target caption below {recipe.absent:g}": len(kept),
    }
    if not kept:
        raise InputError("the oracle leaves no query.")
    return kept, counts


def choose_test(photographs: Iterable[int], seed: int) -> set[int]:
    """Photographs of the test half, drawn at random."""
    ordered = sorted(set(photographs))
    return {
        ordered[i]
        for i in np.random.default_rng(seed).permutation(len(ordered))[: len(ordered) // 2].tolist()
    }
