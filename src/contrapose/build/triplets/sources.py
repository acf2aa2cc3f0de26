"""Sources of triplets: Visual Genome's relationships, and scenes of the built-in world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.build.triplets.construction import Region, SquareBox, Triplet
from contrapose.data import ImageRef
from contrapose.data.benchmarks.common import find_image
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    resolve_name,
)
from contrapose.world.benchmark import SceneImage
from contrapose.world.benchmark.candidates import all_visible
from contrapose.world.captions import Caption, Mention, is_true
from contrapose.world.captions.words import RELATION_WORDS, WORDS
from contrapose.world.sample import sample_scenes
from contrapose.world.scene import RELATIONS as SCENE_RELATIONS
from contrapose.world.scene import SHAPES, Scene, holds

SCENES = "scenes"
"""Name of the built-in world as a source."""

SIZES = "image_data.json"
"""Visual Genome's file of the photographs' widths and heights."""

FOLDERS = ("VG_100K", "VG_100K_2", ".")
ARTICLES = (" a", " an", " the")


def read_relationships(path: Path, images: Path | None, problems: Problems) -> Iterator[Region]:
    """Read the relationships of Visual Genome: a region for each.

    Widths and heights come from `image_data.json` beside the file, else from the photographs.

    Args:
        path: `relationships.json`: for each image its relationships with subject, predicate and
            object, each with a name and a box (x, y, w, h).
        images: folder of the photographs, or of `VG_100K` and `VG_100K_2`; None without any.
        problems: where malformed records go.

    Raises:
        InputError: the file is no such list, or a photograph's size is not known.
    """
    sizes = _read_sizes(path.parent / SIZES, problems)
    count = 0
    records = read_json_records(path, problems)
    for photograph, parsed in parse_records(records, _parse_photograph, problems):
        file = find_image(images or path.parent, f"{photograph}.jpg", *FOLDERS)
        for triplet, union in parsed:
            if photograph not in sizes:
                sizes[photograph] = _measure(file, photograph)
            box = square_box(union, *sizes[photograph])
            left, top, right, bottom = box
            crop = (left, top, right - left, bottom - top)
            yield Region(count, photograph, triplet, box, ImageRef(str(photograph), file, crop))
            count += 1


def square_box(union: SquareBox, width: int, height: int) -> SquareBox:
    """Smallest square that holds a box, moved into the image; cut where the image is too narrow."""
    left, top, right, bottom = union
    side = max(right - left, bottom - top)
    sides = []
    for low, high, limit in ((left, right, width), (top, bottom, height)):
        length = min(side, limit)
        start = low - (length - (high - low)) // 2
        start = max(0, min(start, limit - length))
        sides.append((start, start + length))
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]


def _parse_photograph(record: Record) -> tuple[int, list[tuple[Triplet, SquareBox]]]:
    listed = record.field("relationships")
    if not isinstance(listed, list):
        raise MalformedError(f"record {record.key}: 'relationships' must be a list.")
    inner = (
        Record(one, record.file, record.line, f"{record.key}/{i}") for i, one in enumerate(listed)
    )
    return record.integer("image_id"), [_parse_relationship(one) for one in inner]


def _parse_relationship(record: Record) -> tuple[Triplet, SquareBox]:
    """Triplet in lower case, and the box that holds subject and object."""
    boxes = []
    names = []
    for side in ("subject", "object"):
        value = record.field(side)
        inner = Record(value, record.file, record.line, f"{record.key}/{side}")
        names.append(_name_of(inner))
        x, y, w, h = (inner.integer(key) for key in ("x", "y", "w", "h"))
        boxes.append((x, y, x + max(1, w), y + max(1, h)))
    relation = record.text("predicate").strip().lower()
    for article in ARTICLES:
        relation = relation.removesuffix(article)
    (a, b, c, d), (e, f, g, h_) = boxes
    union = (max(0, min(a, e)), max(0, min(b, f)), max(c, g), max(d, h_))
    return (names[0], relation, names[1]), union


def _name_of(record: Record) -> str:
    """Name of a subject or an object: `name`, or the first of `names`."""
    value: Any = record.value
    names = value.get("names") if isinstance(value, dict) else None
    if isinstance(names, list) and names:
        record = Record({"name": names[0]}, record.file, record.line, record.key)
    name = record.text("name").strip().lower()
    if any(mark in name for mark in "\r\n"):
        raise MalformedError(f"record {record.key}: a name holds a line break.")
    return name


def _read_sizes(path: Path, problems: Problems) -> dict[int, tuple[int, int]]:
    if not path.is_file():
        return {}

    def parse(record: Record) -> tuple[int, tuple[int, int]]:
        size = record.integer("width"), record.integer("height")
        if min(size) < 1:
            raise MalformedError(f"record {record.key}: an image has at least one pixel.")
        return record.integer("image_id"), size

    return dict(parse_records(read_json_records(path, problems), parse, problems))


def _measure(file: Path, photograph: int) -> tuple[int, int]:
    """Width and height of a photograph, from its header."""
    from PIL import Image

    there = resolve_name(file)
    if there is None:
        raise InputError(
            f"the size of photograph {photograph} is not known: put {SIZES} beside the "
            f"relationships, or pass {option('images', 'DIR')}."
        )
    try:
        with Image.open(there) as image:
            return image.size
    except (OSError, Image.DecompressionBombError) as error:
        raise InputError(f"cannot be read ({error}).", file=there) from None


def scene_regions(
    count: int, *, seed: int = 0, size: int = 96
) -> tuple[list[Region], dict[Triplet, Caption], list[Scene]]:
    """Regions of scenes with two things, each with a relation that holds between them.

    Returns:
        The regions; the caption of every triplet; and the scenes, by the photographs' numbers.
    """
    scenes = sample_scenes(
        count, seed, "balanced", things=2, keep=lambda some: all_visible([(s,) for s in some])
    )
    rng = np.random.default_rng(seed)
    regions: list[Region] = []
    captions: dict[Triplet, Caption] = {}
    for i, scene in enumerate(scenes):
        options = [
            (a, relation, b)
            for a, b in ((0, 1), (1, 0))
            for relation in SCENE_RELATIONS
            if holds(scene, a, relation, b)
        ]
        if not options or scene.things[0].shape == scene.things[1].shape:
            continue
        a, relation, b = options[int(rng.integers(len(options)))]
        shapes = [scene.things[k].shape for k in (a, b)]
        words = [WORDS["shape"][shape][0].text for shape in shapes]
        triplet = words[0], RELATION_WORDS[relation][0].text, words[1]
        captions[triplet] = Caption(
            "relation", tuple(Mention(None, shape) for shape in shapes), relation
        )
        image = ImageRef(str(i), source=SceneImage(scene, size))
        regions.append(Region(i, i, triplet, (0, 0, size, size), image))
    return regions, captions, scenes


def scene_fits(
    regions: list[Region],
    triplets: list[Triplet],
    captions: dict[Triplet, Caption],
    scenes: list[Scene],
) -> NDArray[np.float64]:
    """(images, captions) exact truth: 1, 0, or ½ where it is not beyond doubt."""
    value = {True: 1.0, False: 0.0, None: 0.5}
    return np.array(
        [
            [value[is_true(captions[triplet], scenes[region.photograph])] for triplet in triplets]
            for region in regions
        ]
    )


SCENE_SUBJECTS = tuple(WORDS["shape"][shape][0].text for shape in SHAPES)
SCENE_RELATION_WORDS = tuple(RELATION_WORDS[relation][0].text for relation in SCENE_RELATIONS)
