"""VALSE: a caption and its foil, one linguistic phenomenon each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from contrapose.data.benchmarks.common import find_folder, read_first_text, require_folder
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Download, coco_images, github_files
from contrapose.data.examples import Example, single_match
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import Problems, Record, parse_records, read_json_records, safe_join

INSTRUMENTS = {
    "actant-swap": "actions",
    "action-replacement": "actions",
    "coreference-hard": "coreference",
    "coreference-standard": "coreference",
    "counting-adversarial": "counting",
    "counting-hard": "counting",
    "counting-small-quant": "counting",
    "existence": "existence",
    "foil-it": "foil-it",
    "plurals": "plurality",
    "relations": "relations",
}
"""Instrument (the file's name) → phenomenon, as score files name it; in the order of the ids."""

VALID_VOTES = 2
"""Of three annotators, so many chose the caption and not the foil: the official valid set."""

FOLDERS = {
    "COCO_train2014_": ("train2014", "coco/train2014"),
    "COCO_val2014_": ("val2014", "coco/val2014"),
    "VisualDialog_val2018_": ("VisualDialog_val2018", "visdial/VisualDialog_val2018", "visdial"),
    "v7w_": ("visual7w/images", "visual7w"),
}
"""How an image's name starts → where it lies. VisDial has images of three kinds."""

COCO_2017 = ("val2017", "coco/val2017")
SWIG = ("images_512", "swig/images_512", "swig")

DOWNLOAD = Download(
    None,
    github_files(
        "Heidelberg-NLP/VALSE",
        "main",
        {
            "actant-swap.json": (
                "data/actant-swap.json",
                503017,
                "915294ac3ade7c4c067b1c6841d0db93b60cb8a61ac8e2fb6b125c2a1c0ca93a",
            ),
            "action-replacement.json": (
                "data/action-replacement.json",
                664129,
                "336ba134f29a3475d0508809067218909a6bd30f079c59309d19244eccb7917f",
            ),
            "coreference-hard.json": (
                "data/coreference-hard.json",
                95649,
                "ef54d8d971d9e0f264e07de08d9915c6e3d6129a2f239888f2b938f5c2eb4139",
            ),
            "coreference-standard.json": (
                "data/coreference-standard.json",
                592329,
                "dae1d9eb018acb54e29a1c4983f3563f86ec3b6beb4037a261564270b0473e95",
            ),
            "counting-adversarial.json": (
                "data/counting-adversarial.json",
                407394,
                "0d23529308449c98b37a91048a865a5f377325eceb9accd73f2947bc512d12b0",
            ),
            "counting-hard.json": (
                "data/counting-hard.json",
                537197,
                "2cc83615653675fb50914ce2d8ab4041cce1278eed7ac0abf6f319dbce5c967a",
            ),
            "counting-small-quant.json": (
                "data/counting-small-quant.json",
                534996,
                "ca0645885b05738f6c6df2dffec70c669aaff64114017f33425821faab4bc374",
            ),
            "existence.json": (
                "data/existence.json",
                420403,
                "b20fca52eba86c544083d423345a2e28e60e601ef61c56c9ac1c73a95a3a6d18",
            ),
            "foil-it.json": (
                "data/foil-it.json",
                538911,
                "6f6f0d7494271ed28f6e6f075c3ba36ba1bc45d00ecf7403920f060915130460",
            ),
            "plurals.json": (
                "data/plurals.json",
                1097122,
                "43760db7fc8c6f2a21d3536d52f81539cb101f3370e8d2effb09de43d91486a3",
            ),
            "relations.json": (
                "data/relations.json",
                664587,
                "061fc557459c318ccd6734d07c21cfa5bf5ae87aa6b1110b8f5ec3d6b2911043",
            ),
        },
    ),
    (
        coco_images("images/val2017", "val2017", count=1192),
        coco_images("images/val2014", "val2014", count=1145),
        coco_images("images/train2014", "train2014", count=493),
    ),
    by_hand="the images of Visual7W (images/visual7w/images/, 2,087), SWiG (images/images_512/, "
    "1,102) and VisDial (images/VisualDialog_val2018/, 104), by the links of "
    "https://github.com/Heidelberg-NLP/VALSE",
)

CARD = Card(
    name="valse",
    title="VALSE: foils for six phenomena, and FOIL it!",
    paper="Parcalabescu et al., VALSE: A Task-Independent Benchmark for Vision and Language "
    "Models Centered on Linguistic Phenomena, ACL 2022 (arXiv:2112.07566)",
    license="annotations as published by their authors; images under the terms of Visual7W, "
    "COCO, SWiG and VisDial",
    source="github.com/Heidelberg-NLP/VALSE (data/*.json) and the images of the sources",
    layout="all eleven files actant-swap.json … relations.json, here or in data/\n"
    "images/ with all images, or images/{visual7w/images, images_512 (SWiG), val2014, train2014, "
    "val2017, VisualDialog_val2018}/; the same folders without images/ will do",
    download=DOWNLOAD,
    shape="1 × 2",
    family="foil",
    counts={
        "actant-swap": 949,
        "action-replacement": 648,
        "coreference-hard": 104,
        "coreference-standard": 708,
        "counting-adversarial": 691,
        "counting-hard": 868,
        "counting-small-quant": 900,
        "existence": 505,
        "foil-it": 943,
        "plurals": 851,
        "relations": 535,
    },
    aggregation=Macro("subset"),  # the paper's Avg. is the mean over the eleven instruments
    chance={"pairwise_accuracy": 1 / 2, "acc": 1 / 2},
    tags={
        "subset": "the instrument: one of eleven files",
        "phenomenon": "actions, coreference, counting, existence, foil-it, plurality, relations",
        "dataset": "where the image comes from",
    },
    by=("subset", "phenomenon"),
    match=single_match(2, 0),
    scores="valse",
    official="compares match logits: p_c and the pairwise accuracy are strict, p_f counts a foil "
    "on the threshold as found, but items whose foil lies exactly on it are dropped",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the valid examples; ids count all records, valid or not, of all files in order."""
    require_folder(root)
    files = [_find_instrument_file(root, instrument) for instrument in INSTRUMENTS]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise InputError(
            f"lacks {', '.join(missing)}; VALSE numbers its examples over all eleven files, so "
            "all must be there.",
            file=root,
        )
    numbers = count()
    for path in files:

        def build(record: Record, instrument: str = path.stem) -> Example | None:
            return _build_example(record, instrument, str(next(numbers)), root)

        built = parse_records(read_json_records(path, problems), build, problems)
        yield from (example for example in built if example is not None)


def _find_instrument_file(root: Path, instrument: str) -> Path:
    path = root / "data" / f"{instrument}.json"
    return path if path.is_file() else root / path.name


def _build_example(record: Record, instrument: str, number: str, root: Path) -> Example | None:
    votes = record.inner(record.field("mturk")).integer("caption")
    if votes < VALID_VOTES:
        return None
    name, dataset = record.text("image_file"), record.text("dataset")
    other = COCO_2017 if dataset.lower().startswith("coco") else SWIG
    names = next((FOLDERS[start] for start in FOLDERS if name.startswith(start)), other)
    folder = find_folder(root, *(f"images/{n}" for n in names), *names, "images")
    return Example(
        id=number,
        images=(ImageRef(name, safe_join(folder, name)),),
        texts=(read_first_text(record, "caption"), read_first_text(record, "foil")),
        match=single_match(2, 0),
        tags={
            "subset": instrument,
            "phenomenon": INSTRUMENTS[instrument],
            "dataset": dataset,
        },
    )


BENCHMARK = Benchmark(CARD, read)
