"""EqBen: two frames that differ a little, two captions that tell them apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal

from contrapose.data.benchmarks.eqben_shuffled import shuffled_pairs, shuffled_records
from contrapose.data.benchmarks.fields import first_text
from contrapose.data.benchmarks.folders import find_file, first_folder, require_folder
from contrapose.data.card import Card, Macro, Micro
from contrapose.data.example import Example, diagonal
from contrapose.data.images import ImageRef
from contrapose.data.registry import Benchmark
from contrapose.files import Malformed, Problem, Problems, Record, inside, json_records, parse

SUBSETS = {
    "ag": 195872,
    "youcook2": 45849,
    "gebc": 1814,
    "kubric_location": 2000,
    "kubric_counting": 2000,
    "kubric_attribute": 2000,
    "sd": 1513,
}
OFFICIAL = {
    "ag": "eqbenag",
    "youcook2": "eqbenyoucook2",
    "gebc": "eqbengebc",
    "kubric_location": "eqbenkubric_loc",
    "kubric_counting": "eqbenkubric_cnt",
    "kubric_attribute": "eqbenkubric_attr",
    "sd": "eqbensd",
}
"""Subset → its name in the released files, which is also the first part of an image's path."""

SUBSET_OF = {official: subset for subset, official in OFFICIAL.items()}
LEVELS = {"ag": 2, "youcook2": 1, "gebc": 1}
"""How deep a subset's records lie below its entries: AG has video → subject → list of records."""

SHUFFLED = ("ann_json_finegrained_random.json", "ann/ann_json_finegrained_random.json")
WHOLE = ("private_info_global.json", "ann/private_info_global.json")

CARD = Card(
    name="eqben",
    title="EqBen: minimal visual change, from video, a renderer and an image editor",
    paper="Wang et al., Equivariant Similarity for Vision-Language Foundation Models, ICCV 2023 "
    "(arXiv:2303.14465)",
    licence="annotations MIT; frames under the terms of Action Genome, GEBC and YouCook2",
    source="github.com/Wangt-CN/EqBen (annotations and image archives)",
    layout="<subset>.json or the released name (eqbenag.json, eqbenkubric_loc.json, …), here or "
    "in ann/ or annotations/;\n"
    "or one file for all: ann_json_finegrained_random.json, or private_info_global.json\n"
    "images/ or image/ with eqbenag/, eqbenyoucook2/ (.npy), eqbengebc/, "
    "eqbenkubric_{loc,cnt,attr}/, eqbensd/",
    shape="2 × 2",
    family="pairs",
    counts=SUBSETS,
    # The paper's average is over fifteen scores: three for each of five sets, Kubric being one.
    aggregation=Macro(
        "subset", groups={"kubric": ("kubric_location", "kubric_counting", "kubric_attribute")}
    ),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={"subset": "where the pair of images comes from"},
    match=diagonal(2),
    scores="subset arrays",
    average=True,
)

