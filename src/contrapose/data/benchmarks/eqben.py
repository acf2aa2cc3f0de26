"""EqBen: two frames that differ a little, two captions that tell them apart.

The released list of single pairs in shuffled order is put back into examples. A row is
`{"image", "caption"}`; its subset, example and name (c0i0, c0i1, c1i0 or c1i1) are in its field
`private_info`, or in the authors' two files: row i of the list is entry `private_random_idx[i]` of
`private_info.json`. Four rows make one example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

from contrapose.data.benchmarks.common import (
    find_file,
    find_folder,
    read_first_text,
    require_folder,
)
from contrapose.data.cards import Benchmark, Card, Macro, Micro
from contrapose.data.downloads import Manual
from contrapose.data.examples import Example, diagonal_match
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json,
    read_json_records,
    safe_join,
)

PAIR_NAMES = ("c0i0", "c0i1", "c1i0", "c1i1")

INFO_FILE, ORDER_FILE = "private_info.json", "private_random_idx.json"
"""Pairs in their original order, and for each row of the shuffled list its position there."""

SampleRows = dict[int, dict[str, Record]]
"""Number of an example → its rows by name."""


def read_shuffled_records(
    path: Path, subset_of: Mapping[str, str], problems: Problems
) -> Iterator[tuple[str, Record]]:
    """Read (subset, record) pairs with both images and captions, in the original order.

    Args:
        path: the released file.
        subset_of: name of a data set in the file → subset; also says in which order they come.
        problems: where rows that cannot be used are reported.
    """
    samples_of: dict[str, SampleRows] = {subset: defaultdict(dict) for subset in subset_of.values()}

    def build(record: Record) -> None:
        subset, number, name = _parse_pair_info(record, subset_of)
        if name in ("c0i0", "c1i1"):  # the matching pairs name both images and both captions
            samples_of[subset][number][name] = record

    for _ in parse_records(_read_rows(path, subset_of, problems), build, problems):
        pass
    for subset, samples in samples_of.items():
        for number in sorted(samples):
            yield subset, _join_pairs(samples[number], f"{subset}/{number}")


def read_shuffled_pairs(
    path: Path, subset_of: Mapping[str, str], problems: Problems
) -> list[tuple[str, int, int]]:
    """Read (example id, image, caption) of every row, in a submission's order.

    Ids are those that the reader gives: the position of an example in its subset.
    """

    def build(record: Record) -> tuple[str, int, str]:
        return _parse_pair_info(record, subset_of)

    rows = list(parse_records(_read_rows(path, subset_of, problems), build, problems))
    numbers: dict[str, set[int]] = defaultdict(set)
    for subset, number, _ in rows:
        numbers[subset].add(number)
    example_id = {
        (subset, number): f"{subset}/{position}"
        for subset, of_subset in numbers.items()
        for position, number in enumerate(sorted(of_subset))
    }
    return [
        (example_id[subset, number], int(name[3]), int(name[1])) for subset, number, name in rows
    ]


def _read_rows(path: Path, subset_of: Mapping[str, str], problems: Problems) -> Iterator[Record]:
    """Read the rows of the shuffled list with their `private_info`: theirs, or the index files'.

    Raises:
        InputError: rows have no such field, and the index files are missing, damaged, or those of
            another list.
    """
    rows = list(read_json_records(path, problems))
    if not any(_lacks_info(row) for row in rows):
        yield from rows
        return
    info_file, order_file = find_index_file(path, INFO_FILE), find_index_file(path, ORDER_FILE)
    missing = [
        name for name, file in ((INFO_FILE, info_file), (ORDER_FILE, order_file)) if file is None
    ]
    if info_file is None or order_file is None:
        raise InputError(
            f"'private_info' is missing in its rows, and {' and '.join(missing)} beside it, "
            "without which its pairs cannot be put together.",
            file=path,
        )
    order = _read_order(order_file, len(rows))
    infos = read_json(info_file, problems)
    if not isinstance(infos, list) or len(infos) != len(rows):
        count = f"{len(infos):,} entries" if isinstance(infos, list) else "no list"
        raise InputError(f"holds {count}, and {path.name} has {len(rows):,} rows.", file=info_file)
    for row, position in zip(rows, order, strict=True):
        info = infos[position]
        if not _lacks_info(row) or not isinstance(row.value, dict):
            yield row
            continue
        part = str(row.value.get("image")).replace("\\", "/").partition("/")[0]
        dataset = info.get("dataset") if isinstance(info, dict) else None
        known = isinstance(dataset, str) and dataset in subset_of
        if known and part in subset_of and part != dataset:
            raise InputError(
                f"does not belong to {path.name}: row {row.key} is an image of {part}, and entry "
                f"{position} is of {dataset}.",
                file=order_file,
            )
        yield replace(row, value={**row.value, "private_info": info})


def _lacks_info(row: Record) -> bool:
    return isinstance(row.value, dict) and "private_info" not in row.value


def find_index_file(path: Path, name: str) -> Path | None:
    """Find an index file of the shuffled list: beside it, above it, or in the authors' folder."""
    folders = (path.parent, path.parent.parent, path.parent / "src_file")
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _read_order(file: Path, rows: int) -> list[int]:
    """Read the position of each row in the original order.

    Raises:
        InputError: the file does not hold every position once.
    """
    order: Any = read_json(file)
    if not isinstance(order, list) or not all(type(position) is int for position in order):
        raise InputError("is no list of whole numbers.", file=file)
    if len(order) != rows:
        raise InputError(f"holds {len(order):,} positions for {rows:,} rows.", file=file)
    if sorted(order) != list(range(rows)):
        raise InputError(f"is no permutation: each of 0 … {rows - 1} must come once.", file=file)
    return order


