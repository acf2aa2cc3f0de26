"""CIRR: a photograph and a sentence that says what is different in the one to find."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from contrapose.data.benchmarks.common import (
    ImagePositions,
    find_file,
    read_names,
    require_folder,
)
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, github_files
from contrapose.data.examples import ComposedQuery, ComposedSet
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    safe_join,
)

FOLDERS = (".", "img_raw", "images")
SPLIT_FOLDERS = {"val": "dev", "test1": "test1"}

COMMIT = "910278c29d2a5602eae0119d6af906c3bae366bc"
BY_HAND = (
    "the images of NLVR2, which are given on request: see https://github.com/Cuberick-Orion/CIRR"
)


CARD = Card(
    name="cirr",
    title="CIRR: a photograph and what should differ, validation split",
    paper="Liu et al., Image Retrieval on Real-life Images with Pre-trained Vision-and-Language "
    "Models, ICCV 2021 (arXiv:2108.04024)",
    license="annotations MIT; images from NLVR2, research use",
    source="github.com/Cuberick-Orion/CIRR, branch cirr_dataset; images from NLVR2",
    layout="captions/cap.rc2.val.json and image_splits/split.rc2.val.json, or in cirr/\n"
    "dev/<name>.png as the split file names them, or in img_raw/",
    download=Download(
        COMMIT,
        github_files(
            "Cuberick-Orion/CIRR",
            COMMIT,
            {
                "captions/cap.rc2.val.json": (
                    "captions/cap.rc2.val.json",
                    1609916,
                    "a85c3a1aa464f1af7229918e8018d08b8b20ce5dab479ffdf39d61113140f919",
                ),
                "image_splits/split.rc2.val.json": (
                    "image_splits/split.rc2.val.json",
                    105568,
                    "de36f7a7219c8bb06347a67748cfc68405be7dad62853a1e31846c98e491235b",
                ),
            },
        ),
        by_hand=BY_HAND,
    ),
    shape="1 image + 1 text → 2,297 images",
    family="composed",
    counts={"val": 4181},
    aggregation=Micro(),
    chance={"r1": 1 / 2296, "r5": 5 / 2296, "subset_r1": 1 / 5},
    by=(),
)

TEST_CARD = replace(
    CARD,
    download=Download(
        COMMIT,
        github_files(
            "Cuberick-Orion/CIRR",
            COMMIT,
            {
                "captions/cap.rc2.test1.json": (
                    "captions/cap.rc2.test1.json",
                    1254129,
                    "26a2b2e7a5c96c903491aefc7d5f237f03d3cca97712e1b6bb3b231db5ff8001",
                ),
                "image_splits/split.rc2.test1.json": (
                    "image_splits/split.rc2.test1.json",
                    120364,
                    "bf2bb9ed0659c4aae35de72350652b9ab75d36a060211f826bec15c58ec12566",
                ),
            },
        ),
        by_hand=BY_HAND,
    ),
    name="cirr-test",
    title="CIRR: test split, whose targets only the evaluation server knows",
    layout=CARD.layout.replace("val.json", "test1.json").replace("dev/", "test1/"),
    shape="1 image + 1 text → 2,315 images",
    counts={"test1": 4148},
    chance={},
)


def read(root: Path, problems: Problems, *, split: str = "val") -> ComposedSet:
    """Read the queries of a split; their gallery is every image of the split file.

    The reference image is left out of the ranking. The subset of a query is its image set without
    the reference: five images that look alike. One query of the test split has a blank caption:
    it has no text.
    """
    require_folder(root)
    listed = f"split.rc2.{split}.json"
    captions = f"cap.rc2.{split}.json"
    inside = (root / name for name in FOLDERS if (root / name / SPLIT_FOLDERS[split]).is_dir())
    folder = next(inside, root)
    images = ImagePositions()
    for name, path in parse_records(
        read_json_records(_find_cirr_file(root, "image_splits", listed), problems),
        partial(_read_path, folder),
        problems,
    ):
        images.add(name, path)

    def build(record: Record) -> ComposedQuery:
        names = [record.name("reference")]
        if split == "val":
            names.append(record.name("target_hard"))
        reference, *relevant = images.find(record, names, listed)
        members = images.find(record, _read_members(record), listed)
        if reference in relevant:
            raise MalformedError(f"record {record.key}: the target is the reference image.")
        if not {reference, *relevant} <= set(members):
            raise MalformedError(f"record {record.key}: img_set lacks the reference or the target.")
        subset = tuple(member for member in members if member != reference)
        blank = split != "val" and str(record.field("caption")).isspace()
        texts = () if blank else (record.text("caption"),)
        return ComposedQuery(
            record.name("pairid"), reference, texts, tuple(relevant), subset=subset
        )

    queries = tuple(
        parse_records(
            read_json_records(_find_cirr_file(root, "captions", captions), problems),
            build,
            problems,
        )
    )
    return ComposedSet(
        images=tuple(images.refs),
        galleries=(tuple(range(len(images.refs))),),
        queries=queries,
        recall_at=(1, 5, 10, 50),
        subset_recall_at=(1, 2, 3),
        rule=f"the gallery is the {len(images.refs):,} images of {listed}, not all of CIRR",
    )


def _read_path(folder: Path, record: Record) -> tuple[str, Path]:
    if not isinstance(record.value, str):
        raise MalformedError(f"record {record.key}: an image needs a path.")
    return record.key, safe_join(folder, record.value)


def _read_members(record: Record) -> list[str]:
    return read_names(record.inner(record.field("img_set")), "members")


def _find_cirr_file(root: Path, folder: str, name: str) -> Path:
    try:
        return find_file(root, f"{folder}/{name}", f"cirr/{folder}/{name}", name)
    except InputError:
        raise InputError(f"holds no {folder}/{name}.", file=root) from None


BENCHMARKS = {
    "cirr": Benchmark(CARD, read),
    "cirr-test": Benchmark(TEST_CARD, partial(read, split="test1")),
}
