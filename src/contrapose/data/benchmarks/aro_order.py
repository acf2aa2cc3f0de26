"""ARO's order sets: a caption among four shuffles of its own words.

The authors release no shuffles: they draw them with spaCy's tags and a global random state. Here
they are drawn with textblob's tags from the caption alone, so that everyone gets the same ones.

Captions are cleaned as the authors do it, but before they are shuffled and not after: all five then
have the same words and the same look, and none can be told by its punctuation or its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import (
    FLICKR_DOWNLOAD,
    KARPATHY_URL,
    Download,
    RemoteFile,
    coco_images,
)
from contrapose.data.examples import Example, single_match
from contrapose.data.images import ImageRef
from contrapose.data.tagging import clean_caption, shuffle_caption, split_words
from contrapose.files import MalformedError, Problems, Record, parse_records, read_json_records

PAPER = (
    "Yuksekgonul et al., When and Why Vision-Language Models Behave like Bags-of-Words, and What "
    "to Do About It?, ICLR 2023 (arXiv:2210.01936); split: Karpathy and Fei-Fei, CVPR 2015"
)
OFFICIAL = (
    "draws other shuffles (spaCy's tags, a global random state), cuts captions to thirty words "
    "after shuffling, and counts ties as right: also with a shuffle that changed nothing"
)

COCO = Card(
    name="aro-coco-order",
    title="ARO COCO-Order: a caption among four shuffles of its words",
    paper=PAPER,
    license="captions COCO (CC BY 4.0); images under Flickr's terms",
    source="COCO val2014, with coco_karpathy_test.json as ARO's code downloads it, or with "
    "Karpathy's dataset_coco.json; the shuffles are drawn here (extra: text)",
    layout="coco_karpathy_test.json or dataset_coco.json, here or in annotations/\n"
    "val2014/*.jpg, here or in images/",
    download=Download(
        None,
        (RemoteFile("coco_karpathy_test.json", f"{KARPATHY_URL}/coco_karpathy_test.json"),),
        (coco_images("val2014", "val2014", count=5000),),
    ),
    shape="1 × 5",
    family="choice",
    counts={"coco": 25010},
    aggregation=Micro(),
    chance={"accuracy": 1 / 5},
    by=(),
    match=single_match(5, 0),
    scores="subset arrays",
    official_ties="right",
    official=OFFICIAL,
)

FLICKR = replace(
    COCO,
    download=FLICKR_DOWNLOAD,
    name="aro-flickr-order",
    title="ARO Flickr30k-Order: a caption among four shuffles of its words",
    license="Flickr30k: for research, on request; images under Flickr's terms",
    source="Flickr30k, with flickr30k_test.json as ARO's code downloads it, or with Karpathy's "
    "dataset_flickr30k.json; the shuffles are drawn here (extra: text)",
    layout="flickr30k_test.json or dataset_flickr30k.json, here or in annotations/\n"
    "flickr30k-images/*.jpg, here or in images/",
    counts={"flickr": 5000},
)

CaptionEntry = tuple[str, list[str]]
"""An image's path, and its captions in the test split."""


def read_coco(root: Path, problems: Problems) -> Iterator[Example]:
    """Read one example per COCO test caption, in file order."""
    return _read(root, "coco_karpathy_test.json", "dataset_coco.json", "val2014", problems)


def read_flickr(root: Path, problems: Problems) -> Iterator[Example]:
    """Read one example per Flickr30k test caption, in file order."""
    return _read(
        root, "flickr30k_test.json", "dataset_flickr30k.json", "flickr30k-images", problems
    )


def _read(
    root: Path, test_file: str, karpathy_file: str, folder: str, problems: Problems
) -> Iterator[Example]:
    names = (test_file, karpathy_file)
    path = find_file(root, *names, *(f"annotations/{name}" for name in names))
    ours = path.name == test_file
    entry: Callable[[Record, str], CaptionEntry] = (
        _parse_test_entry if ours else _parse_karpathy_entry
    )
    records = read_json_records(path, problems, under=None if ours else "images")
    numbers = count()

    def build(record: Record) -> list[Example]:
        name, captions = entry(record, folder)
        options = [_shuffle_options(record, caption) for caption in captions]
        path = find_image(root, name, ".", "images")
        return [
            Example(str(next(numbers)), (ImageRef(name, path),), texts, single_match(5, 0))
            for texts in options
        ]

    for examples in parse_records(records, build, problems):
        yield from examples


def _shuffle_options(record: Record, caption: str) -> tuple[str, ...]:
    if not split_words(clean_caption(caption)):
        raise MalformedError(f"record {record.key}: the caption {caption!r} holds no words.")
    return shuffle_caption(caption)


def _parse_test_entry(record: Record, _: str) -> CaptionEntry:
    """Parse an entry of ARO's own file, which names the image's path."""
    captions = record.field("caption")
    if not isinstance(captions, list):
        raise MalformedError(f"record {record.key}: 'caption' must be a list.")
    texts = [record.inner({"caption": text}).text("caption") for text in captions]
    return record.text("image"), texts


def _parse_karpathy_entry(record: Record, folder: str) -> CaptionEntry:
    """Parse an entry of Karpathy's file; images of other splits get no captions.

    Flickr30k's file does not say where the images lie; they are in `folder` then.
    """
    name = record.text("filename")
    if record.value.get("filepath"):
        folder = record.text("filepath")
    sentences = record.field("sentences")
    if not isinstance(sentences, list):
        raise MalformedError(f"record {record.key}: 'sentences' must be a list.")
    test = sentences if record.text("split") == "test" else []
    return f"{folder}/{name}", [record.inner(one).text("raw") for one in test]


BENCHMARKS = {
    "aro-coco-order": Benchmark(COCO, read_coco),
    "aro-flickr-order": Benchmark(FLICKR, read_flickr),
}