def _parse_pair_info(record: Record, subset_of: Mapping[str, str]) -> tuple[str, int, str]:
    """Parse the subset, example number, and pair name of a row."""
    info = record.inner(record.field("private_info"))
    dataset, name, number = info.text("dataset"), info.text("name"), info.integer("sample_cnt")
    if dataset not in subset_of or name not in PAIR_NAMES:
        raise MalformedError(f"record {record.key}: {dataset!r}, {name!r} is not a pair of EqBen.")
    return subset_of[dataset], number, name


def _join_pairs(pairs: Mapping[str, Record], key: str) -> Record:
    """Join the rows of an example into one record."""
    value = {}
    for name, record in pairs.items():
        for field in ("image", "caption"):
            if field in record.value:
                value[f"{field}{name[-1]}"] = record.value[field]
    return replace(next(iter(pairs.values())), value=value, key=key)


SUBSETS = {
    "ag": 195872,
    "youcook2": 45849,
    "gebc": 1814,
    "kubric_location": 2000,
    "kubric_counting": 2000,
    "kubric_attribute": 2000,
    "sd": 1513,
}
OFFICIAL_NAMES = {
    "ag": "eqbenag",
    "youcook2": "eqbenyoucook2",
    "gebc": "eqbengebc",
    "kubric_location": "eqbenkubric_loc",
    "kubric_counting": "eqbenkubric_cnt",
    "kubric_attribute": "eqbenkubric_attr",
    "sd": "eqbensd",
}
"""Subset → its name in the released files, which is also the first part of an image's path."""

SUBSET_OF = {official: subset for subset, official in OFFICIAL_NAMES.items()}
LEVELS = {"ag": 2, "youcook2": 1, "gebc": 1}
"""How deep a subset's records lie below its entries: AG has video → subject → list of records."""

SHUFFLED_FILES = ("ann_json_finegrained_random.json", "ann/ann_json_finegrained_random.json")
GLOBAL_FILES = ("private_info_global.json", "ann/private_info_global.json")

CARD = Card(
    name="eqben",
    title="EqBen: minimal visual change, from video, a renderer and an image editor",
    paper="Wang et al., Equivariant Similarity for Vision-Language Foundation Models, ICCV 2023 "
    "(arXiv:2303.14465)",
    license="annotations MIT; frames under the terms of Action Genome, GEBC and YouCook2",
    source="github.com/Wangt-CN/EqBen (annotations and image archives)",
    layout="<subset>.json or the released name (eqbenag.json, eqbenkubric_loc.json, …), here or "
    "in ann/ or annotations/;\n"
    "or one file for all: private_info_global.json, or ann_json_finegrained_random.json with\n"
    "private_info.json and private_random_idx.json beside it\n"
    "images/ or image/ with eqbenag/, eqbenyoucook2/ (.npy), eqbengebc/, "
    "eqbenkubric_{loc,cnt,attr}/, eqbensd/",
    download=Manual(
        "https://github.com/Wangt-CN/EqBen",
        "fetch the annotations and the image archives from its Google Drive and unpack",
    ),
    shape="2 × 2",
    family="pairs",
    counts=SUBSETS,
    # The paper's average is over fifteen scores: three for each of five sets, Kubric being one.
    aggregation=Macro(
        "subset", groups={"kubric": ("kubric_location", "kubric_counting", "kubric_attribute")}
    ),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={"subset": "where the pair of images comes from"},
    match=diagonal_match(2),
    scores="subset arrays",
    average=True,
    errata="the paper prints 44.86 as FIBER's average; the mean of the fifteen scores beside it is "
    "43.47, which FIBER's released scores give too",
)

