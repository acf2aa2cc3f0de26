"""NegRefCOCOg and CC-Neg: captions that say what is not there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from contrapose.data.benchmarks.common import find_file, find_image, require_folder
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, Manual, coco_images, github_files
from contrapose.data.examples import Example, single_match
from contrapose.data.images import Box, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json,
    read_json_records,
    read_table_records,
)

REFERENCE_COMMIT = "6f858ee490d5c17d54cbc1862dfd44f74f36324d"

REFERENCE_CARD = Card(
    name="negrefcocog",
    title="NegRefCOCOg: which of the boxes does the phrase with a negation mean?",
    paper="Park et al., Know “No” Better: A Data-Driven Approach for Enhancing Negation Awareness "
    "in CLIP, ICCV 2025 (arXiv:2501.10913)",
    license="annotations MIT; images COCO 2014 (Flickr terms)",
    source="github.com/parkquasar/NegationCLIP (NegRefCOCOg/NegRefCOCOg.json) and COCO train2014",
    layout="NegRefCOCOg.json, here or in NegRefCOCOg/\ntrain2014/*.jpg, or coco_images/train2014/",
    shape="2 × 1",
    family="images",
    counts={"negrefcocog": 440},
    aggregation=Micro(),
    chance={"image": 1 / 2},
    by=(),
    match=((True,), (False,)),
    official_ties="right",
    official="argmax: a tie goes to the first box, which is the right one in all 440 rows: a "
    "constant scorer gets 100 %",
    download=Download(
        REFERENCE_COMMIT,
        github_files(
            "parkquasar/NegationCLIP",
            REFERENCE_COMMIT,
            {
                "NegRefCOCOg.json": (
                    "NegRefCOCOg/NegRefCOCOg.json",
                    232340,
                    "e3519e02c26aa3d507e7cb32f4e202375bc8860b5cb7cb4c34ad436cf063031f",
                )
            },
        ),
        (coco_images("train2014", "train2014", count=402),),
    ),
)


def read_references(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the phrases; the images of an example are the crops of its boxes, in their order.

    Ids are the positions in the file.
    """
    path = find_file(root, "NegRefCOCOg.json", "NegRefCOCOg/NegRefCOCOg.json")

    def build(record: Record) -> Example:
        boxes = record.field("bbox_list")
        if not isinstance(boxes, list) or len(boxes) < 2:
            raise MalformedError(f"record {record.key}: 'bbox_list' must be two or more boxes.")
        crops = [_parse_box(record, box) for box in boxes]
        right = [box == record.field("ref_bbox") for box in boxes]
        if not any(right) or all(right):
            raise MalformedError(
                f"record {record.key}: 'ref_bbox' must be one of the boxes in 'bbox_list'."
            )
        name = record.text("image")
        file = find_image(root, name, "train2014", "coco_images/train2014", "images")
        images = tuple(ImageRef(name, file, crop) for crop in crops)
        match = tuple((value,) for value in right)
        return Example(record.key, images, (record.text("phrase"),), match)

    yield from parse_records(read_json_records(path, problems), build, problems)


LARGEST = 1e6
"""Pixels beyond which no image reaches."""


def _parse_box(record: Record, box: object) -> Box:
    """Parse a box [x, y, width, height] as Pillow crops it: corners rounded to whole pixels."""
    numbers = box if isinstance(box, list) and len(box) == 4 else []
    for number in numbers or [None]:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise MalformedError(f"record {record.key}: a box must be four numbers.")
        if not abs(number) <= LARGEST:
            raise MalformedError(f"record {record.key}: a box is not inside an image.")
    x, y, width, height = numbers
    left, top, right, bottom = (round(value) for value in (x, y, x + width, y + height))
    if left < 0 or top < 0:
        raise MalformedError(f"record {record.key}: a box begins outside its image.")
    if right <= left or bottom <= top:
        raise MalformedError(f"record {record.key}: a box is empty.")
    return left, top, right - left, bottom - top


EVALUATED = 40_000
"""Rows at the end of CC-Neg that are its evaluation split."""

