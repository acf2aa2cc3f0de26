"""CIRCO: a COCO photograph and what should differ, with every right answer labeled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from contrapose.data.benchmarks.common import (
    ImagePositions,
    find_file,
    find_folder,
    read_names,
    require_folder,
)
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import COCO_URL, Download, RemoteFile, coco_images, github_files
from contrapose.data.examples import ComposedQuery, ComposedSet
from contrapose.files import MalformedError, Problems, Record, parse_records, read_json_records

FOLDERS = ("COCO2017_unlabeled/unlabeled2017", "unlabeled2017", "images")
LISTS = (
    "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json",
    "annotations/image_info_unlabeled2017.json",
    "image_info_unlabeled2017.json",
)

IMAGES = (coco_images("COCO2017_unlabeled/unlabeled2017", "unlabeled2017", count=123403),)
GALLERY = RemoteFile(
    "COCO2017_unlabeled", f"{COCO_URL}/annotations/image_info_unlabeled2017.zip", unpack="zip"
)
VAL_COMMIT = "6db0150476ffcee0f60ea1d8fb04d15e6845f5db"
TEST_COMMIT = "ef0817a18c39f2917b0a9135d32b33474fbf6335"


CARD = Card(
    name="circo",
    title="CIRCO: a photograph and what should differ, several right answers, validation split",
    paper="Baldrati et al., Zero-Shot Composed Image Retrieval with Textual Inversion, ICCV 2023 "
    "(arXiv:2303.15247)",
    license="annotations CC BY-NC 4.0; images COCO 2017 unlabeled (Flickr terms)",
    source="github.com/miccunifi/CIRCO (annotations/); images and image_info_unlabeled2017.json "
    "from cocodataset.org",
    layout="annotations/val.json\n"
    "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json: the gallery\n"
    "COCO2017_unlabeled/unlabeled2017/<12 digits>.jpg, or unlabeled2017/",
    download=Download(
        VAL_COMMIT,
        (
            *github_files(
                "miccunifi/CIRCO",
                VAL_COMMIT,
                {
                    "annotations/val.json": (
                        "annotations/val.json",
                        111978,
                        "6b31a1dbc3c85627501d9a250f87708f24a27d74d6a65360b6ddd2537a154d04",
                    ),
                },
            ),
            GALLERY,
        ),
        IMAGES,
    ),
    shape="1 image + 1 text → 123,403 images",
    family="composed",
    counts={"val": 220},
    aggregation=Micro(),
    chance={},
    tags={"aspect": "semantic aspects of the text: cardinality, negation, viewpoint, …"},
    by=("aspect",),
)

TEST_CARD = replace(
    CARD,
    download=Download(
        TEST_COMMIT,
        (
            *github_files(
                "miccunifi/CIRCO",
                TEST_COMMIT,
                {
                    "annotations/test.json": (
                        "annotations/test.json",
                        167660,
                        "2f7c37e89220c990b6b0525d6f3ed63d3fc02e03ce336aa42a3b822841b14886",
                    ),
                },
            ),
            GALLERY,
        ),
        IMAGES,
    ),
    name="circo-test",
    title="CIRCO: test split, whose right answers only the evaluation server knows",
    layout=CARD.layout.replace("val.json", "test.json"),
    counts={"test": 800},
    tags={},
    by=(),
)


def read(root: Path, problems: Problems, *, split: str = "val") -> ComposedSet:
    """Read the queries of a split; the gallery is all of COCO 2017 unlabeled.

    The gallery is COCO's list of images; without that file the images of the folder; without those
    only the images that the annotations name, which is enough to measure a submission. The
    reference image stays in the gallery, as in the official evaluation.
    """
    require_folder(root)
    annotations = find_file(root, f"annotations/{split}.json", f"{split}.json")
    folder = find_folder(root, *FOLDERS)
    images = ImagePositions()
    rule = _add_gallery(root, folder, images, problems)

    def add(record: Record, names: list[str]) -> tuple[int, ...]:
        if rule:
            return images.find(record, names, "the gallery")
        return tuple(images.add(name, _image_path(folder, name)) for name in names)

    def build(record: Record) -> ComposedQuery:
        (reference,) = add(record, [str(record.integer("reference_img_id"))])
        relevant: tuple[int, ...] = ()
        tags = {}
        if split == "val":
            numbers = read_names(record, "gt_img_ids")
            if not all(name.isdecimal() and name.isascii() for name in numbers):
                raise MalformedError(f"record {record.key}: 'gt_img_ids' must be whole numbers.")
            relevant = add(record, numbers)
            if not relevant:
                raise MalformedError(f"record {record.key}: 'gt_img_ids' is empty.")
            if isinstance(record.value, dict) and "semantic_aspects" in record.value:
                tags = {"aspect": tuple(read_names(record, "semantic_aspects"))}
        text = record.text("relative_caption")
        return ComposedQuery(record.name("id"), reference, (text,), relevant, tags=tags)

    queries = tuple(parse_records(read_json_records(annotations, problems), build, problems))
    return ComposedSet(
        images=tuple(images.refs),
        galleries=(tuple(range(len(images.refs))),),
        queries=queries,
        precision_at=(5, 10, 25, 50),
        keep_reference=True,
        rule=rule or "the gallery is only the images that the annotations name: no official result",
        listed=bool(rule),
    )


def _add_gallery(root: Path, folder: Path, images: ImagePositions, problems: Problems) -> str:
    """Add COCO's images, and say which; nothing where neither list nor folder is there."""
    listed = next((root / name for name in LISTS if (root / name).is_file()), None)
    if listed is not None:
        records = read_json_records(listed, problems, under="images")
        for name in parse_records(records, lambda record: str(record.integer("id")), problems):
            images.add(name, _image_path(folder, name))
        return f"the gallery is the {len(images.refs):,} images of {listed.name}"
    for name in _folder_names(folder):
        images.add(name, _image_path(folder, name))
    return f"the gallery is the {len(images.refs):,} images of {folder.name}/" * bool(images.refs)


def _folder_names(folder: Path) -> Iterator[str]:
    files = sorted(folder.glob("*.jpg")) if folder.is_dir() else ()
    yield from (str(int(file.stem)) for file in files if file.stem.isdecimal())


def _image_path(folder: Path, name: str) -> Path:
    return folder / f"{name.zfill(12)}.jpg"


BENCHMARKS = {
    "circo": Benchmark(CARD, read),
    "circo-test": Benchmark(TEST_CARD, partial(read, split="test")),
}