MINI = Card(
    name="eqben-mini",
    title="EqBen-mini: a small selection of EqBen, for models that are slow to ask",
    paper=CARD.paper,
    license=CARD.license,
    source="github.com/Wangt-CN/EqBen (the subset for large models, eqben_vllm.zip)",
    layout="all_select.json and images/eqben…/…, here or in eqben_vllm/",
    download=Manual(
        "https://github.com/Wangt-CN/EqBen",
        "fetch eqben_vllm.zip from its Google Drive and unpack",
    ),
    shape="2 × 2",
    family="pairs",
    counts={},
    aggregation=Micro(),
    chance=CARD.chance,
    tags=CARD.tags,
    match=diagonal_match(2),
    scores="subset arrays",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples of every existing subset, numbered within it in file order."""
    require_folder(root)
    files = {subset: path for subset in SUBSETS if (path := _find_subset_file(root, subset))}
    if files:
        records = (
            (subset, record)
            for subset, path in files.items()
            for record in _flatten_records(
                read_json_records(path, problems), LEVELS.get(subset, 0), problems
            )
        )
        yield from _build_examples(root, records, problems)
        return
    path = find_file(
        root, *SHUFFLED_FILES, *GLOBAL_FILES, *(f"{subset}.json" for subset in SUBSETS)
    )
    shuffled = path.name in SHUFFLED_FILES
    if shuffled and find_index_file(path, ORDER_FILE) is None:  # the global file needs no index
        path = next((root / name for name in GLOBAL_FILES if (root / name).is_file()), path)
        shuffled = path.name in SHUFFLED_FILES
    if shuffled:
        yield from _build_examples(root, read_shuffled_records(path, SUBSET_OF, problems), problems)
    else:
        yield from _build_examples(root, _read_global_file(path, problems), problems)


def read_submission(root: Path, problems: Problems) -> list[tuple[str, int, int]]:
    """Read the pair that each score of an official flat submission is of."""
    return read_shuffled_pairs(find_file(root, *SHUFFLED_FILES), SUBSET_OF, problems)


def read_mini(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the selected examples; the subset is the first part of the image path."""
    path = find_file(root, "all_select.json", "eqben_vllm/all_select.json")
    images = find_folder(path.parent, "images", "image")

    def build(record: Record) -> Example:
        part = _dataset_name(record)
        return _build_example(record, record.key, SUBSET_OF.get(part, part), images / part)

    yield from parse_records(read_json_records(path, problems), build, problems)


def _build_examples(
    root: Path, records: Iterator[tuple[str, Record]], problems: Problems
) -> Iterator[Example]:
    """Build the examples; a malformed record keeps its number, so that scores line up."""
    folders = {subset: _find_image_folder(root, subset) for subset in SUBSETS}
    numbers = {subset: count() for subset in SUBSETS}
    for subset, record in records:
        name = f"{subset}/{next(numbers[subset])}"

        def build(record: Record, subset: str = subset, name: str = name) -> Example:
            return _build_example(record, name, subset, folders[subset])

        yield from parse_records((record,), build, problems)


def _build_example(record: Record, name: str, subset: str, folder: Path) -> Example:
    channels: Literal["rgb", "bgr"] = "bgr" if subset == "youcook2" else "rgb"
    images = []
    for field in ("image0", "image1"):
        path = record.text(field).replace("\\", "/")
        path = path.removeprefix(f"{OFFICIAL_NAMES.get(subset, subset)}/")
        images.append(ImageRef(f"{subset}/{path}", safe_join(folder, path), channels=channels))
    texts = (read_first_text(record, "caption0"), read_first_text(record, "caption1"))
    return Example(name, tuple(images), texts, diagonal_match(2), {"subset": subset})


def _flatten_records(
    records: Iterator[Record], levels: int, problems: Problems
) -> Iterator[Record]:
    """Flatten records that lie so many levels below, in file order, each with its line."""
    for record in records:
        if levels == 0:
            yield record
        elif isinstance(record.value, dict | list):
            value = record.value
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            inner = (record.inner(v, f"{record.key}/{k}") for k, v in pairs)
            yield from _flatten_records(inner, levels - 1, problems)
        else:
            message = f"record {record.key}: expected a list or an object of records."
            problems.report(Problem("malformed record", message, record.file, record.line))


def _read_global_file(path: Path, problems: Problems) -> Iterator[tuple[str, Record]]:
    """Read the one file of all subsets, told apart by the first part of the image path."""

    def build(record: Record) -> tuple[str, Record]:
        part = _dataset_name(record)
        if part not in SUBSET_OF:
            raise MalformedError(f"record {record.key}: {part!r} is not a subset of EqBen.")
        return SUBSET_OF[part], record

    yield from parse_records(read_json_records(path, problems), build, problems)


def _dataset_name(record: Record) -> str:
    name = record.text("image0").replace("\\", "/")
    return safe_join(Path(), name).parts[0]


def _find_subset_file(root: Path, subset: str) -> Path | None:
    names = (f"{subset}.json", f"{OFFICIAL_NAMES[subset]}.json")
    folders = (root, *(root / folder for folder in ("ann", "annotation", "annotations")))
    paths = (folder / name for folder in folders for name in names)
    return next((path for path in paths if path.is_file()), None)


def _find_image_folder(root: Path, subset: str) -> Path:
    names = (OFFICIAL_NAMES[subset], subset)
    paths = [f"{folder}{name}" for folder in ("images/", "image/", "") for name in names]
    return find_folder(root, *paths, "images", "image")


BENCHMARKS = {
    "eqben": Benchmark(CARD, read, read_submission),
    "eqben-mini": Benchmark(MINI, read_mini),
}