MINI = Card(
    name="eqben-mini",
    title="EqBen-mini: a small selection of EqBen, for models that are slow to ask",
    paper=CARD.paper,
    licence=CARD.licence,
    source="github.com/Wangt-CN/EqBen (the subset for large models, eqben_vllm.zip)",
    layout="all_select.json and images/eqben…/…, here or in eqben_vllm/",
    shape="2 × 2",
    family="pairs",
    counts={},
    aggregation=Micro(),
    chance=CARD.chance,
    tags=CARD.tags,
    match=diagonal(2),
    scores="subset arrays",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Examples of every subset that is there, numbered within it in the order of the file."""
    require_folder(root)
    files = {subset: path for subset in SUBSETS if (path := _subset_file(root, subset))}
    if files:
        records = (
            (subset, record)
            for subset, path in files.items()
            for record in _nested(json_records(path, problems), LEVELS.get(subset, 0), problems)
        )
        yield from _examples(root, records, problems)
        return
    path = find_file(root, *SHUFFLED, *WHOLE, *(f"{subset}.json" for subset in SUBSETS))
    if path.name in SHUFFLED:
        yield from _examples(root, shuffled_records(path, SUBSET_OF, problems), problems)
    else:
        yield from _examples(root, _whole(path, problems), problems)


def read_submission(root: Path, problems: Problems) -> list[tuple[str, int, int]]:
    """What each score of an official submission is of: one flat array in the shuffled order."""
    return shuffled_pairs(find_file(root, *SHUFFLED), SUBSET_OF, problems)


def read_mini(root: Path, problems: Problems) -> Iterator[Example]:
    """The selected examples; the subset is the first part of the image path."""
    path = find_file(root, "all_select.json", "eqben_vllm/all_select.json")
    images = first_folder(path.parent, "images", "image")

    def build(record: Record) -> Example:
        part = _first_part(record)
        return _example(record, record.key, SUBSET_OF.get(part, part), images / part)

    yield from parse(json_records(path, problems), build, problems)


def _examples(
    root: Path, records: Iterator[tuple[str, Record]], problems: Problems
) -> Iterator[Example]:
    """Build the examples; a malformed record keeps its number, so that scores still line up."""
    folders = {subset: _image_folder(root, subset) for subset in SUBSETS}
    numbers = {subset: count() for subset in SUBSETS}
    for subset, record in records:
        name = f"{subset}/{next(numbers[subset])}"

        def build(record: Record, subset: str = subset, name: str = name) -> Example:
            return _example(record, name, subset, folders[subset])

        yield from parse((record,), build, problems)


def _example(record: Record, name: str, subset: str, folder: Path) -> Example:
    channels: Literal["rgb", "bgr"] = "bgr" if subset == "youcook2" else "rgb"
    images = []
    for field in ("image0", "image1"):
        path = record.text(field).replace("\\", "/")
        path = path.removeprefix(f"{OFFICIAL.get(subset, subset)}/")
        images.append(ImageRef(f"{subset}/{path}", inside(folder, path), channels=channels))
    texts = (first_text(record, "caption0"), first_text(record, "caption1"))
    return Example(name, tuple(images), texts, diagonal(2), {"subset": subset})


def _nested(records: Iterator[Record], levels: int, problems: Problems) -> Iterator[Record]:
    """The records that lie so many levels below these, in file order, each with its line."""
    for record in records:
        if levels == 0:
            yield record
        elif isinstance(record.value, dict | list):
            value = record.value
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            inner = (replace(record, value=v, key=f"{record.key}/{k}") for k, v in pairs)
            yield from _nested(inner, levels - 1, problems)
        else:
            message = f"record {record.key}: expected a list or an object of records."
            problems.report(Problem("malformed record", message, record.file, record.line))


def _whole(path: Path, problems: Problems) -> Iterator[tuple[str, Record]]:
    """Records of one file for all subsets, told apart by the first part of the image path."""

    def build(record: Record) -> tuple[str, Record]:
        part = _first_part(record)
        if part not in SUBSET_OF:
            raise Malformed(f"record {record.key}: {part!r} is not a subset of EqBen.")
        return SUBSET_OF[part], record

    yield from parse(json_records(path, problems), build, problems)


def _first_part(record: Record) -> str:
    name = record.text("image0").replace("\\", "/")
    return inside(Path(), name).parts[0]


def _subset_file(root: Path, subset: str) -> Path | None:
    names = (f"{subset}.json", f"{OFFICIAL[subset]}.json")
    places = (root, *(root / folder for folder in ("ann", "annotation", "annotations")))
    paths = (place / name for place in places for name in names)
    return next((path for path in paths if path.is_file()), None)


def _image_folder(root: Path, subset: str) -> Path:
    names = (OFFICIAL[subset], subset)
    places = ("images/", "image/", "")
    folders = [f"{place}{name}" for place in places for name in names]
    return first_folder(root, *folders, "images", "image")


BENCHMARKS = {
    "eqben": Benchmark(CARD, read, read_submission),
    "eqben-mini": Benchmark(MINI, read_mini),
}
