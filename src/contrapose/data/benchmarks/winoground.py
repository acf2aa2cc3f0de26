"""Winoground: two images, two captions of the same words in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from contrapose.data.benchmarks.common import find_image, require_folder
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, HubFiles
from contrapose.data.examples import Example, TagValue, diagonal_match
from contrapose.data.images import Cell, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    read_jsonl_records,
    read_parquet_records,
)

TAGS = ("tag", "secondary_tag", "num_main_preds", "collapsed_tag")

CARD = Card(
    name="winoground",
    title="Winoground: same words, other order, two images",
    paper="Thrush et al., Winoground: Probing Vision and Language Models for Visio-Linguistic "
    "Compositionality, CVPR 2022 (arXiv:2204.03162); tags: Diwan et al., Why is Winoground "
    "Hard?, EMNLP 2022 (arXiv:2211.00768)",
    license="gated; non-commercial research, no redistribution (Meta and Getty Images)",
    source="the dataset facebook/winoground on the Hugging Face hub, after accepting its terms; "
    "Diwan tags from github.com/ajd12342/why-winoground-hard",
    layout="examples.jsonl and images/ex_<id>_img_<0|1>.png, or the hub's *.parquet (in data/)\n"
    "diwan_tags.json, or new_tag_assignments.json (optional): id → list of tags",
    download=Download(
        None,
        (
            HubFiles("facebook/winoground", ("data/examples.jsonl",), strip="data/"),
            HubFiles("facebook/winoground", ("data/images.zip",), strip="data/", unpack="zip"),
        ),
        gated="https://huggingface.co/datasets/facebook/winoground",
    ),
    shape="2 × 2",
    family="pairs",
    counts={"winoground": 400},
    aggregation=Micro(),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={
        "collapsed_tag": "Object, Relation or Both: what is swapped",
        "tag": "the fine linguistic tag",
        "secondary_tag": "Pragmatics, Morpheme-Level, Series …",
        "num_main_preds": "number of main predicates",
        "diwan": "Diwan et al.: No Tag, Complex Reasoning, Unusual Image, …",
    },
    by=("collapsed_tag",),
    match=diagonal_match(2),
    scores="winoground",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the 400 examples, from the hub's Parquet files or from `examples.jsonl`."""
    require_folder(root)
    diwan = _read_diwan_tags(root, problems)
    if (root / "examples.jsonl").is_file():

        def from_line(record: Record) -> Example:
            names = (record.text("image_0"), record.text("image_1"))
            refs = tuple(ImageRef(name, find_image(root, name, "images", ".")) for name in names)
            return _build_example(record, (refs[0], refs[1]), diwan)

        yield from parse_records(
            read_jsonl_records(root / "examples.jsonl", problems), from_line, problems
        )
        return

    files = sorted(root.glob("*.parquet")) or sorted((root / "data").glob("*.parquet"))
    if not files:
        raise InputError("holds neither examples.jsonl nor a .parquet file.", file=root)

    def from_row(record: Record) -> Example:
        row = record.line - 1
        refs = [
            ImageRef(f"ex_{record.name('id')}_img_{i}", record.file, cell=Cell(f"image_{i}", row))
            for i in range(2)
        ]
        return _build_example(record, (refs[0], refs[1]), diwan)

    columns = ("id", "caption_0", "caption_1", *TAGS)
    for file in files:
        yield from parse_records(read_parquet_records(file, columns), from_row, problems)


def _build_example(
    record: Record, images: tuple[ImageRef, ImageRef], diwan: Mapping[str, TagValue]
) -> Example:
    name = record.name("id")
    tags: dict[str, TagValue] = {
        tag: str(record.value[tag]) for tag in TAGS if record.value.get(tag) not in (None, "")
    }
    if name in diwan:
        tags["diwan"] = diwan[name]
    texts = (record.text("caption_0"), record.text("caption_1"))
    return Example(name, images, texts, diagonal_match(2), tags)


def _read_diwan_tags(root: Path, problems: Problems) -> dict[str, TagValue]:
    for name in ("diwan_tags.json", "new_tag_assignments.json"):
        if (root / name).is_file():
            return dict(
                parse_records(
                    read_json_records(root / name, problems), _parse_diwan_entry, problems
                )
            )
    return {}


def _parse_diwan_entry(record: Record) -> tuple[str, TagValue]:
    if not isinstance(record.value, list) or not all(isinstance(t, str) for t in record.value):
        raise MalformedError(f"example {record.key}: expected a list of tags.")
    return record.key, tuple(record.value) or ("No Tag",)


BENCHMARK = Benchmark(CARD, read)
