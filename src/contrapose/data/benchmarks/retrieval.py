"""COCO and Flickr30k retrieval: every image against every caption; RoCOCO: adversarial captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro, Suite
from contrapose.data.downloads import (
    FLICKR_DOWNLOAD,
    KARPATHY_URL,
    Download,
    RemoteFile,
    coco_images,
    github_files,
)
from contrapose.data.examples import Gallery
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json_records,
)

CAPTIONS_PER_IMAGE = 5
"""Captions of an image that count. A few COCO images have six or seven: papers take the first
five, 25,000 of the 25,010 in the test split, and so does this reader."""

COCO_CARD = Card(
    name="coco-retrieval",
    title="COCO 5K: find the caption of an image, and the image of a caption",
    paper="Chen et al., Microsoft COCO Captions, 2015 (arXiv:1504.00325); split: Karpathy and "
    "Fei-Fei, CVPR 2015 (arXiv:1412.2306)",
    license="annotations CC BY 4.0; images under Flickr terms",
    source="cocodataset.org, and Karpathy's dataset_coco.json or the list coco_karpathy_test.json",
    layout="dataset_coco.json, or coco_karpathy_test.json, or captions_val2017.json or "
    "captions_val2014.json (whole), here or in annotations/\n"
    "val2014/*.jpg, or val2017/ for captions_val2017.json; also below images/ or coco/",
    download=Download(
        None,
        (RemoteFile("coco_karpathy_test.json", f"{KARPATHY_URL}/coco_karpathy_test.json"),),
        (coco_images("val2014", "val2014", count=5000),),
    ),
    shape="5,000 × 25,000",
    family="retrieval",
    counts={"coco-retrieval": 5000},
    aggregation=Micro(),
    chance={},
    by=(),
)

FLICKR_CARD = Card(
    name="flickr30k-retrieval",
    title="Flickr30k 1K: find the caption of an image, and the image of a caption",
    paper="Young et al., From image descriptions to visual denotations, TACL 2014; split: Karpathy "
    "and Fei-Fei, CVPR 2015 (arXiv:1412.2306)",
    license="non-commercial research; images under Flickr terms",
    source="shannon.cs.illinois.edu/DenotationGraph, and Karpathy's dataset_flickr30k.json or the "
    "list flickr30k_test.json",
    layout="dataset_flickr30k.json, or flickr30k_test.json, here or in annotations/\n"
    "flickr30k-images/*.jpg, or images/",
    download=FLICKR_DOWNLOAD,
    shape="1,000 × 5,000",
    family="retrieval",
    counts={"flickr30k-retrieval": 1000},
    aggregation=Micro(),
    chance={},
    by=(),
)

COCO_FOLDERS = (".", "images", "coco", "coco/images", "val2014", "val2017", "images/val2014")
FLICKR_FOLDERS = ("flickr30k-images", "images", "flickr30k_images", ".")


LocateImage = Callable[[str], ImageRef]
ImageCaptions = tuple[ImageRef, tuple[str, ...]]
"""An image and all its captions."""


def read_coco(root: Path, problems: Problems) -> Gallery:
    """Read the COCO gallery, from whichever annotation file exists."""
    files = {
        "dataset_coco.json": _read_karpathy,
        "coco_karpathy_test.json": _read_listed,
        "captions_val2017.json": _read_coco_captions,
        "captions_val2014.json": _read_coco_captions,
    }
    return _build_gallery("coco-retrieval", root, files, COCO_FOLDERS, problems)


def read_flickr(root: Path, problems: Problems) -> Gallery:
    """Read the Flickr30k gallery, from whichever annotation file exists."""
    files = {"dataset_flickr30k.json": _read_karpathy, "flickr30k_test.json": _read_listed}
    return _build_gallery("flickr30k-retrieval", root, files, FLICKR_FOLDERS, problems)


def _build_gallery(
    name: str,
    root: Path,
    files: Mapping[str, Callable[[Path, LocateImage, Problems], Iterator[ImageCaptions]]],
    folders: tuple[str, ...],
    problems: Problems,
) -> Gallery:
    def locate(image: str) -> ImageRef:
        return ImageRef(image, find_image(root, image, *folders))

    path = find_file(root, *(folder + file for file in files for folder in ("", "annotations/")))
    images: list[ImageRef] = []
    texts: list[str] = []
    pairs: list[tuple[int, int]] = []
    for image, captions in files[path.name](path, locate, problems):
        for caption in captions[:CAPTIONS_PER_IMAGE]:
            pairs.append((len(images), len(texts)))
            texts.append(caption)
        images.append(image)
    if not images:
        raise InputError("holds no image with captions in the test split.", file=path)
    return Gallery(name, tuple(images), tuple(texts), tuple(pairs))


def _read_karpathy(path: Path, locate: LocateImage, problems: Problems) -> Iterator[ImageCaptions]:
    """Read `{"images": [{filename, filepath, split, sentences: [{raw}]}]}`, test split only."""

    def build(record: Record) -> ImageCaptions | None:
        if record.text("split") != "test":
            return None
        name, folder = record.text("filename"), record.value.get("filepath")
        captions = [
            record.inner(caption).text("raw") for caption in _read_list(record, "sentences")
        ]
        return locate(f"{folder}/{name}" if folder else name), tuple(captions)

    yield from filter(
        None, parse_records(read_json_records(path, problems, under="images"), build, problems)
    )


def _read_listed(path: Path, locate: LocateImage, problems: Problems) -> Iterator[ImageCaptions]:
    """Read `[{"image": "val2014/….jpg", "caption": ["…", …]}]`."""

    def build(record: Record) -> ImageCaptions:
        captions = [
            record.inner({"caption": caption}).text("caption")
            for caption in _read_list(record, "caption")
        ]
        return locate(record.text("image")), tuple(captions)

    yield from parse_records(read_json_records(path, problems), build, problems)


def _read_coco_captions(
    path: Path, locate: LocateImage, problems: Problems
) -> Iterator[ImageCaptions]:
    """Read `{"images": [{id, file_name}], "annotations": [{image_id, caption}]}`."""
    captions: dict[str, list[str]] = {}

    def note(record: Record) -> None:
        captions.setdefault(record.name("image_id"), []).append(record.text("caption"))

    def build(record: Record) -> ImageCaptions:
        name = record.text("file_name")
        of_image = captions.pop(record.name("id"), None)
        if of_image is None:
            raise MalformedError(f"record {record.key}: the image {name} has no caption.")
        return locate(name), tuple(of_image)

    for _ in parse_records(read_json_records(path, problems, under="annotations"), note, problems):
        pass
    yield from parse_records(read_json_records(path, problems, under="images"), build, problems)
    for image, lost in captions.items():
        message = f"{len(lost)} captions belong to the image {image}, which is not listed."
        problems.report(Problem("malformed record", message, path))


def _read_list(record: Record, name: str) -> list[object]:
    value = record.field(name)
    if not isinstance(value, list) or not value:
        raise MalformedError(f"record {record.key}: {name!r} must be a list with captions.")
    return value


ADVERSARIES = 5
"""Adversarial captions of an image, after its right ones."""

ROCOCO_COMMIT = "ab20e1ab5627643a5179515d389f4eae82a3c25f"

ROCOCO_KINDS = {
    "same-concept": "a word of the caption gives way to one of the same concept",
    "diff-concept": "a word of the caption gives way to one of another concept",
    "rand-voca": "a word of the caption gives way to one from a vocabulary at random",
    "danger": "a word of the caption gives way to a dangerous one",
}


ROCOCO_DOWNLOAD = Download(
    ROCOCO_COMMIT,
    github_files(
        "pseulki/rococo",
        ROCOCO_COMMIT,
        {
            file: (f"annotations/{file}", None, None)
            for file in (f"{kind.replace('-', '_')}.json" for kind in ROCOCO_KINDS)
        },
    ),
    (coco_images("val2014", "val2014", count=5000),),
)


def _rococo_card(kind: str) -> Card:
    file = f"{kind.replace('-', '_')}.json"
    return Card(
        name=f"rococo/{kind}",
        title=f"RoCOCO {kind}: {ROCOCO_KINDS[kind]}",
        paper="Park et al., RoCOCO: Robustness Benchmark of MS-COCO to Stress-test Image-Text "
        "Matching Models, ECCV 2024 workshop (arXiv:2304.10727)",
        license="annotations MIT; images COCO 2014 (Flickr terms)",
        source="github.com/pseulki/rococo (annotations/) and COCO val2014",
        layout=f"{file}, here or in annotations/\nval2014/*.jpg, also below images/ or coco/",
        shape="5,000 × 50,000",
        family="adversarial",
        counts={kind: 5000},
        aggregation=Micro(),
        chance={},
        by=(),
        official="argmax: equal scores go to the later caption; text_to_image needs mixed images, "
        "which its script makes, and is not measured here",
        errata="the released script takes all captions of an image that has 12 for right ones; "
        "here the last five are adversarial",
        download=ROCOCO_DOWNLOAD,
    )


def _read_rococo(kind: str) -> Callable[[Path, Problems], Gallery]:
    file = f"{kind.replace('-', '_')}.json"

    def read(root: Path, problems: Problems) -> Gallery:
        def locate(image: str) -> ImageRef:
            return ImageRef(image, find_image(root, image, *COCO_FOLDERS))

        path = find_file(root, file, f"annotations/{file}")
        images: list[ImageRef] = []
        texts: list[str] = []
        pairs: list[tuple[int, int]] = []
        distractors: list[tuple[int, int]] = []
        for image, captions in _read_listed(path, locate, problems):
            if len(captions) < ADVERSARIES + CAPTIONS_PER_IMAGE:
                message = f"the image {image.key} has {len(captions)} captions, and needs 10."
                problems.report(Problem("malformed record", message, path))
                continue
            for i, caption in enumerate(captions):
                right = i < len(captions) - ADVERSARIES
                (pairs if right else distractors).append((len(images), len(texts)))
                texts.append(caption)
            images.append(image)
        if not images:
            raise InputError("holds no image with captions.", file=path)
        return Gallery(
            kind, tuple(images), tuple(texts), tuple(pairs), distractors=tuple(distractors)
        )

    return read


BENCHMARKS: dict[str, Benchmark | Suite] = {
    "coco-retrieval": Benchmark(COCO_CARD, read_coco),
    "flickr30k-retrieval": Benchmark(FLICKR_CARD, read_flickr),
    "rococo": Suite(
        "rococo",
        "RoCOCO: COCO 5K with adversarial captions, five for each image",
        {kind: Benchmark(_rococo_card(kind), _read_rococo(kind)) for kind in ROCOCO_KINDS},
    ),
}
