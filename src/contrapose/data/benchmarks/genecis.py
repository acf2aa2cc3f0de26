"""GeneCIS: an image and a word to change or to keep, among ten or fifteen candidates.

Object tasks are on whole photographs of COCO; attribute tasks are on objects of Visual Genome, cut
out as the released code does: the box is enlarged, clipped to the photograph and padded to a
square.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from contrapose.data.benchmarks.common import (
    ImagePositions,
    find_file,
    find_folder,
    find_image,
    require_folder,
)
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, coco_images, genome_images, github_files
from contrapose.data.examples import ComposedQuery, ComposedSet
from contrapose.data.images import Box
from contrapose.files import MalformedError, Problems, Record, parse_records, read_json_records

COCO_FOLDERS = ("val2017", "images/val2017", "images")
GENOME_FOLDERS = (
    "VG_100K",
    "VG_100K_2",
    "VG_All",
    "Visual_Genome/VG_All",
    "images/VG_100K",
    "images/VG_100K_2",
    "images",
)
DILATION = 0.7
"""Share of an object's width and height that is added to its box."""

RECALL_AT = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class GenecisTask:
    """Task of GeneCIS.

    Attributes:
        title: the image to find.
        queries: number of queries.
        gallery: images to choose from, the target among them.
    """

    title: str
    queries: int
    gallery: int


TASKS = {
    "change_attribute": GenecisTask("the same kind of object with the named attribute", 2112, 15),
    "change_object": GenecisTask("the same scene with the named object added", 1960, 15),
    "focus_attribute": GenecisTask("another object with the same value of an attribute", 2000, 10),
    "focus_object": GenecisTask("another image that shares the named object", 1960, 15),
}

OBJECT_LAYOUT = "val2017/<12 digits>.jpg"
ATTRIBUTE_LAYOUT = (
    "VG_100K/<id>.jpg and VG_100K_2/<id>.jpg, or VG_All/<id>.jpg, cropped here to instance_bbox.\n"
    "Built from the released code and its description: its files were not seen here"
)


DIGESTS = {
    "change_object": (2270031, "0a5145984f7d8594c457a3609288ae2acfcdb6b72bd0309220e616300c9beac8"),
}
"""Size and SHA-256 of the files that were seen."""


def make_card(name: str, task: GenecisTask) -> Card:
    """Make the card of a task."""
    attribute = name.endswith("attribute")
    images = "Visual Genome (CC BY 4.0)" if attribute else "COCO val 2017 (Flickr terms)"
    size, digest = DIGESTS.get(name, (None, None))
    file = {f"{name}.json": (f"genecis/{name}.json", size, digest)}
    source = genome_images("VG_100K") if attribute else coco_images("val2017", "val2017")
    site = "homes.cs.washington.edu/~ranjay/visualgenome" if attribute else "cocodataset.org"
    return Card(
        name=f"genecis-{name.replace('_', '-')}",
        title=f"GeneCIS, {name.replace('_', ' ')}: {task.title}",
        paper="Vaze et al., GeneCIS: A Benchmark for General Conditional Image Similarity, CVPR "
        "2023 (arXiv:2306.07969)",
        license=f"annotations CC BY-NC 4.0; images {images}",
        source=f"github.com/facebookresearch/genecis (genecis/); images from {site}",
        layout=f"{name}.json, or in genecis/: reference, target, gallery and condition\n"
        + (ATTRIBUTE_LAYOUT if attribute else OBJECT_LAYOUT),
        download=Download(None, github_files("facebookresearch/genecis", "HEAD", file), (source,)),
        shape=f"1 image + 1 word → {task.gallery} images",
        family="composed",
        counts={name: task.queries},
        aggregation=Micro(),
        chance={f"r{k}": k / task.gallery for k in RECALL_AT},
        by=(),
    )


CARDS = {name: make_card(name, task) for name, task in TASKS.items()}


def read(root: Path, problems: Problems, *, task: str) -> ComposedSet:
    """Read the queries of a task; each has its target and the listed images as its gallery.

    The reference image is in no gallery. A target that its gallery lists again counts once.
    """
    require_folder(root)
    folder = find_folder(root, *COCO_FOLDERS)
    images = ImagePositions()
    galleries: list[tuple[int, ...]] = []

    def add(record: Record) -> int:
        if task.endswith("attribute"):
            name, box = record.name("image_id"), _read_instance(record)
            path = find_image(root, f"{name}.jpg", *GENOME_FOLDERS)
            x, y, width, height = box
            return images.add(
                f"{name}:{x:g},{y:g},{width:g},{height:g}", path, dilate_box(*box), square=True
            )
        number = record.integer("val_image_id")
        return images.add(str(number), folder / f"{number:012d}.jpg")

    def build(record: Record) -> ComposedQuery:
        others = record.field("gallery")
        if not isinstance(others, list) or not others:
            raise MalformedError(f"record {record.key}: 'gallery' must be a list of images.")
        text = record.text("condition")
        parts = record.field("reference"), record.field("target"), *others
        reference, target, *rest = (add(record.inner(part)) for part in parts)
        gallery = tuple(dict.fromkeys((target, *rest)))
        if reference in gallery:
            raise MalformedError(f"record {record.key}: the reference image is in its gallery.")
        galleries.append(gallery)
        return ComposedQuery(record.key, reference, (text,), (target,), gallery=len(galleries) - 1)

    path = find_file(root, f"{task}.json", f"genecis/{task}.json")
    queries = tuple(parse_records(read_json_records(path, problems), build, problems))
    return ComposedSet(
        images=tuple(images.refs),
        galleries=tuple(galleries),
        queries=queries,
        recall_at=RECALL_AT,
        rule="each query has a gallery of its own, its target and the other images listed with it",
    )


def _read_instance(record: Record) -> tuple[float, float, float, float]:
    """Read the box of an object: left, top, width and height, which need not be whole."""
    values = record.field("instance_bbox")
    if not isinstance(values, list) or len(values) != 4:
        raise MalformedError(f"record {record.key}: 'instance_bbox' must be a list of 4 numbers.")
    x, y, width, height = (
        record.inner({"instance_bbox": value}).number("instance_bbox") for value in values
    )
    if width <= 0 or height <= 0:
        raise MalformedError(f"record {record.key}: the box of {width:g} × {height:g} is empty.")
    return x, y, width, height


def dilate_box(x: float, y: float, width: float, height: float) -> Box:
    """Enlarge a box as the released code does: to the left and upwards, clipped at 0.

    The right and lower ends lie 1.7 widths and heights further, and are clipped at the image's.
    """
    left, top = max(0.0, x - DILATION * width), max(0.0, y - DILATION * height)
    right, bottom = left + (1 + DILATION) * width, top + (1 + DILATION) * height
    return round(left), round(top), round(right) - round(left), round(bottom) - round(top)


BENCHMARKS = {card.name: Benchmark(card, partial(read, task=task)) for task, card in CARDS.items()}