TENSOR_FILE = "ccneg_preprocessed.pt"
CONVERSION = (
    'python -c \'import json, torch; json.dump(torch.load("ccneg_preprocessed.pt", '
    'weights_only=True), open("ccneg.json", "w"))\''
)
"""Command that converts the released file without running code from it."""

NEGATED_CARD = Card(
    name="cc-neg",
    title="CC-Neg: a caption, or the same caption with a part of it denied?",
    paper="Singh et al., Learn “No” to Say “Yes” Better: Improving Vision-Language Models via "
    "Negations, WACV 2025 (arXiv:2403.20312)",
    license="annotations MIT; images Conceptual Captions 3M under their owners' terms",
    source="the links in github.com/jaisidhsingh/CoN-CLIP (ccneg_dataset/README.md)",
    layout=f"ccneg.json, made of the released {TENSOR_FILE} by\n  {CONVERSION}\n"
    "or ccneg.jsonl, .csv or .parquet with image_path, caption, negative_prompt\n"
    "ccneg_images/cc3m_subset_images_extracted_final/*.jpg",
    shape="1 × 2",
    family="choice",
    counts={"cc-neg": EVALUATED},
    aggregation=Micro(),
    chance={"accuracy": 1 / 2},
    by=(),
    match=single_match(2, 0),
    official_ties="right",
    official="argmax: a tie goes to the right caption, which stands first: a constant scorer gets "
    "100 %",
    errata="the released file is a pickle, which this program never opens, and was not seen: its "
    "fields are those that the released script reads. As there, the last 40,000 rows count and "
    "commas of the negated caption are removed",
    download=Manual(
        "https://github.com/jaisidhsingh/CoN-CLIP/tree/main/ccneg_dataset",
        f"download {TENSOR_FILE} and ccneg_images.tar.gz by its links, unpack the images and "
        f"convert the annotations by {CONVERSION}",
    ),
)


def read_negated(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the evaluation split, the last 40,000 rows; ids are the positions within it."""
    require_folder(root)
    names = [f"ccneg{suffix}" for suffix in (".json", ".jsonl", ".csv", ".parquet")]
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None and (root / TENSOR_FILE).is_file():
        raise InputError(
            f"is a pickle, which can run code when it is opened; convert it: {CONVERSION}",
            file=root / TENSOR_FILE,
        )
    if path is None:
        raise InputError(f"holds none of {', '.join(names)}.", file=root)
    dump = path.suffix == ".json"
    records = _list_dump(path) if dump else read_table_records(path, problems)
    last = deque(enumerate(records), maxlen=EVALUATED)
    first = last[0][0] if last else 0

    def build(record: Record) -> Example:
        name = PurePosixPath(record.text("image_path").replace("\\", "/")).name
        folders = ("ccneg_images/cc3m_subset_images_extracted_final", "ccneg_images", "images")
        image = ImageRef(name, find_image(root, name, *folders))
        negated = record.text("negative_prompt").replace(",", "")
        texts = (record.text("caption"), negated)
        return Example(str(int(record.key) - first), (image,), texts, single_match(2, 0))

    numbered = (Record(r.value, r.file, r.line, str(position)) for position, r in last)
    yield from parse_records(numbered, build, problems)


def _list_dump(path: Path) -> Iterable[Record]:
    """List the rows of the converted file, which holds them as two lists of the same length."""
    content = read_json(path)
    fields = content if isinstance(content, dict) else {}
    images, annotations = fields.get("image_paths"), fields.get("annotations")
    if (
        not isinstance(images, list)
        or not isinstance(annotations, list)
        or len(images) != len(annotations)
    ):
        raise InputError(
            "must hold two lists of the same length, 'image_paths' and 'annotations'.", file=path
        )
    for i, (image, annotation) in enumerate(zip(images, annotations, strict=True)):
        row = {"image_path": image, "caption": _inner(annotation, "json", "caption")}
        row["negative_prompt"] = _inner(annotation, "sop_data", "negative-prompt")
        yield Record(row, path, 1, str(i))


def _inner(value: Any, *names: str) -> Any:
    """Value below these keys; None where one is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


BENCHMARKS = {
    "negrefcocog": Benchmark(REFERENCE_CARD, read_references),
    "cc-neg": Benchmark(NEGATED_CARD, read_negated),
}
