"""GeneCIS: a COCO photograph and an object to add or to keep, among fifteen candidates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from contrapose.data.benchmarks.common import (
    ImagePositions,
    find_file,
    find_folder,
    require_folder,
)
from contrapose.data.examples import ComposedQuery, ComposedSet
from contrapose.data.registry import Benchmark, Card, Micro
from contrapose.files import MalformedError, Problems, Record, parse_records, read_json_records

FOLDERS = ("val2017", "images/val2017", "images")
TASKS = {
    "change_object": "the same scene with the named object added",
    "focus_object": "another image that shares the named object",
}
RECALL_AT = (1, 2, 3)

CARDS = {
    task: Card(
        name=f"genecis-{task.replace('_', '-')}",
        title=f"GeneCIS, {task.replace('_', ' ')}: {title}",
        paper="Vaze et al., GeneCIS: A Benchmark for General Conditional Image Similarity, CVPR "
        "2023 (arXiv:2306.07969)",
        license="annotations CC BY-NC 4.0; images COCO val 2017 (Flickr terms)",
        source="github.com/facebookresearch/genecis (genecis/); images from cocodataset.org",
        layout=f"{task}.json, or in genecis/: reference, target, gallery and condition\n"
        "val2017/<12 digits>.jpg",
        shape="1 image + 1 word → 15 images",
        family="composed",
        counts={task: 1960},
        aggregation=Micro(),
        chance={f"r{k}": k / 15 for k in RECALL_AT},
        by=(),
    )
    for task, title in TASKS.items()
}


def read(root: Path, problems: Problems, *, task: str) -> ComposedSet:
    """Read the queries of a task; each has its target and 14 other images as its gallery.

    The reference image is in no gallery. A target that its gallery lists again counts once.
    """
    require_folder(root)
    folder = find_folder(root, *FOLDERS)
    images = ImagePositions()
    galleries: list[tuple[int, ...]] = []

    def add(record: Record, value: Any) -> int:
        name = replace(record, value=value).integer("val_image_id")
        return images.add(str(name), folder / f"{name:012d}.jpg")

    def build(record: Record) -> ComposedQuery:
        others = record.field("gallery")
        if not isinstance(others, list) or not others:
            raise MalformedError(f"record {record.key}: 'gallery' must be a list of images.")
        text = record.text("condition")
        reference = add(record, record.field("reference"))
        target = add(record, record.field("target"))
        gallery = tuple(dict.fromkeys((target, *(add(record, other) for other in others))))
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


BENCHMARKS = {card.name: Benchmark(card, partial(read, task=task)) for task, card in CARDS.items()}
